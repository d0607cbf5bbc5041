package seed

import "testing"

func TestSeed13_NetworkConfigIsAMapping(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, doc string
		ok        bool
	}{
		{"netplan", "version: 2\nethernets:\n  a:\n    dhcp4: true\n", true},
		{"wrapped", "network:\n  version: 2\n", true},
		{"comments, directive and marker first", "# c\n\n%YAML 1.1\n---\n# d\nversion: 2\n", true},
		{"content behind the marker", "--- {version: 2}\n", true},
		{"comment behind the marker", "--- # c\nversion: 2\n", true},
		{"json", "\n{\n\t\"version\": 2}", true},
		{"indented", "  version: 2\n", true},
		{"CRLF", "\r\nversion: 2\r\nethernets:\r\n", true},
		{"BOM", "\uFEFFversion: 2\n", true},
		{"quoted key", "\"version\": 2\n", true},
		{"tagged", "!!map\nversion: 2\n", true},
		{"anchored", "&a\nversion: 2\n", true},
		{"tab behind the colon", "version:\t2\n", true},
		{"UTF-8 comment", "# gr\u00f6\u00dfe\nversion: 2\n", true},
		{"comment behind an anchor", "&a # c\n\nversion: 2\n", true},
		{"quoted keys with quotes and colons", "'it''s: \"': 1\n\"a\\\": b\": 2\n", true},
		{"double-quoted key with a quote", "\"a\\\": b\" : 2\n", true},
		{"complex key", "? version\n: 2\n", true},
		{"only the last colon ends a key", "http://x: 1\n", true},
		{"quoted text with a colon", "\"version: 2\"\n", false},
		{"single-quoted text with a colon", "'version: ''2'':'\n", false},
		{"quote over lines", "\"version:\n 2\"\n", false},
		{"block of text", "|\n version: 2\n", false},
		{"text with a comment", "dhcp # version: 2\n", false},
		{"anchored list", "&a\n- b: 1\n", false},
		{"tagged list behind the marker", "--- !!seq [a: 1]\n", false},
		{"only an anchor", "&a\n", false},
		{"only comments", "# version: 2\n---\n...\n", false},
		{"blank", " \n\t\n", false},
		{"list", "- type: physical\n", false},
		{"list of nothing", "-\n", false},
		{"flow list", "[{version: 2}]\n", false},
		{"scalar", "dhcp\n", false},
		{"address", "192.0.2.1:80\n", false},
		{"web page", "<!DOCTYPE html>\n<a href=\"http://example.test\">", false},
		{"tab", "\tversion: 2\n", false},
		{"latin-1", "# gr\xf6\xdfe\nversion: 2\n", false},
		{"NUL", "version: 2\x00\n", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := Input{InstanceID: "i", NetworkConfig: []byte(test.doc)}.Validate()
			if got := err == nil; got != test.ok {
				t.Errorf("accepted: %t, want %t (%v)", got, test.ok, err)
			}
		})
	}
}
