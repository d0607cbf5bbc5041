package doc

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseTOMLErrors(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"duplicate key", "disk = 1\nport = 2\ndisk = 3\n", "f:3:1: disk: not TOML: Key … has already been defined."},
		{"duplicate key in a table", "[probe]\nurl = 1\nurl = 2", "f:3:1: probe.url: not TOML: Key … has already been defined."},
		{"duplicate table", "[probe]\n[labels]\n[probe]", "f:3:2: not TOML: Key … has already been defined."},
		{"int64 overflow", "cpus = 9223372036854775808", "f:1:8: cpus: not TOML: 9223372036854775808 is out of range for int64"},
		{"no value", "a = 1\nport =\n", "f:2:7: port: not TOML: expected value but found '\\n' instead"},
		{"no equals sign", "a = 1\nport 3\n", "f:2:6: not TOML: expected '.' or '=', but got '3' instead"},
		{"control character", "a = 1\nb = 'x\x01'", "f:2:6: b: not TOML: TOML files cannot contain control characters: '0x01'"},
		{"latin-1", "# gr\xfc\xdfe\n", "f:1:5: byte 0xfc is not UTF-8; TOML files are UTF-8 text (bytes of another kind can be given in base64)"},
		{"utf-16", "\xff\xfea\x00", "f:1:1: byte 0xff is not UTF-8; TOML files are UTF-8 text (bytes of another kind can be given in base64)"},
		{"unclosed string", "a = '''\nx\ny", "f:3:1: a: not TOML: unexpected EOF; expected …"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseTOML("f", []byte(tt.text))
			if err == nil {
				t.Fatal("was read")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestI12_ParseErrorsQuoteNoValue(t *testing.T) {
	t.Parallel()
	const secret = "Hunter2Secret"
	for _, rest := range []string{
		"password = " + secret, "password: " + secret, secret, secret + "=", secret + " = 1\n" + secret + " = 2",
		"'" + secret + "' = 1\n'" + secret + "' = 2", "\"'" + secret + "\" = 1\n\"'" + secret + "\" = 2", "a = +i" + secret, "a = " + secret + "'",
		"[" + secret + "]\n[" + secret + "]", "a = {" + secret + " = x", "a = 0b" + secret, "a = \"\\x" + secret + "\"",
		"a = \"x\" " + secret, "a = [" + secret + "]", "[[" + secret + "]", "a." + secret + ".b = 1\na." + secret + " = 2",
	} {
		text := "user_data = '''\nit's '''\n" + rest + "\n'''"
		_, err := ParseTOML("f", []byte(text))
		if err == nil {
			t.Errorf("%q was read", rest)
			continue
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: error quotes it: %v", rest, err)
		}
	}
}

func TestI07_StringsAreNotNormalised(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"CRLF in a literal", "a = '''\r\n#!/bin/sh\r\necho\r\n'''\r\n", "#!/bin/sh\r\necho\r\n"},
		{"CRLF in a basic string", "a = \"\"\"\r\nx\r\ny\r\n\"\"\"\r\n", "x\r\ny\r\n"},
		{"LF", "a = '''\nx\ny\n'''", "x\ny\n"},
		{"mixed", "a = '''x\r\ny\n'''", "x\r\ny\n"},
		{"blanks at line ends, tabs", "a = '''\n\tx  \n \n'''", "\tx  \n \n"},
		{"quotes at the end", "a = '''x'''''", "x''"},
		{"backslashes", `a = '''\x41 \n \` + "\n'''", `\x41 \n \` + "\n"},
		{"not composed, not decomposed", "a = 'e\u0301 \u00e9'", "e\u0301 \u00e9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, err := ParseTOML("f", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := d.Root().String("a")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorIsProblems(t *testing.T) {
	t.Parallel()
	_, err := ParseTOML("f", []byte("a"))
	if ps, ok := errors.AsType[Problems](err); !ok || len(ps) != 1 {
		t.Errorf("got %#v; want one Problem", err)
	}
}
