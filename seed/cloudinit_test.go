//go:build cloudinit

package seed

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// These tests let cloud-init itself read what this package makes. It is not
// installed: testdata/lab/cloudinit/fetch.sh unpacks the release's package, or
// EGRESS_CLOUDINIT_PATH names the directory that holds another cloudinit.

// ciPart is a part of user or vendor data as cloud-init sees it.
type ciPart struct {
	Type, Name string
	Payload    []byte
}

func (p *ciPart) UnmarshalJSON(raw []byte) error {
	return json.Unmarshal(raw, &[]any{&p.Type, &p.Name, &p.Payload})
}

type ciDocument struct {
	Parts []ciPart
	Error string
}

// ciGuest is what cloud-init takes from a seed.
type ciGuest struct {
	Metadata map[string]any
	UserData []byte
	Vendor   []ciPart
	Template string
	Names    [][2]string // MAC and name of each interface
	Rendered map[string]map[string]string
}

type ciAnswer struct {
	Documents []ciDocument
	YAML      []string
	Seeds     []ciGuest
}

// cloudInit asks cloud-init; request is what the harness documents.
func cloudInit(t *testing.T, request map[string]any) ciAnswer {
	t.Helper()
	python := needTool(t, "python3", "python3")
	path := os.Getenv("EGRESS_CLOUDINIT_PATH")
	if path == "" {
		path = filepath.Join("..", "build", "cloudinit", "usr", "lib", "python3", "dist-packages")
		if _, err := os.Stat(path); err != nil {
			if os.Getenv("REQUIRE_ALL") == "1" {
				t.Fatal("cloud-init is not unpacked; run testdata/lab/cloudinit/fetch.sh")
			}
			t.Skip("cloud-init is not unpacked; run testdata/lab/cloudinit/fetch.sh")
		}
	}
	request["work"] = t.TempDir()
	input, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), python, "-S", filepath.Join("..", "testdata", "lab", "cloudinit", "harness.py"))
	cmd.Env = append(os.Environ(), "PYTHONPATH="+path) // and -S: nothing of this machine's
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("harness: %v\n%s", err, stderr.Bytes())
	}
	var answer ciAnswer
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

// ciSeeds asks cloud-init what it makes of the files of the inputs' images.
func ciSeeds(t *testing.T, template string, inputs ...Input) []ciGuest {
	t.Helper()
	var seeds []any
	for _, in := range inputs {
		seeds = append(seeds, map[string]any{"files": mustInspect(t, mustBuild(t, in)).Files, "template": []byte(template)})
	}
	guests := cloudInit(t, map[string]any{"seeds": seeds}).Seeds
	if len(guests) != len(inputs) {
		t.Fatalf("%d seeds read, want %d", len(guests), len(inputs))
	}
	return guests
}
