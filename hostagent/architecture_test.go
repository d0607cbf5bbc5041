package hostagent_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/egress-proxies/egress-hostagent/"

// layers says which packages of this module each package may import. A
// package that is missing here is an error: a new room needs a decision.
var layers = map[string][]string{
	"seed":                      {},
	"hostagent/internal/doc":    {},
	"hostagent/status":          {},
	"hostagent/upstream":        {},
	"hostagent/probe":           {"hostagent/spec"},
	"hostagent/state":           {},
	"hostagent/order":           {},
	"hostagent/spec":            {"seed", "hostagent/internal/doc"},
	"hostagent/config":          {"hostagent/spec", "hostagent/internal/doc"},
	"hostagent/observe":         {"hostagent/spec"},
	"hostagent/source":          {"hostagent/spec"},
	"hostagent/source/manifest": {"hostagent/internal/doc", "hostagent/source", "hostagent/spec", "hostagent/state", "hostagent/upstream"},
	"hostagent/control":         {"hostagent/order", "hostagent/status"},
	"hostagent/domxml":          {"hostagent/observe", "hostagent/spec"},
	"hostagent/image":           {"hostagent/observe", "hostagent/spec", "hostagent/upstream", "seed"},
	"hostagent/plan":            {"hostagent/domxml", "hostagent/observe", "hostagent/order", "hostagent/source", "hostagent/spec", "hostagent/status"},
	"hostagent/apply":           {"hostagent/domxml", "hostagent/image", "hostagent/observe", "hostagent/plan", "hostagent/spec", "seed"},
	"hostagent": {"hostagent/apply", "hostagent/domxml", "hostagent/observe", "hostagent/order", "hostagent/plan", "hostagent/probe",
		"hostagent/source", "hostagent/spec", "hostagent/state", "hostagent/status"},
	"hostagent/virt":     {"hostagent/observe"},
	"hostagent/virttest": {"hostagent/observe"},
	"cmd/egress-hostagent": {"hostagent", "hostagent/apply", "hostagent/config", "hostagent/control", "hostagent/domxml", "hostagent/image",
		"hostagent/observe", "hostagent/order", "hostagent/plan", "hostagent/probe", "hostagent/source", "hostagent/source/manifest",
		"hostagent/spec", "hostagent/state", "hostagent/status", "hostagent/upstream", "hostagent/virt", "seed"},
	"hostagent/internal/lint": {},
	"packaging/man":           {}, // of the built packages, and of tests; the agent itself has none of it
}

// pureOf lists what must not touch clock, file, network, log or environment.
var pureOf = []string{"hostagent/plan", "hostagent/domxml", "hostagent/status", "hostagent/observe"}

// impure are packages that pure ones may not import directly.
var impure = []string{"os", "os/exec", "net", "net/http", "log", "log/slog", "io/fs", "path/filepath", "syscall", "math/rand", "crypto/rand"}

type pkg struct {
	ImportPath   string
	Doc          string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Doc,Imports,TestImports,XTestImports", module+"...")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for d := json.NewDecoder(out); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(all) < len(layers) {
		t.Fatalf("go list found %d packages, expected %d at least", len(all), len(layers))
	}
	return all
}

func TestLayers(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module)
		allowed, known := layers[name]
		if !known {
			t.Errorf("%s has no place in the layers; decide where it belongs", name)
		}
		for _, imp := range p.Imports {
			if inner, ours := strings.CutPrefix(imp, module); ours && !slices.Contains(allowed, inner) {
				t.Errorf("%s may not import %s", name, inner)
			}
			if slices.Contains(pureOf, name) && slices.Contains(impure, imp) {
				t.Errorf("%s is pure and may not import %s", name, imp)
			}
		}
		all := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		if slices.Contains(all, "libvirt.org/go/libvirt") && name != "hostagent/virt" {
			t.Errorf("%s imports the cgo binding; only hostagent/virt may", name)
		}
	}
}

func TestEveryPackageSaysWhatItOwns(t *testing.T) {
	for _, p := range packages(t) {
		if len(strings.Fields(p.Doc)) < 8 {
			t.Errorf("%s: package comment %q is missing or says too little", p.ImportPath, p.Doc)
		}
	}
}
