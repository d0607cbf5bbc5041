package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
)

// storedObject reads JSON, and nothing but one object. Its errors quote none of
// it, not even what the decoder stumbles over.
func storedObject(data []byte) (root map[string]any, err error) {
	if len(data) > MaxStored || !utf8.Valid(data) {
		return nil, fmt.Errorf("%d bytes that are too many (the most is %d) or not UTF-8", len(data), MaxStored)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&root); err != nil || root == nil {
		return nil, fmt.Errorf("%d bytes that are no JSON object, or a broken one", len(data))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("more follows the JSON object that ends at byte %d of %d", dec.InputOffset(), len(data))
	}
	return root, nil
}

// readStored reads the keys that a spec file has too as they are read there.
func readStored(t *doc.Table) Spec {
	for _, key := range []string{
		"name", "own", "image", "image_source", "image_sha256", "image_format", "cpus", "memory", "disk", "port",
		"install_guest_agent", "network", "probe", "on_change", "power", "drain", "skip_cleanup",
	} {
		present(t, key)
	}
	d := decode(t, shelf{})
	for _, b := range []blob{userDataBlob, vendorDataBlob, networkConfBlob} {
		t.Refuse(b.key, "a stored spec has it in base64")
		t.Refuse(b.file(), "a stored spec has its content in base64")
	}
	probe := t.Table("probe")
	probe.Refuse("credentials", "a stored spec has the path of their file")
	present(probe, "type")
	if d.probe.URL != "" {
		present(probe, "expect_status")
	}
	checkProbe(probe, d.probe)
	s := d.spec()
	s.CPUs, s.Memory = d.cpus, d.memory
	s.Probe.Credentials, _ = doc.Text(probe, "credentials_file", storedPath)
	s.Name, _ = doc.Text(t, "name", named(KindProxy))
	s.Own, _ = doc.Text(t, "own", form(ownForm, "32 hex digits"))
	s.Image.Key = d.image
	s.Image.Source, _ = doc.Text(t, "image_source", storedSource)
	s.Image.SHA256, _ = doc.Text(t, "image_sha256", form(digestForm, "64 hex digits"))
	s.Image.Format, _ = doc.Text(t, "image_format", form(formatForm, `"qcow2" or "raw"`))
	return s
}

func present(t *doc.Table, key string) {
	if !t.Has(key) {
		t.Fail(key, "is missing")
	}
}

var (
	ownForm    = regexp.MustCompile(`^[0-9a-f]{32}$`)
	digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	formatForm = regexp.MustCompile(`^(qcow2|raw)$`)
)

func form(re *regexp.Regexp, want string) func(string) (string, error) {
	return func(text string) (string, error) {
		if !re.MatchString(text) {
			return "", fmt.Errorf("is %d characters that are not %s", len(text), want)
		}
		return text, nil
	}
}

func storedPath(text string) (string, error) {
	if !filepath.IsAbs(text) {
		return "", errors.New("is not an absolute path")
	}
	return storedSource(text)
}

// storedSource checks that an image's source is of one of the two kinds that a
// config can name.
func storedSource(text string) (string, error) {
	const most = 4095 // the longest path, in bytes
	switch {
	case len(text) > most || strings.ContainsFunc(text, isControl):
		return "", fmt.Errorf("is longer than %d bytes or has control characters", most)
	case !filepath.IsAbs(text) && !Image{Source: text}.Remote():
		return "", errors.New("is neither an absolute path nor an https URL")
	}
	return text, nil
}
