package state

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// filled makes a directory with a thousand specs of about 4 KiB.
func filled(b *testing.B) (dir string, body string) {
	b.Helper()
	dir = b.TempDir()
	body = fmt.Sprintf("%q", fmt.Sprintf("%04000d", 0))
	s, _ := mustOpen(b, dir)
	for i := range 1000 {
		if err := s.Save(put(Spec, fmt.Sprintf("p%d", i), body)); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	return dir, body
}

func BenchmarkSaveOneOf1000(b *testing.B) {
	dir, body := filled(b)
	s, _ := mustOpen(b, dir)
	for b.Loop() {
		if err := s.Save(put(Spec, "p500", body)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBareSave is what one durable replacement costs without this package.
func BenchmarkBareSave(b *testing.B) {
	dir, body := filled(b)
	for b.Loop() {
		f, err := os.Create(filepath.Join(dir, "spec", "temp"))
		if err == nil {
			_, err = f.WriteString(body)
		}
		if err == nil {
			err = f.Sync()
		}
		f.Close()
		if err == nil {
			err = os.Rename(f.Name(), filepath.Join(dir, "spec", "p500.json"))
		}
		if err == nil {
			err = syncDir(filepath.Join(dir, "spec"))
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen1000(b *testing.B) {
	dir, _ := filled(b)
	for b.Loop() {
		if c := reopened(b, dir); len(c.Entries) != 1000 {
			b.Fatal(len(c.Entries))
		}
	}
}

// BenchmarkBareRead is what reading the files of BenchmarkOpen1000 costs.
func BenchmarkBareRead(b *testing.B) {
	dir, _ := filled(b)
	for b.Loop() {
		names, err := filepath.Glob(filepath.Join(dir, "spec", "*.json"))
		if err != nil || len(names) != 1000 {
			b.Fatal(len(names), err)
		}
		for _, name := range names {
			if _, err := os.ReadFile(name); err != nil {
				b.Fatal(err)
			}
		}
	}
}
