package seed

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func benchInput() Input {
	in := sample()
	in.UserData = noise(2 << 10)
	return in
}

func BenchmarkBuild(b *testing.B) {
	in := benchInput()
	b.ReportAllocs()
	for b.Loop() {
		mustBuild(b, in)
	}
}

func BenchmarkContentHash(b *testing.B) {
	in := benchInput()
	b.ReportAllocs()
	for b.Loop() {
		in.ContentHash()
	}
}

// BenchmarkGenisoimage is what BenchmarkBuild is to be compared with: the usual
// program run on the same files, which lie there already.
func BenchmarkGenisoimage(b *testing.B) {
	genisoimage := needTool(b, "genisoimage", "genisoimage")
	files, err := benchInput().files()
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	args := []string{"-quiet", "-V", Label, "-r", "-J", "-o", filepath.Join(dir, "seed.iso")}
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		if err := os.WriteFile(path, f.data, 0o600); err != nil {
			b.Fatal(err)
		}
		args = append(args, path)
	}
	b.ReportAllocs()
	for b.Loop() {
		if out, err := exec.CommandContext(b.Context(), genisoimage, args...).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
}
