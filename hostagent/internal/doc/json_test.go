package doc

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseJSONErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "f:1:1: not JSON: the document is empty"},
		{"blank", " \n", "f:1:1: not JSON: the document is empty"},
		{"cut off", "{\"a\": 1,\n", "f:1:9: not JSON: unexpected end of JSON input"},
		{"null", "null", "f:1:1: is not a JSON object: { … }"},
		{"an array", "[{}]", "f:1:1: is not a JSON object: { … }"},
		{"trailing data", "{}\n {}", "f:2:2: not JSON: invalid character '{' after top-level value"},
		{"trailing comma", `{"a": 1,}`, "f:1:9: not JSON: invalid character '}' looking for beginning of object key string"},
		{"comment", "{} // x", "f:1:4: not JSON: invalid character '/' after top-level value"},
		{"a web page", "<html>", "f:1:1: not JSON: invalid character '<' looking for beginning of value"},
		{"NaN", `{"a": NaN}`, "f:1:7: not JSON: invalid character 'N' looking for beginning of value"},
		{"raw NUL", "{\"a\": \"\x00\"}", `f:1:8: not JSON: invalid character '\x00' in string literal`},
		{"byte order mark", "\ufeff{}", "f:1:1: not JSON: begins with a byte order mark; save it without one"},
		{"latin-1", "{\"a\": \"gr\xfc\"}", "f:1:10: byte 0xfc is not UTF-8; JSON is UTF-8 text (bytes of another kind can be given in base64)"},
		{"half a pair", `{"a": ["\ud83d\ude00", "\ud83d"]}`, `f:1:24: a[1]: has half of a surrogate pair (\ud800 to \udfff), which stands for no character`},
		{"low half first", `{"a": "\ude00\ud83d"}`, `f:1:7: a: has half of a surrogate pair (\ud800 to \udfff), which stands for no character`},
		{"key twice", "{\"a\": 1,\n \"b\": 2,\n \"a\": 3}", "f:3:2: a: is given twice in one object, first in line 1"},
		{"key twice, escaped", `{"ab": 1, "\u0061b": 3}`, "f:1:11: ab: is given twice in one object, first in line 1"},
		{"key twice inside", "{\"p\": [{}, {\"x\": {\"y z\": 1,\n\"y z\": 1}}],\n\"p\": 1}",
			"f:2:1: p[1].x.\"y z\": is given twice in one object, first in line 1\nf:3:1: p: is given twice in one object, first in line 1"},
		{"too long", `{"a": "` + strings.Repeat("x", 4096) + `"}`, "f:1:1: 4105 bytes long; at most 4096 are read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseJSON("f", []byte(tt.text), 4096)
			if ps, ok := errors.AsType[Problems](err); !ok || len(ps) == 0 {
				t.Fatalf("error %#v; want Problems", err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJSONPlaces(t *testing.T) {
	t.Parallel()
	const text = "{\"a\": 1, \"b\": {\"c d\": \"é\", \"e\": []},\r\n  \"l\": [ [true], {\"x\":null} ] }"
	d, err := ParseJSON("f", []byte(text), MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]Pos{
		"a": {1, 2}, "b": {1, 10}, `b."c d"`: {1, 16}, "b.e": {1, 28}, "l": {2, 3}, "l[0]": {2, 10}, "l[0][0]": {2, 11}, "l[1]": {2, 18}, "l[1].x": {2, 19},
	} {
		if got, ok := d.at(path); !ok || got != want {
			t.Errorf("%s is at %v, known: %v; want %v", path, got, ok, want)
		}
	}
}

// TestCase032_JSONNumbersAreNotCoerced: what encoding/json would round into an
// int is none.
func TestCase032_JSONNumbersAreNotCoerced(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2.0": "is the number 2.0", "1e3": "is the number 1e3", "9223372036854775808": "is the number 9223372036854775808",
		"-1": "-1 is out of bounds", "-0.0": "is the number -0.0", `"2"`: "is a string", "null": "is null", "[2]": "is an array of 1", "{}": "is a table",
	} {
		d, err := ParseJSON("f", []byte(`{"cpus": `+text+`}`), MaxSize)
		if err != nil {
			t.Fatal(err)
		}
		n, ok := d.Root().Int("cpus", 0, 64)
		if wanted := "f:1:2: cpus: " + want + "; want an integer from 0 to 64"; ok || fmt.Sprint(d.Err()) != wanted {
			t.Errorf("%s: %d, %v, error %q; want %q", text, n, ok, fmt.Sprint(d.Err()), wanted)
		}
	}
	d, err := ParseJSON("f", []byte(`{"cpus": 64}`), MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := d.Root().Int("cpus", 0, 64); !ok || n != 64 {
		t.Errorf("64: %d, %v", n, ok)
	}
}

// TestI12_TypeProblemsShowNoNumber: a PIN that lost its quotes.
func TestI12_TypeProblemsShowNoNumber(t *testing.T) {
	t.Parallel()
	d, err := ParseJSON("f", []byte(`{"pin": 481516}`), MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = d.Root().String("pin")
	if diff := cmp.Diff("f:1:2: pin: is a number; want a string", fmt.Sprint(d.Err())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestI15_JSONShapeIsBounded(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return `{"a": ` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}" }
	if _, err := ParseJSON("f", []byte(deep(maxDepth)), MaxSize); err != nil {
		t.Errorf("at the bound: %v", err)
	}
	for name, text := range map[string]string{
		"one too deep":     deep(maxDepth + 1),
		"deep arrays":      deep(400_000),
		"deep objects":     strings.Repeat(`{"a":`, 150_000) + "1" + strings.Repeat("}", 150_000),
		"long key":         `{"` + strings.Repeat("a", 500_000) + `": 1}`,
		"many values":      `{"a": [` + strings.Repeat("1,", 400_000) + "1]}",
		"one key for ever": `{` + strings.Repeat(`"a":1,`, 90_000) + `"a":1}`,
		"too large":        `{"a": "` + strings.Repeat("x", MaxSize) + `"}`,
	} {
		_, err := ParseJSON("f", []byte(text), MaxSize)
		if err == nil {
			t.Errorf("%s: was read", name)
		} else if len(err.Error()) > 5000 {
			t.Errorf("%s: error of %d bytes", name, len(err.Error()))
		}
	}
}

func TestI07_JSONStringsAreExact(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`"#!/bin/sh\r\necho\r\n"`: "#!/bin/sh\r\necho\r\n", `"a\u0000\u001b\/\\\""`: "a\x00\x1b/\\\"",
		"\"e\u0301 é \u2028\"": "e\u0301 é \u2028", `"\ud83d\ude00 \ufffd"`: "😀 \ufffd", `""`: "", `"\\ud800"`: `\ud800`,
	} {
		d, err := ParseJSON("f", []byte(`{"a": `+raw+`}`), MaxSize)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := d.Root().String("a"); !ok || got != want {
			t.Errorf("%s is %q; want %q", raw, got, want)
		}
	}
}

func TestOneOrMore(t *testing.T) {
	t.Parallel()
	parse := func(s string) (string, error) {
		if s == "bad" {
			return "", errors.New("is bad")
		}
		return s, nil
	}
	for _, tt := range []struct {
		text, problem string
		want          []string
	}{
		{"x = 1", "f:1:1: x: unknown key; did you mean \"k\"?", nil},
		{"k = 'a'", "<nil>", []string{"a"}},
		{"k = ['a', 'b']", "<nil>", []string{"a", "b"}},
		{"k = []", "<nil>", nil},
		{"k = 'bad'", "f:1:1: k: is bad", nil},
		{"k = ['a', 'bad']", "f:1:11: k[1]: is bad", []string{"a"}},
		{"k = ['a', 'b', 'c']", "f:1:1: k: is an array of 3; want an array of at most 2 strings", nil},
		{"k = 1", "f:1:1: k: is an integer; want an array of at most 2 strings", nil},
	} {
		d, err := ParseTOML("f", []byte(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		got := OneOrMore(d.Root(), "k", 2, parse)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.text, diff)
		}
		if diff := cmp.Diff(tt.problem, fmt.Sprint(d.Err())); diff != "" {
			t.Errorf("%s: problem (-want +got):\n%s", tt.text, diff)
		}
	}
}

// FuzzParseJSON: no text panics, problems are inside the text, and each key and
// element of what is read has its place there.
func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{
		"", "{}", `{"a": [1, {"b": "\ud83d\ude00\u0000"}], "c d": null}`, `{"a": 1, "\u0061": 2}`, `{"a": "\ud800"}`, "{\"\": {\"\": []}}", `{"a": -1.5e+3, "b": [true, false]} `, "[[", "\ufeff{}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text := string(data)
		d, err := ParseJSON("f", data, MaxSize)
		if err != nil {
			for _, p := range err.(Problems) {
				checkInside(t, text, Pos{p.Line, p.Column})
			}
			return
		}
		checkPlaces(t, text, d, "", d.Root().values)
	})
}
