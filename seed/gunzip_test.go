package seed

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func zip(t testing.TB, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestSeed17_GunzipLayer(t *testing.T) {
	t.Parallel()
	one := zip(t, "one")
	badSum := bytes.Clone(one)
	badSum[len(badSum)-8] ^= 1
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for _, test := range []struct {
		name     string
		in, want []byte
	}{
		{"plain", []byte("#!/bin/sh\n"), []byte("#!/bin/sh\n")},
		{"gzip", one, []byte("one")},
		{"gzip of gzip loses one layer", zip(t, string(one)), one},
		{"two members", join(one, zip(t, "two")), []byte("onetwo")},
		{"zeros between and behind", join(one, make([]byte, 3), one, make([]byte, 9)), []byte("oneone")},
		{"empty content", zip(t, ""), nil},
		{"cut off", one[:len(one)-3], one[:len(one)-3]},
		{"only the magic", []byte{0x1f, 0x8b}, []byte{0x1f, 0x8b}},
		{"bad checksum", badSum, badSum},
		{"garbage behind", join(one, []byte("x")), join(one, []byte("x"))},
		{"exactly the limit", zip(t, strings.Repeat("x", 100)), bytes.Repeat([]byte("x"), 100)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := gunzipLayer(test.in, 100)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(test.want), string(got)); diff != "" {
				t.Errorf("unpacked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestI15_GunzipIsBounded(t *testing.T) {
	t.Parallel()
	for name, doc := range map[string][]byte{
		"one member":  zip(t, strings.Repeat("x", 101)),
		"two members": append(zip(t, strings.Repeat("x", 100)), zip(t, "x")...),
		"bomb":        zip(t, strings.Repeat("x", 64<<20)),
	} {
		got, err := gunzipLayer(doc, 100)
		if diff := cmp.Diff([]string{VendorDataFile}, fields(err)); diff != "" || got != nil {
			t.Errorf("%s: %d bytes, fields (-want +got):\n%s", name, len(got), diff)
		}
	}
}
