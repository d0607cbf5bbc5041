package seed

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSeed11_MetaDataForm(t *testing.T) {
	t.Parallel()
	in := Input{InstanceID: "0123", Hostname: "on", Vars: map[string]string{
		"z": "1e3", "a": "yes", "quote": `"'\`, "mid": "gr\u00f6\u00dfe \u2713", "tmpl": "{{ v1 }} $HOME %d", "html": "<a>"}}
	want := `{"a":"yes","html":"\u003ca\u003e","instance-id":"0123","local-hostname":"on",` +
		`"mid":"gr\u00f6\u00dfe \u2713","quote":"\"'\\","tmpl":"{{ v1 }} $HOME %d","z":"1e3"}` + "\n"
	if diff := cmp.Diff(want, string(in.metaData())); diff != "" {
		t.Errorf("meta-data (-want +got):\n%s", diff)
	}
}

func TestMetaDataWithoutHostname(t *testing.T) {
	t.Parallel()
	got := string(Input{InstanceID: "i-1"}.metaData())
	if want := `{"instance-id":"i-1"}` + "\n"; got != want {
		t.Errorf("meta-data %q, want %q", got, want)
	}
}

// Every character that may be in a value survives, and none of those that YAML
// folds or rejects is in the document raw.
func TestSeed11_MetaDataValuesSurvive(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for r := rune(0); r <= 0xffff; r++ {
		if (r < 0xd800 || r > 0xdfff) && !(r >= 0x100 && r%7 != 0) {
			all.WriteRune(r)
		}
	}
	all.WriteString("\u2028\u2029\uFEFF\uFFFE\uFFFF")
	in := Input{InstanceID: "i-1", Vars: map[string]string{"v": all.String()}}
	if problem := varValueProblem(all.String()); problem != "" {
		t.Fatal(problem)
	}
	doc := in.metaData()
	for i, c := range doc[:len(doc)-1] {
		if c < 0x20 || c > 0x7e {
			t.Fatalf("byte %#x at %d is not printable ASCII", c, i)
		}
	}
	var got map[string]string
	if err := json.Unmarshal(doc, &got); err != nil {
		t.Fatal(err)
	}
	if got["v"] != all.String() {
		t.Error("value changed on its way")
	}
}

func TestVarsRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		key, value string
		ok         bool
	}{
		{"upstream", "isp-a", true},
		{"_x-1", "", true},
		{"region", "eu", true},
		{"", "v", false},
		{"1a", "v", false},
		{"a.b", "v", false},
		{"a b", "v", false},
		{"<<", "v", false},
		{"a\n", "v", false},
		{strings.Repeat("k", 64), "v", true},
		{strings.Repeat("k", 65), "v", false},
		{"instance-id", "v", false},
		{"instance_id", "v", false},
		{"Local-Hostname", "v", false},
		{"hostname", "v", false},
		{"public-keys", "v", false},
		{"dsmode", "disabled", false},
		{"seedfrom", "http://192.0.2.1/", false},
		{"network-interfaces", "v", false},
		{"launch-index", "1", false},
		{"placement", "v", false},
		{"user-data", "v", false},
		{"latin", "\xfc", false},
		{"emoji", "\U0001F98A", false},
		{"tagged", "ci-b64:aGFsbG8=", false},
		{"nul", "\x00", true},
	} {
		t.Run(test.key+"="+test.value, func(t *testing.T) {
			t.Parallel()
			err := Input{InstanceID: "i", Vars: map[string]string{test.key: test.value}}.Validate()
			if got := err == nil; got != test.ok {
				t.Errorf("accepted: %t, want %t (%v)", got, test.ok, err)
			}
		})
	}
}

func TestI12_ErrorsShowNoValues(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	in := Input{InstanceID: "i", Vars: map[string]string{"a": "ci-b64:" + secret, "b": secret + "\xfc", "dsmode": secret},
		NetworkConfig: []byte("- " + secret), VendorData: []byte("MIME-Version: 1.0\n\n" + secret + "\xfc"), GuestAgent: true}
	_, err := Build(in)
	if n := len(fields(err)); n != 5 {
		t.Fatalf("%d problems, want 5: %v", n, err)
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("secret in %q", err)
	}
}
