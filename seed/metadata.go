package seed

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// reservedVars are the meta-data keys a variable must not set, hyphens for
// underscores: those cloud-init acts on (seedfrom replaces the whole seed,
// dsmode can drop it, launch-index leaves out parts of user-data, a placement
// that is a string stops the data source) and the names of the seed's own files.
var reservedVars = []string{
	"instance-id", "local-hostname", "hostname", "public-keys", "dsmode", "seedfrom",
	"network-interfaces", "cloud-name", "launch-index", "placement",
	UserDataFile, MetaDataFile, VendorDataFile, NetworkConfigFile,
}

var varKeyForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)

// checkVars names every unusable variable, in key order, and never shows a
// value.
func (in Input) checkVars() []error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(in.Vars)) {
		if err := CheckVar(key, in.Vars[key]); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// CheckVar tells whether Input.Vars may have key with value. The error is an
// *InputError, which never shows the value.
func CheckVar(key, value string) error {
	problem := varKeyProblem(key)
	if problem == "" {
		problem = varValueProblem(value)
	}
	if problem == "" {
		return nil
	}
	return &InputError{fmt.Sprintf("vars[%q]", clip(key)), problem}
}

// varKeyProblem returns why a key can not be a variable, or "". Underscore and
// hyphen count as one in the comparison with reserved keys, because cloud-init
// offers a key with hyphens to templates under the name with underscores too.
func varKeyProblem(key string) string {
	if !varKeyForm.MatchString(key) {
		return "a name is a letter or underscore, then at most 63 letters, digits, underscores or hyphens"
	}
	if slices.Contains(reservedVars, strings.ToLower(strings.ReplaceAll(key, "_", "-"))) {
		return "cloud-init gives this name a meaning of its own; choose another"
	}
	return ""
}

// varValueProblem returns why a value would not reach the guest as it is, or "".
func varValueProblem(value string) string {
	switch {
	case !utf8.ValidString(value):
		return "the value is not UTF-8"
	case strings.HasPrefix(value, "ci-b64:"):
		return `the value starts with "ci-b64:", which cloud-init would decode`
	case strings.ContainsFunc(value, func(r rune) bool { return r > 0xffff }):
		// JSON can write such a character only raw, which PyYAML before 5.1
		// refuses, or as two surrogates, which YAML does not join. Either way
		// the guest would lose its whole meta-data.
		return "the value has a character above U+FFFF, such as an emoji, which older guests can not read"
	}
	return ""
}

// metaData returns the meta-data document.
func (in Input) metaData() []byte {
	keys := in.guestKeys()
	keys["instance-id"] = in.InstanceID
	return asciiJSON(keys)
}

// guestKeys returns the meta-data keys that describe the guest, that is all but
// its instance-id.
func (in Input) guestKeys() map[string]string {
	keys := make(map[string]string, len(in.Vars)+2)
	maps.Copy(keys, in.Vars)
	if in.Hostname != "" {
		keys["local-hostname"] = in.Hostname
	}
	return keys
}

// asciiJSON returns the map as one line of JSON with sorted keys and no byte
// outside printable ASCII. Quoted JSON is YAML that retypes nothing; without the
// escapes YAML would fold U+0085 into a blank and reject DEL and the C1 controls.
func asciiJSON(keys map[string]string) []byte {
	raw, _ := json.Marshal(keys) // strings in a map can not fail to encode
	out := make([]byte, 0, len(raw)+1)
	for _, r := range string(raw) {
		if r < 0x7f {
			out = append(out, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return append(out, '\n')
}
