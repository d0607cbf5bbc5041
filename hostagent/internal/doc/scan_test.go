package doc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKeyPlaces(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       map[string]Pos
	}{
		{"plain", "a = 1\n  bc = 2\n", map[string]Pos{"a": {1, 1}, "bc": {2, 3}}},
		{"no final newline", "a = 1", map[string]Pos{"a": {1, 1}}},
		{"comments", "# a = 1\na = '#' # b = 2\nc = 3", map[string]Pos{"a": {2, 1}, "c": {3, 1}}},
		{"tables", "[a]\nb = 1\n[ c . d ]\ne = 1\n", map[string]Pos{
			"a": {1, 2}, "a.b": {2, 1}, "c": {3, 3}, "c.d": {3, 7}, "c.d.e": {4, 1}}},
		{"dotted and quoted keys", "a.\"b c\".'d\"' = 1\n\"t\\u00e9\" = 2", map[string]Pos{
			"a": {1, 1}, `a."b c"`: {1, 3}, `a."b c"."d\""`: {1, 9}, `"té"`: {2, 1}}},
		{"arrays of tables", "[[n]]\na = 1\n[[n]]\na = 2\n[n.o]\nb = 3\n[[n.p]]\nc = 4", map[string]Pos{
			"n": {1, 3}, "n[0]": {1, 3}, "n[0].a": {2, 1}, "n[1]": {3, 3}, "n[1].a": {4, 1},
			"n[1].o": {5, 4}, "n[1].o.b": {6, 1}, "n[1].p": {7, 5}, "n[1].p[0]": {7, 5}, "n[1].p[0].c": {8, 1}}},
		{"inline", "a = {b = 1, c.d = [ {e = 2},\n 'x' ] }\nf = 1", map[string]Pos{
			"a": {1, 1}, "a.b": {1, 6}, "a.c": {1, 13}, "a.c.d": {1, 15}, "a.c.d[0]": {1, 21},
			"a.c.d[0].e": {1, 22}, "a.c.d[1]": {2, 2}, "f": {3, 1}}},
		{"multi-line strings", "a = '''\nb = 1\n[c]\n'quotes'''''\nd = \"\"\"\ne = 1 \\\"\"\" \\\\\"\"\"\nf = 1", map[string]Pos{
			"a": {1, 1}, "d": {5, 1}, "f": {7, 1}}},
		{"quotes before the end of a string", "a = ['''x''''', \"\"\"y\"\"\"\", {b = 1}]", map[string]Pos{
			"a": {1, 1}, "a[0]": {1, 6}, "a[1]": {1, 17}, "a[2]": {1, 27}, "a[2].b": {1, 28}}},
		{"crlf", "a = 1\r\nb = '''x\r\ny'''\r\nc = 1\r\n", map[string]Pos{"a": {1, 1}, "b": {2, 1}, "c": {4, 1}}},
		{"column after wide text", "a = {b = 'é✓', c = 1}", map[string]Pos{"a": {1, 1}, "a.b": {1, 6}, "a.c": {1, 16}}},
		{"byte order mark", "\ufeffa = 1", map[string]Pos{"a": {1, 1}}},
		{"dates and numbers", "a = 1979-05-27 07:32:00 # x\nb = [1, 2.5, inf,\n]\nc = 1", map[string]Pos{
			"a": {1, 1}, "b": {2, 1}, "b[0]": {2, 6}, "b[1]": {2, 9}, "b[2]": {2, 14}, "c": {4, 1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := strings.TrimPrefix(tt.text, "\ufeff")
			if _, err := ParseTOML("f", []byte(tt.text)); err != nil {
				t.Fatalf("the case is not TOML: %v", err)
			}
			index, _, err := scan(text)
			if err != nil {
				t.Fatal(err)
			}
			got, ls := map[string]Pos{}, newLines(text)
			for path, offset := range index {
				got[path] = ls.at(offset)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
		})
	}
}

func TestI15_ShapeIsBounded(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text string }{
		{"nested arrays", "a = " + strings.Repeat("[", 400_000)},
		{"nested inline tables", "a = " + strings.Repeat("{a=", 300_000)},
		{"dotted key", strings.Repeat("a.", 400_000) + "a = 1"},
		{"dotted table", "[" + strings.Repeat("a.", 400_000) + "a]"},
		{"long key", strings.Repeat("a", 500_000) + " = 1"},
		{"long table name with many keys", "['" + strings.Repeat("x", 300_000) + "']\n" + strings.Repeat("a=1\n", 100_000)},
		{"many keys", strings.Repeat("a=1\n", 200_000)},
		{"many values", "a = [" + strings.Repeat("1,", 400_000) + "]"},
		{"too large", strings.Repeat("#", MaxSize+1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseTOML("f", []byte(tt.text))
			if err == nil {
				t.Fatal("was read")
			}
			if len(err.Error()) > 1000 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
		})
	}
}

// FuzzParseTOML holds the scanner against the library: in every text that the
// library takes, each key it decodes has a place, and the place is inside the
// text.
func FuzzParseTOML(f *testing.F) {
	for _, s := range []string{
		"", "a = 1", "[a.b]\nc = '''x'''\n[[d]]\ne = {f = [1, {g = \"h\"}]}\n[[d]]\n", "\"a\\tb\".'c' = 1 # x\r\n",
		"[[a]]\n[a.b]\n[[a.c]]\n[a.c.d]\ne.f = 1\n[[a]]\n[[a.c]]", "a = \"\"\"\\\"\"\"\"\"\"\n b = 1", "\ufeffa = [[],[{}],]",
		"'' = 1", "a = {b.c = 1, b.d = 2}", "[a]\nb.c = 1\n[a.d]", "a = [", "[[[", "\"\\xe9\" = 1", "a = 1\x00", "a = '\xff'",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := ParseTOML("f", data)
		text := strings.TrimPrefix(string(data), "\ufeff")
		if err != nil {
			for _, p := range err.(Problems) {
				checkInside(t, text, Pos{p.Line, p.Column})
			}
			return
		}
		checkPlaces(t, text, d, "", d.Root().values)
	})
}

func checkPlaces(t *testing.T, text string, d *Doc, path string, v any) {
	pos, ok := d.at(path)
	if !ok {
		t.Fatalf("no place for %q", path)
	}
	checkInside(t, text, pos)
	if m, ok := v.(map[string]any); ok {
		for k, e := range m {
			checkPlaces(t, text, d, join(path, k), e)
		}
	}
	for i, e := range elements(v) {
		checkPlaces(t, text, d, element(path, i), e)
	}
}

func checkInside(t *testing.T, text string, pos Pos) {
	t.Helper()
	ls := strings.Split(text, "\n")
	if pos.Line < 1 || pos.Line > len(ls) || pos.Column < 1 || pos.Column > len(ls[pos.Line-1])+1 {
		t.Fatalf("place %v is outside the text", fmt.Sprint(pos))
	}
}
