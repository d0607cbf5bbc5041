package spec_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// storedWith gives complete as stored, with other members.
func storedWith(t testing.TB, members map[string]any) []byte {
	t.Helper()
	data, err := spec.Encode(complete())
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	for key, value := range members {
		if object[key] = value; value == nil {
			delete(object, key)
		}
	}
	if data, err = json.Marshal(object); err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDecodeStoredProblems(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	const version = "stored spec: version: is missing or another than 1, the one that this agent reads"
	for _, tt := range []struct {
		name    string
		members m
		want    string
	}{
		{"newer version", m{"version": 2, "surprise": 1}, version},
		{"older version", m{"version": 0}, version},
		{"no version", m{"version": nil}, version},
		{"version of another type", m{"version": "1"}, version},
		{"unknown key", m{"Name": "x"}, `stored spec: Name: unknown key; did you mean "name"?`},
		{"key of a spec file alone", m{"user_data": "x", "user_data_base64": nil}, "stored spec: user_data: unknown key; a stored spec has it in base64"},
		{"unknown key inside", m{"probe": m{"type": "tcp", "port": 1}}, "stored spec: probe.port: unknown key; allowed: credentials_file, expect_status, target, type, url"},
		{"key of a network inside", m{"network": []m{{"network": "a", "mac": "x"}}}, "stored spec: network[0].mac: unknown key; allowed: address, bridge, clean_traffic, direct, dns, gateway, inbound, isolated, network, outbound, vlan"},
		{"name", m{"name": "../x"}, `stored spec: name: proxy name "../x": a name becomes a file name, and this one would leave the image tree; allowed: a letter or digit, then letters, digits, "_", "." and "-"`},
		{"own digest", m{"own": strings.Repeat("A", 32)}, "stored spec: own: is 32 characters that are not 32 hex digits"},
		{"image key", m{"image": "-x"}, `stored spec: image: image name "-x": a name becomes an argument of commands, and this one would be read as an option; allowed: a letter or digit, then letters, digits, "_", "." and "-"`},
		{"image path", m{"image_source": "images/x"}, "stored spec: image_source: is neither an absolute path nor an https URL"},
		{"image by http", m{"image_source": "http://x/"}, "stored spec: image_source: is neither an absolute path nor an https URL"},
		{"image path of two lines", m{"image_source": "/a\nb"}, "stored spec: image_source: is longer than 4095 bytes or has control characters"},
		{"image digest", m{"image_sha256": "12"}, "stored spec: image_sha256: is 2 characters that are not 64 hex digits"},
		{"image format", m{"image_format": "vmdk"}, `stored spec: image_format: is 4 characters that are not "qcow2" or "raw"`},
		{"cpus", m{"cpus": 65}, "stored spec: cpus: 65 is out of bounds; want an integer from 1 to 64"},
		{"float", m{"cpus": 1.5}, "stored spec: cpus: is the number 1.5; want an integer from 1 to 64"},
		{"memory", m{"memory": "64MiB"}, "stored spec: memory: 64MiB is out of bounds; want 128MiB to 1TiB"},
		{"disk", m{"disk": "1B"}, `stored spec: disk: "1B" is not a size; want a whole number and one of KiB, MiB, GiB, TiB, such as "1536MiB"`},
		{"port", m{"port": 0}, "stored spec: port: 0 is out of bounds; want an integer from 1 to 65535"},
		{"no network", m{"network": []m{}}, "stored spec: network: is empty; want at least one [[network]], or leave it out"},
		{"probe without a status", m{"probe": m{"type": "http", "url": "http://x/"}}, "stored spec: probe.expect_status: is missing"},
		{"probe without a URL", m{"probe": m{"type": "http", "expect_status": 204}}, `stored spec: probe.url: is missing; a probe of type "http" needs the URL to ask for through the proxy`},
		{"probe without a type", m{"probe": m{}}, "stored spec: probe.type: is missing"},
		{"label", m{"labels": m{"a-b": "x"}}, `stored spec: labels.a-b: is no label name; want letters, digits and "_", no digit first, not "__" first, at most 63 bytes`},
		{"word", m{"on_change": "off"}, `stored spec: on_change: "off" is not known; want "apply" or "hold"`},
		{"drain", m{"drain": "2h"}, `stored spec: drain: "2h" is not a duration that is allowed; want a number with its unit, from "0s" to "1h0m0s"`},
		{"keys of a spec file alone", m{"vendor_data": "x", "vendor_data_base64": nil, "network_config_file": "x", "network_config_base64": nil},
			"stored spec: network_config_file: unknown key; a stored spec has its content in base64\nstored spec: vendor_data: unknown key; a stored spec has it in base64"},
		{"credentials by their key", m{"probe": m{"type": "connect", "target": "x:1", "credentials": "probe"}}, "stored spec: probe.credentials: unknown key; a stored spec has the path of their file"},
		{"credentials nowhere", m{"probe": m{"type": "connect", "target": "x:1", "credentials_file": "c"}}, "stored spec: probe.credentials_file: is not an absolute path"},
		{"variable", m{"vars": m{"instance-id": "hunter2"}}, "stored spec: vars.instance-id: cloud-init gives this name a meaning of its own; choose another"},
		{"bandwidth", m{"network": []m{{"network": "a", "inbound": "1"}}}, `stored spec: network[0].inbound: "1" is no bandwidth; want a whole number and one of kbit/s, Mbit/s, Gbit/s, such as "100Mbit/s"`},
		{"user-data", m{"user_data_base64": "hunter2!"}, `stored spec: user_data_base64: is not base64: it breaks at character 8 of 8; want the standard alphabet, padded with "="`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := spec.DecodeStored(storedWith(t, tt.members))
			if diff := cmp.Diff(tt.want, fmt.Sprint(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(spec.Spec{}, got, compareAddresses); diff != "" {
				t.Errorf("a broken document gave a spec:\n%s", diff)
			}
		})
	}
}

// TestDecodeStoredMissesEveryKey: no key is silently taken for its zero value,
// but for those that a spec may lack.
func TestDecodeStoredMissesEveryKey(t *testing.T) {
	t.Parallel()
	var object map[string]any
	if err := json.Unmarshal(storedWith(t, nil), &object); err != nil {
		t.Fatal(err)
	}
	optional := map[string]bool{"machine_type": true, "labels": true, "user_data_base64": true, "vendor_data_base64": true, "network_config_base64": true, "vars": true}
	for key := range object {
		_, err := spec.DecodeStored(storedWith(t, map[string]any{key: nil}))
		if (err == nil) != optional[key] || err != nil && !strings.Contains(err.Error(), key+": is missing") {
			t.Errorf("without %s: error %v", key, err)
		}
	}
}

// TestI12_StoredErrorsQuoteNoUserData: documents that break in and around the
// user-data, which is in them in base64.
func TestI12_StoredErrorsQuoteNoUserData(t *testing.T) {
	t.Parallel()
	s := complete()
	s.UserData = spec.Secret(strings.Repeat("hunter2", 20))
	data, err := spec.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	packed := base64.StdEncoding.EncodeToString(s.UserData)
	text := string(data)
	at := strings.Index(text, packed)
	if at < 0 {
		t.Fatal("the user-data is not in the document")
	}
	for name, broken := range map[string]string{
		"empty":             "",
		"blank":             " \n",
		"null":              "null",
		"a string":          `"` + packed + `"`,
		"an array":          "[" + text + "]",
		"cut in user-data":  text[:at+40],
		"cut at the end":    text[:len(text)-1],
		"not UTF-8":         text[:at+40] + "\xff" + text[at+41:],
		"raw newline":       text[:at+40] + "\n" + text[at+40:],
		"stray quote":       text[:at+40] + `"` + text[at+40:],
		"not base64":        text[:at+40] + "!" + text[at+40:],
		"escape that is no": text[:at+40] + `\h` + text[at+40:],
		"trailing data":     text + packed,
		"a second document": text + text,
	} {
		_, err := spec.DecodeStored([]byte(broken))
		if err == nil {
			t.Errorf("%s: was accepted", name)
			continue
		}
		if len(err.Error()) > 500 || strings.Contains(err.Error(), packed[:8]) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: error %.600v", name, err)
		}
	}
	for _, white := range []string{" " + text + "\n", strings.ReplaceAll(text, `,"`, ",\n  \"")} {
		if _, err := spec.DecodeStored([]byte(white)); err != nil {
			t.Errorf("with white space: %v", err)
		}
	}
}

// FuzzDecodeStored: no document panics, and what is accepted is stored and read
// again as the same spec.
func FuzzDecodeStored(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("{}"))
	f.Add([]byte(`{"version":2}`))
	f.Add([]byte(`{"version":1,"name":"a","cpus":1e1,"network":[null],"probe":[],"labels":{"":0}}`))
	f.Add(storedWith(f, nil))
	f.Add(storedWith(f, map[string]any{"probe": map[string]any{"type": "tcp"}, "user_data_base64": "", "labels": nil, "disk": "0GiB", "drain": "0s"}))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := spec.DecodeStored(data)
		if err != nil {
			return
		}
		again, err := spec.Encode(s)
		if err != nil {
			t.Fatalf("read, but can not be stored: %v", err)
		}
		expectStored(t, again, s)
	})
}
