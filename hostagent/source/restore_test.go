package source

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// restoredEntry gives what a source says of a proxy that it knows from before
// the restart only.
func restoredEntry(dir, name, userData string, problems ...string) Entry {
	s := spec.Spec{Name: name, UserData: spec.Secret(userData)}
	return Entry{Name: name, File: filepath.Join(dir, name+".toml"), Spec: &s, Hash: s.Hash(), Warnings: s.Warnings(), Problems: problems}
}

// TestI03_RestoredSpecs: of what was kept, nothing but the specs is relied on.
func TestI03_RestoredSpecs(t *testing.T) {
	t.Parallel()
	one, two := "#cloud-config\n", "no header" // two has a warning
	tests := []struct {
		name   string
		files  map[string]string // nil: there is no directory
		mode   os.FileMode
		synced bool
		want   func(dir string) map[string]Entry
	}{
		{"directory missing", nil, 0, false, func(dir string) map[string]Entry {
			return map[string]Entry{"edge1": restoredEntry(dir, "edge1", one), "edge2": restoredEntry(dir, "edge2", two)}
		}},
		{"directory unreadable", map[string]string{"edge1.toml": "ok new"}, 0, false, func(dir string) map[string]Entry {
			return map[string]Entry{"edge1": restoredEntry(dir, "edge1", one), "edge2": restoredEntry(dir, "edge2", two)}
		}},
		{"files broken", map[string]string{"edge1.toml": "?", "edge2.toml": "file missing.yaml"}, 0o755, true, func(dir string) map[string]Entry {
			at := filepath.Join(dir, "edge1.toml")
			missing := filepath.Join(dir, "edge2.toml") + ":1:6: user_data_file: file \"missing.yaml\" of " + dir +
				": does not exist, or is a link to what does not: create it, or correct the link"
			return map[string]Entry{
				"edge1": restoredEntry(dir, "edge1", one, at+":1:1: broken", at+":2:3: broken here, too"),
				"edge2": restoredEntry(dir, "edge2", two, missing),
			}
		}},
		{"a file gone", map[string]string{"edge2.toml": "ok new"}, 0o755, true, func(dir string) map[string]Entry {
			return map[string]Entry{"edge2": restoredEntry(dir, "edge2", "new")}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "proxies.d")
			if tt.files != nil {
				place(t, dir, tt.files)
				must(t, os.Chmod(dir, tt.mode))
				t.Cleanup(func() { os.Chmod(dir, 0o755) })
			}
			d := NewDir(dir, (&decoder{}).decode)
			d.Restore(map[string]Entry{
				"edge1": {Spec: &spec.Spec{Name: "edge1", UserData: spec.Secret(one)}, Hash: spec.Hash{Version: 1, Machine: "of another release"}},
				"edge2": {Spec: &spec.Spec{Name: "edge2", UserData: spec.Secret(two)}, Warnings: []string{"of another release"}},
			}, "")
			byModes(t, func() {
				s := d.ReadOnce()
				if s.Synced != tt.synced || (s.Problem == "") != tt.synced {
					t.Errorf("synced %v, problem %q; want synced %v", s.Synced, s.Problem, tt.synced)
				}
				if diff := cmp.Diff(tt.want(dir), s.Entries); diff != "" {
					t.Errorf("entries (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestI03_RestoredSpecOutlivesADoubtfulStart: the directory comes late, and
// then with a broken file.
func TestI03_RestoredSpecOutlivesADoubtfulStart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "proxies.d")
	d := NewDir(dir, (&decoder{}).decode)
	kept := map[string]Entry{"edge1": restoredEntry(dir, "edge1", "one"), "edge2": restoredEntry(dir, "edge2", "two"), "edge3": {Problems: []string{"never good"}}}
	d.Restore(kept, "")
	delete(kept, "edge1") // the caller's map stays its own
	expect(t, d.ReadOnce(), false, 0, map[string]string{"edge1": "one", "edge2": "two", "edge3": "-!"})
	place(t, dir, map[string]string{"edge1.toml": "?", "edge3.toml": "?"})
	expect(t, d.ReadOnce(), false, 0, map[string]string{"edge1": "one", "edge2": "two", "edge3": "-!"})
	expect(t, d.ReadOnce(), true, 1, map[string]string{"edge1": "one!", "edge3": "-!"})
	place(t, dir, map[string]string{"edge1.toml": "ok new one"})
	expect(t, d.ReadOnce(), true, 2, map[string]string{"edge1": "new one", "edge3": "-!"})
}
