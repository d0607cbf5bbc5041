package doc

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// walk asks for a little of everything, the way a schema does.
func walk(d *Doc) {
	r := d.Root()
	r.String("image")
	r.Int("cpus", 1, 64)
	r.Bool("agent")
	r.Duration("wait", time.Second, time.Minute)
	Text(r, "even", func(s string) (string, error) {
		if len(s)%2 != 0 {
			return "", errors.New("odd; want an even length")
		}
		return s, nil
	})
	r.Refuse("name", "the file's stem is the name")
	for _, n := range r.Tables("network", 2) {
		n.String("bridge")
	}
	r.Table("probe").String("url")
	if again := r.Table("probe"); again != r.Table("probe") {
		panic("two walks over one table")
	}
	Strings(r, "cidrs", 3, func(s string) (string, error) {
		if s == "bad" {
			return "", errors.New("is bad; want good")
		}
		return s, nil
	})
}

func TestWalkProblems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string
	}{
		{"nothing wrong", "image = 'x'\ncpus = 2\nagent = true\nwait = '5s'\neven = 'ab'\n[[network]]\nbridge = 'b'\n[probe]\nurl = 'u'", nil},
		{"inline array of tables", "network = [{bridge = 'b'}, {bridge = 'c'}]", nil},
		{"wrong types", "image = 1\ncpus = '2'\nagent = 'yes'\nwait = 5\neven = true\nnetwork = 1\nprobe = []\ncidrs = 'x'", []string{
			"f:1:1: image: is an integer; want a string",
			"f:2:1: cpus: is a string; want an integer from 1 to 64",
			"f:3:1: agent: is a string; want true or false",
			"f:4:1: wait: is an integer; want a string",
			"f:5:1: even: is a boolean; want a string",
			"f:6:1: network: is an integer; want an array of tables: [[network]]",
			"f:7:1: probe: is an array of 0; want a table",
			"f:8:1: cidrs: is a string; want an array of at most 3 strings"}},
		{"no coercion", "cpus = 2.0\nimage = 1979-05-27", []string{
			"f:1:1: cpus: is a float; want an integer from 1 to 64",
			"f:2:1: image: is a date or time; want a string"}},
		{"bounds", "cpus = -1\nwait = '2h'\neven = 'abc'", []string{
			"f:1:1: cpus: -1 is out of bounds; want an integer from 1 to 64",
			`f:2:1: wait: "2h" is not a duration that is allowed; want a number with its unit, from "1s" to "1m0s"`,
			"f:3:1: even: odd; want an even length"}},
		{"table for array of tables", "[network]\nbridge = 'x'", []string{
			"f:1:2: network: is a table; want an array of tables: [[network]]"}},
		{"elements", "network = [1, {bridge = 2, birdge = 'x'}]\ncidrs = [1, 'bad', 'ok']", []string{
			"f:1:12: network[0]: is an integer; want a table",
			"f:1:16: network[1].bridge: is an integer; want a string",
			`f:1:28: network[1].birdge: unknown key; did you mean "bridge"?`,
			"f:2:10: cidrs[0]: is an integer; want a string",
			"f:2:13: cidrs[1]: is bad; want good"}},
		{"empty array of tables", "network = []", []string{"f:1:1: network: is empty; want at least one [[network]], or leave it out"}},
		{"too many", "cidrs = ['a','b','c','d']\n[[network]]\n[[network]]\n[[network]]", []string{
			"f:1:1: cidrs: is an array of 4; want an array of at most 3 strings",
			"f:2:3: network: has 3 elements; at most 2 are allowed"}},
		{"unknown keys", "Image = 'x'\nvcpus = 1\nname = 'n'\nzzz = 1\n[netwrok]\nx = 1\n[probe]\nuri = 1\nother = 1", []string{
			`f:1:1: Image: unknown key; did you mean "image"?`,
			`f:2:1: vcpus: unknown key; did you mean "cpus"?`,
			"f:3:1: name: unknown key; the file's stem is the name",
			"f:4:1: zzz: unknown key; allowed: agent, cidrs, cpus, even, image, network, probe, wait",
			`f:5:2: netwrok: unknown key; did you mean "network"?`,
			`f:8:1: probe.uri: unknown key; did you mean "url"?`,
			"f:9:1: probe.other: unknown key; allowed: url"}},
		{"hostile key", "\"a\\u001b[31m\\n\" = 1", []string{
			`f:1:1: "a\x1b[31m\n": unknown key; allowed: agent, cidrs, cpus, even, image, network, probe, wait`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, err := ParseTOML("f", []byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			walk(d)
			var got []string
			if ps, ok := errors.AsType[Problems](d.Err()); ok {
				got = ps.Lines()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJSONIsWalkedTheSameWay(t *testing.T) {
	t.Parallel()
	var root map[string]any
	dec := json.NewDecoder(strings.NewReader(`{"cpus": 2, "image": null, "network": [{"bridge": "b"}, {"Bridge": "c"}]}`))
	dec.UseNumber()
	if err := dec.Decode(&root); err != nil {
		t.Fatal(err)
	}
	d := New("m.json", root, nil)
	if n, ok := d.Root().Int("cpus", 1, 64); !ok || n != 2 {
		t.Errorf("cpus = %d, %v", n, ok)
	}
	walk(d)
	want := "m.json: image: is null; want a string\nm.json: network[1].Bridge: unknown key; did you mean \"bridge\"?"
	if diff := cmp.Diff(want, fmt.Sprint(d.Err())); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	for _, number := range []string{"2.0", "2e0", "9223372036854775808", "-1"} {
		d := New("m.json", map[string]any{"cpus": json.Number(number)}, nil)
		if n, ok := d.Root().Int("cpus", 1, 64); ok {
			t.Errorf("cpus %s was taken as %d", number, n)
		}
	}
}

func TestI15_ProblemsAreBounded(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "unknown%d = 1\n", i)
	}
	d, err := ParseTOML("f", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	ps, _ := errors.AsType[Problems](d.Err())
	if len(ps) != 200 {
		t.Errorf("%d problems; want all 200", len(ps))
	}
	shown := ps.Lines()
	if last := shown[len(shown)-1]; len(shown) != 51 || last != "f: and 150 more problems" {
		t.Errorf("%d lines, the last %q", len(shown), last)
	}
}

func TestFail(t *testing.T) {
	t.Parallel()
	d, err := ParseTOML("f", []byte("a = 1\n[probe]\nb = 2"))
	if err != nil {
		t.Fatal(err)
	}
	d.Root().Int("a", 0, 9)
	p := d.Root().Table("probe")
	p.Int("b", 0, 9)
	p.Fail("url", "is missing")
	d.Root().Fail("image", "is missing")
	d.Root().Fail("", "is odd")
	want := "f:1:1: image: is missing\nf:1:1: is odd\nf:2:2: probe.url: is missing"
	if diff := cmp.Diff(want, fmt.Sprint(d.Err())); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestNothingFollowsFromWhatIsNoTable(t *testing.T) {
	t.Parallel()
	d := New("f", map[string]any{"probe": int64(1)}, nil)
	p := d.Root().Table("probe")
	p.String("url")
	p.Fail("url", "is missing")
	if diff := cmp.Diff("f: probe: is an integer; want a table", fmt.Sprint(d.Err())); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	words := []string{"cpus", "disk", "image", "machine_type", "memory", "network", "port"}
	for word, want := range map[string]string{
		"Memory": "memory", "memory-mib": "memory", "memory_mib": "memory", "disk_gib": "disk", "prot": "port",
		"machine-type": "machine_type", "MachineType": "machine_type", "netwrok": "network", "networks": "network",
		"x": "", "": "", "user_data": "", strings.Repeat("memory", 20): "",
	} {
		if got, _ := Nearest(word, words); got != want {
			t.Errorf("Nearest(%q) = %q; want %q", word, got, want)
		}
	}
}

func TestFailAt(t *testing.T) {
	t.Parallel()
	d, err := ParseJSON("f", []byte("{\"a\": {\n\"n\": [{\"x\": 1}]}}"), MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	a := d.Root().Table("a")
	a.FailAt("n[0].x", "no")
	a.FailAt("n[1].x", "not there")
	a.FailAt("", "as a whole")
	d.Root().FailAt("a.n[0]", "from the root")
	for _, table := range a.Tables("n", 1) {
		table.Int("x", 0, 1)
	}
	want := "f:1:2: a.n[1].x: not there\nf:1:2: a: as a whole\nf:2:7: a.n[0]: from the root\nf:2:8: a.n[0].x: no"
	if diff := cmp.Diff(want, fmt.Sprint(d.Err())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if d.Root().Empty("none") || a.Empty("n") {
		t.Error("what is absent, or has elements, is not empty")
	}
}
