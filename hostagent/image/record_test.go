package image

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

func TestRecordComesBack(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	want := testRecord("a", testInst)
	want.Generation, want.SkipCleanup, want.Abandoned = 2, true, true
	if err := tree.WriteRecord(want); err != nil {
		t.Fatal(err)
	}
	got := tree.ScanName("a")
	if len(got) != 1 || got[0].Record == nil {
		t.Fatalf("ScanName = %+v", got)
	}
	if diff := cmp.Diff(want, *got[0].Record); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if fi, err := os.Stat(tree.Paths("a", testInst).Record); err != nil || fi.Mode() != 0o640 {
		t.Errorf("%v %v", fi, err)
	}
}

// A record that can not be used is reported and left alone; the incarnation's
// other files are still seen.
func TestBadRecords(t *testing.T) {
	t.Parallel()
	with := func(change func(m map[string]any)) string {
		data, _ := json.Marshal(testRecord("a", testInst))
		var m map[string]any
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		data, _ = json.Marshal(m)
		return string(data)
	}
	set := func(key string, v any) string { return with(func(m map[string]any) { m[key] = v }) }
	good := set("version", 1)
	tests := []struct{ name, data, says string }{
		{"empty", "", "EOF|JSON"},
		{"cut", good[:len(good)/2], "JSON|EOF"},
		{"tail", good + "{}", "after top-level|follows"},
		{"newer", with(func(m map[string]any) { m["version"] = 2; m["new_key"] = true }), "upgrade the agent"},
		{"no version", with(func(m map[string]any) { delete(m, "version") }), "no version"},
		{"unknown key", set("new_key", 1), "new_key"},
		{"another host", set("host", "host-b"), "host-b"},
		{"another name", set("name", "b"), "renamed or copied"},
		{"another instance", set("instance_id", otherInst), "renamed or copied"},
		{"no uuid", set("uuid", "x"), "uuid"},
		{"uuid in another form", set("uuid", strings.ToUpper(testUUID)), "uuid"},
		{"no spec hash", set("spec_hash", "x"), "spec_hash"},
		{"bad base", set("base_sha256", "../x"), "base image"},
		{"bad format", set("base_format", "vmdk"), "base image"},
		{"negative size", set("seed_size", -1), "seed_size"},
		{"negative generation", set("generation", -1), "generation"},
		{"no time", set("created", "0001-01-01T00:00:00Z"), "created"},
		{"wrong type", set("name", 7), "name"},
		{"too large", good + strings.Repeat(" ", maxRecord), "larger"},
		{"long key", set(strings.Repeat("k", 60_000), 1), "unknown field"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := newTree(t)
			incarnate(t, tree, "a", testInst)
			plant(t, tree, "disk/a."+testInst+".json", tt.data)
			before := state(t, tree.root)
			got := tree.Scan().Incarnations["a"]
			if len(got) != 1 || got[0].Record != nil || !got[0].Overlay || len(got[0].Problem) > maxProblem || !containsAny(got[0].Problem, tt.says) {
				t.Errorf("Scan = %+v, want a problem with %q", got, tt.says)
			}
			if diff := cmp.Diff(before, state(t, tree.root)); diff != "" {
				t.Errorf("(-before +after):\n%s", diff)
			}
		})
	}
}

func containsAny(s, alternatives string) bool {
	for a := range strings.SplitSeq(alternatives, "|") {
		if strings.Contains(s, a) {
			return true
		}
	}
	return false
}

func TestWriteRecordRefuses(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	for name, change := range map[string]func(*observe.Record){
		"host":    func(r *observe.Record) { r.Host = "host-b" },
		"version": func(r *observe.Record) { r.Version = 2 },
		"uuid":    func(r *observe.Record) { r.UUID = "" },
		"base":    func(r *observe.Record) { r.Base = "" },
	} {
		rec := testRecord("a", testInst)
		change(&rec)
		if err := tree.WriteRecord(rec); err == nil {
			t.Errorf("a record with a bad %s was written", name)
		}
	}
	if got := tree.ScanName("a"); len(got) != 0 {
		t.Errorf("ScanName = %+v", got)
	}
}
