package config_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/config"
)

// shipped is the file that the packages install, in which all is commented out.
const shipped = "../../packaging/config.toml"

var (
	example = regexp.MustCompile(`(?m)^#:`)
	preset  = regexp.MustCompile(`(?m)^#([a-z\[])`)
)

func TestShippedFileIsDefault(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Path = shipped
	for what, text := range map[string]string{
		"as it is":              string(data),
		"with its defaults set": preset.ReplaceAllString(string(data), "$1"),
	} {
		got, err := config.Decode(shipped, []byte(text))
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if d := cmp.Diff(want, got, comparePrefixes); d != "" {
			t.Errorf("%s (-default +decoded):\n%s", what, d)
		}
	}
}

// TestShippedFileShowsEveryKey: and its examples are right.
func TestShippedFileShowsEveryKey(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	text := preset.ReplaceAllString(example.ReplaceAllString(string(data), ""), "$1")
	got, err := config.Decode(shipped, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got.Catalog.Images["debian-12"].Source == "" || got.Host.ID == "" {
		t.Errorf("the examples do not count: %+v", got)
	}
	full, err := os.ReadFile("testdata/full.toml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z_0-9]+) = `).FindAllStringSubmatch(string(full), -1) {
		if key := m[1]; key != "small" && !strings.Contains(text, key+" = ") {
			t.Errorf("%s is not shown", key)
		}
	}
}
