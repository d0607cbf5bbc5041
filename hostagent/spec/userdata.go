package spec

import (
	"encoding/base64"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
	"github.com/egress-proxies/egress-hostagent/seed"
)

// userDataKeys are the keys of which one may give user-data.
var userDataKeys = []string{"user_data", "user_data_file", "user_data_base64"}

// userData reads the guest's user-data from the one key of three that gives
// it. Nothing is ever rewritten (invariant 7):
//
//   - user_data: the bytes of the TOML string. TOML itself takes away the first
//     newline after the opening quotes, resolves the escapes of a string in
//     double quotes, and nothing else: a spec with CRLF line ends ships CRLF.
//   - user_data_file: the file's bytes.
//   - user_data_base64: what is left after removing exactly one layer.
func userData(t *doc.Table, open Opener) Secret {
	given := slices.DeleteFunc(slices.Clone(userDataKeys), func(key string) bool { return !t.Has(key) })
	for _, key := range given[min(1, len(given)):] {
		t.Fail(key, "is given beside %s; give at most one of %s", given[0], strings.Join(userDataKeys, ", "))
	}
	data := []byte(nil)
	if text, ok := t.String("user_data"); ok {
		data = []byte(text)
	}
	if decoded, ok := doc.Text(t, "user_data_base64", decodeBase64); ok {
		data = decoded
	}
	if rel, ok := doc.Text(t, "user_data_file", relativeFile); ok && len(given) == 1 {
		data = readFile(t, rel, open)
	}
	if len(data) > seed.MaxUserData && len(given) == 1 {
		t.Fail(given[0], "is %d bytes long; at most %d are allowed", len(data), seed.MaxUserData)
	}
	return data
}

// decodeBase64 removes one layer. Blanks and newlines do not count.
func decodeBase64(text string) ([]byte, error) {
	packed := strings.Join(strings.Fields(text), "")
	data, err := base64.StdEncoding.Strict().DecodeString(packed)
	if at, ok := err.(base64.CorruptInputError); ok {
		return nil, fmt.Errorf("is not base64: it breaks at character %d of %d; want the standard alphabet, padded with \"=\"", int64(at)+1, len(packed))
	}
	return data, err
}

// relativeFile checks that a path names something beneath the directory it is
// relative to, as far as its text shows.
func relativeFile(rel string) (string, error) {
	const allowed = "want a file beneath the spec's directory, such as \"squid.yaml\""
	switch {
	case rel == "" || strings.ContainsFunc(rel, isControl):
		return "", fmt.Errorf("%q is no file's path; %s", clip(rel), allowed)
	case path.IsAbs(rel):
		return "", fmt.Errorf("%q is an absolute path; %s", clip(rel), allowed)
	case !filepath.IsLocal(rel) || path.Clean(rel) != rel || rel == ".":
		return "", fmt.Errorf("%q has parts that lead elsewhere (\"..\", \".\", a double or final slash); %s", clip(rel), allowed)
	}
	return rel, nil
}

func readFile(t *doc.Table, rel string, open Opener) []byte {
	if open == nil {
		t.Fail("user_data_file", "no file can be named here; give user_data or user_data_base64")
		return nil
	}
	data, err := open(rel)
	if err != nil {
		t.Fail("user_data_file", "%v", err)
		return nil
	}
	return data
}

func isControl(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }
