package source

import (
	"os"
	"path/filepath"
	"testing"
)

// A directory that is another one than that of before and has no spec is the
// empty place of one that is not mounted, until somebody says otherwise. One
// proxy alone is no mass that would be held.
func TestI02_EmptyPlaceOfTheDirectoryDeletesNothing(t *testing.T) {
	t.Parallel()
	one := map[string]string{"edge1": "one"}
	tests := []struct {
		name   string
		kept   func(was Snapshot) string
		change func(t *testing.T, dir string)
		seq    uint64 // of the first read: 0 where it is in doubt
		want   map[string]string
	}{
		{"the same, emptied while the agent was stopped", func(was Snapshot) string { return was.Identity },
			func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "edge1.toml"))) }, 1, map[string]string{}},
		{"another, empty", func(was Snapshot) string { return was.Identity }, replaceDir, 0, one},
		{"nobody knows, empty", func(Snapshot) string { return "" }, replaceDir, 0, one},
		{"another, with an artefact only", func(was Snapshot) string { return was.Identity },
			func(t *testing.T, dir string) {
				replaceDir(t, dir)
				must(t, os.Mkdir(filepath.Join(dir, "lost+found"), 0o755))
			}, 0, one},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "proxies.d")
			place(t, dir, map[string]string{"edge1.toml": "ok one"})
			was := NewDir(dir, (&decoder{}).decode).ReadOnce()
			tt.change(t, dir)
			d := NewDir(dir, (&decoder{}).decode)
			d.Restore(was.Entries, tt.kept(was))
			for range 10 {
				s := d.ReadOnce()
				if tt.seq == 0 {
					expect(t, s, false, 0, tt.want)
				} else {
					expect(t, s, true, s.Seq, tt.want)
				}
			}
		})
	}
}

func replaceDir(t *testing.T, dir string) {
	t.Helper()
	must(t, os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o755))
}

// The same while the agent runs, and the ways out of it.
func TestI02_EmptyPlaceIsBelievedOnceItIsFilledOrConfirmed(t *testing.T) {
	t.Parallel()
	one := map[string]string{"edge1": "one"}
	for name, tt := range map[string]struct {
		out  func(t *testing.T, dir string)
		want map[string]string
	}{
		"confirmed":   {func(t *testing.T, dir string) { place(t, dir, map[string]string{".empty": ""}) }, map[string]string{}},
		"filled anew": {func(t *testing.T, dir string) { place(t, dir, map[string]string{"edge2.toml": "ok two"}) }, map[string]string{"edge2": "two"}},
		"back again":  {func(t *testing.T, dir string) { must(t, os.Remove(dir), os.Rename(dir+".old", dir)) }, one},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "proxies.d")
			place(t, dir, map[string]string{"edge1.toml": "ok one"})
			d := NewDir(dir, (&decoder{}).decode)
			expect(t, d.ReadOnce(), true, 1, one)
			replaceDir(t, dir)
			for range 10 {
				expect(t, d.ReadOnce(), false, 1, one)
			}
			tt.out(t, dir)
			s := d.ReadOnce()
			for range 2 {
				if s.Synced {
					break
				}
				s = d.ReadOnce()
			}
			expect(t, s, true, 2, tt.want)
		})
	}
}
