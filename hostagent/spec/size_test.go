package spec_test

import (
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]spec.Size{
		"2GiB": 2 << 30, "512MiB": 512 << 20, "1TiB": 1 << 40, "3KiB": 3 << 10, "0GiB": 0, "1536MiB": 1536 << 20, "8388607TiB": 8388607 << 40,
	} {
		got, err := spec.ParseSize(text)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestParseSizeRefuses(t *testing.T) {
	t.Parallel()
	for text, hint := range map[string]string{
		"20":                      `want "20MiB" or "20GiB"`,
		"2GB":                     `want "2GiB"`,
		"2G":                      `want "2GiB"`,
		"2g":                      `want "2GiB"`,
		"2 GiB":                   `want "2GiB"`,
		"2gib":                    `want "2GiB"`,
		"512mb":                   `want "512MiB"`,
		"1.5GiB":                  "1536MiB",
		"GiB":                     "whole number and its unit",
		"":                        "whole number and its unit",
		"-1GiB":                   "whole number and its unit",
		"+1GiB":                   "whole number and its unit",
		" 1GiB":                   "whole number and its unit",
		"1GiB ":                   `want "1GiB"`,
		"0x10GiB":                 "one of KiB, MiB, GiB, TiB",
		"1e3MiB":                  "one of KiB, MiB, GiB, TiB",
		"1PiB":                    "one of KiB, MiB, GiB, TiB",
		"8388608TiB":              "more bytes than a size can hold",
		"9223372036854775808KiB":  "more bytes than a size can hold",
		"99999999999999999999GB":  "KiB, MiB, GiB and TiB",
		"٣GiB":                    "whole number and its unit",
		"1\x1b[31mGiB":            "one of KiB, MiB, GiB, TiB",
		strings.Repeat("1", 5000): "no unit",
	} {
		got, err := spec.ParseSize(text)
		if err == nil {
			t.Errorf("ParseSize(%q) = %v; want an error", text, got)
			continue
		}
		if !strings.Contains(err.Error(), hint) {
			t.Errorf("ParseSize(%q): %v; want the hint %q", text, err, hint)
		}
		if len(err.Error()) > 300 || strings.ContainsRune(err.Error(), '\x1b') {
			t.Errorf("ParseSize(%q): unbounded or raw: %v", text, err)
		}
	}
}

func TestSizeString(t *testing.T) {
	t.Parallel()
	for want, size := range map[string]spec.Size{
		"2GiB": 2 << 30, "1536MiB": 1536 << 20, "1TiB": 1 << 40, "1025GiB": 1025 << 30, "1KiB": 1024, "0GiB": 0, "1025B": 1025,
	} {
		if got := size.String(); got != want {
			t.Errorf("Size(%d) = %s; want %s", int64(size), got, want)
		}
		if back, err := spec.ParseSize(want); size%spec.KiB == 0 && (err != nil || back != size) {
			t.Errorf("%s is read back as %v, %v", want, back, err)
		}
	}
}
