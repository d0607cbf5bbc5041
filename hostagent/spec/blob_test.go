package spec_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/seed"
)

// decodeWith decodes a spec beside which the file "f" holds data.
func decodeWith(text string, data []byte) (spec.Spec, error) {
	return spec.DecodeTOML("p", "p.toml", []byte(minimal+text), catalog(), func(string) ([]byte, error) { return data, nil })
}

// TestI07_DocumentBytes: vendor data and network-config are read as user-data
// is; vendor data that is empty is not the same as none.
func TestI07_DocumentBytes(t *testing.T) {
	t.Parallel()
	const config = "version: 2\r\n# größe\r\n"
	gz := zipped(t, cloudConfig)
	for _, tt := range []struct {
		text, file string
		vendor     []byte
		network    string
	}{
		{"", "", nil, ""},
		{"vendor_data = ''", "", []byte{}, ""},
		{"vendor_data_base64 = ''", "", []byte{}, ""},
		{"vendor_data_file = 'f'", "", []byte{}, ""},
		{"vendor_data = 'eA=='", "", []byte("eA=="), ""},
		{"vendor_data_base64 = 'eA=='", "", []byte("x"), ""},
		{"vendor_data_file = 'f'", string(gz), gz, ""},
		{"network_config = ''", "", nil, ""},
		{"network_config_file = 'f'", config, nil, config},
		{"network_config = '''\r\n" + config + "'''", "", nil, config},
		{"network_config_base64 = '" + base64.StdEncoding.EncodeToString([]byte(config)) + "'", "", nil, config},
	} {
		var file []byte
		if tt.file != "" {
			file = []byte(tt.file)
		}
		s, err := decodeWith(tt.text, file)
		if err != nil {
			t.Errorf("%.100s: %v", tt.text, err)
			continue
		}
		in := s.SeedInput("i-0123456789abcdef", nil)
		if !bytes.Equal(in.VendorData, tt.vendor) || (in.VendorData == nil) != (tt.vendor == nil) {
			t.Errorf("%.100s: vendor data %q, nil: %v", tt.text, in.VendorData, in.VendorData == nil)
		}
		if string(in.NetworkConfig) != tt.network {
			t.Errorf("%.100s: network-config %q; want %q", tt.text, in.NetworkConfig, tt.network)
		}
	}
}

func TestDocumentProblems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		file []byte
		want string
	}{
		{"vendor_data = 'x'\nvendor_data_base64 = 'eA=='", nil, "p.toml:4:1: vendor_data_base64: is given beside vendor_data; give at most one of vendor_data, vendor_data_file, vendor_data_base64"},
		{"network_config_file = 'f'\nnetwork_config = 'version: 2'", nil, "p.toml:3:1: network_config_file: is given beside network_config; give at most one of network_config, network_config_file, network_config_base64"},
		{"vendor_data_base64 = 'e'", nil, "p.toml:3:1: vendor_data_base64: is not base64: it breaks at character 1 of 1; want the standard alphabet, padded with \"=\""},
		{"vendor_data_file = '../f'", nil, "p.toml:3:1: vendor_data_file: \"../f\" has parts that lead elsewhere (\"..\", \".\", a double or final slash); want a file beneath the spec's directory, such as \"squid.yaml\""},
		{"vendor_data_file = 'f'", make([]byte, seed.MaxVendorData+1), "p.toml:3:1: vendor_data_file: is 8388609 bytes long; at most 8388608 are allowed"},
		{"network_config_file = 'f'", make([]byte, seed.MaxNetworkConfig+1), "p.toml:3:1: network_config_file: is 1048577 bytes long; at most 1048576 are allowed"},
		{"\nnetwork_config = '- a list'", nil, "p.toml:4:1: network_config: is a YAML list; a mapping such as \"version: 2\" is needed"},
		{"network_config_file = 'f'", []byte("\xff"), "p.toml:3:1: network_config_file: is not UTF-8 text; cloud-init could not read it"},
		{"vendor_data_file = 'f'", []byte("MIME-Version: 1.0\n\n\xfc"), "p.toml:3:1: vendor_data_file: is a MIME document that is not UTF-8; cloud-init would stop at it: encode its parts in base64"},
		{"[vars]\n1a = 'x'\ndsmode = 'x'\n\"a b\" = ''\nn = 481516\nb = 'ci-b64:hunter2'\ne = '😀'", nil, `p.toml:4:1: vars.1a: a name is a letter or underscore, then at most 63 letters, digits, underscores or hyphens
p.toml:5:1: vars.dsmode: cloud-init gives this name a meaning of its own; choose another
p.toml:6:1: vars."a b": a name is a letter or underscore, then at most 63 letters, digits, underscores or hyphens
p.toml:7:1: vars.n: is an integer; want a string
p.toml:8:1: vars.b: the value starts with "ci-b64:", which cloud-init would decode
p.toml:9:1: vars.e: the value has a character above U+FFFF, such as an emoji, which older guests can not read`},
		{"[vars]\na = '" + strings.Repeat("x", seed.MaxMetaData) + "'", nil, "p.toml:3:2: vars: make a meta-data document that is 65601 bytes long, the limit is 65536"},
	} {
		_, err := decodeWith(tt.text, tt.file)
		if err == nil {
			t.Errorf("%.100s: was accepted", tt.text)
		} else if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
			t.Errorf("%.100s (-want +got):\n%s", tt.text, diff)
		}
	}
}

func TestVars(t *testing.T) {
	t.Parallel()
	s, err := decodeWith("[vars]\nupstream = 'isp-a'\n_a-B = ''\nquoted = \"a\\u0000\\n\\\"\"", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"upstream": "isp-a", "_a-B": "", "quoted": "a\x00\n\""}
	if diff := cmp.Diff(want, s.SeedInput("i-0123456789abcdef", nil).Vars); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestI12_NothingPrintsASecret: a canary in each secret part of a spec, however
// the spec is printed, and in what is refused.
func TestI12_NothingPrintsASecret(t *testing.T) {
	t.Parallel()
	const canary = "hunter2canary"
	seen := func(text string) bool {
		packed := base64.StdEncoding.EncodeToString([]byte(canary))[:12]
		return strings.Contains(text, canary) || strings.Contains(text, packed) || strings.Contains(text, fmt.Sprintf("%x", canary[:8])) || strings.Contains(text, "104 117 110")
	}
	s, err := decodeWith("user_data = '"+canary+"'\nvendor_data = '"+canary+"'\nnetwork_config = 'a: "+canary+"'\nvars.a = '"+canary+"'", nil)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("spec", "spec", s, "vars", s.Vars)
	slog.New(slog.NewTextHandler(&log, nil)).Info("spec", "spec", s, "vars", s.Vars)
	object, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if text := fmt.Sprintf(verb+verb+verb, s, &s, s.Vars); seen(text) {
			t.Errorf("%s prints %s", verb, text)
		}
	}
	if text := log.String() + string(object) + strings.Join(s.Warnings(), "\n"); seen(text) {
		t.Errorf("shown: %s", text)
	}
	for _, text := range []string{
		"vars.dsmode = '" + canary + "'", "vars.a = 'ci-b64:" + canary + "'", "vars.a = {b = '" + canary + "'}", "vars.a = ['" + canary + "']", "vars = '" + canary + "'",
		"vendor_data_base64 = '" + canary + "!'", "network_config = '" + canary + "'", "network_config = ['" + canary + "']", "vars.a = '" + strings.Repeat(canary, 6000) + "'",
		"vars.a = '" + canary + "😀'", "[vars]\na = 'x' " + canary,
	} {
		if _, err := decodeWith(text, nil); err == nil || seen(err.Error()) {
			t.Errorf("%.100s: error %v", text, err)
		}
	}
	for _, text := range []string{`"vars": {"a": "` + canary + `\ud800"}`, `"vars": {"a": ["` + canary + `"]}`, `"vars": {"a": "` + canary, `"vars": {"a": "x" ` + canary + `}`, `"network_config": "` + canary + `"`} {
		if _, err := decodeJSON(minimalJSON + ", " + text + "}"); err == nil || seen(err.Error()) {
			t.Errorf("%s: error %v", text, err)
		}
	}
	if _, err := decodeJSON(minimalJSON + `, "vars": {"pin": 481516}, "user_data": 481516}`); err == nil || strings.Contains(err.Error(), "481516") {
		t.Errorf("numbers that are no strings: error %v", err)
	}
}
