package seed

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestI07_Seed18_VendorDataNestsMIME(t *testing.T) {
	t.Parallel()
	docs := map[string]string{
		"multipart":       "Content-Type: multipart/mixed; boundary=\"B\"\nMIME-Version: 1.0\n\n--B\nContent-Type: text/cloud-config\n\na: 1\n--B--\n",
		"CRLF":            "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\n\r\nx\r\n--B--\r\n",
		"unclosed":        "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\nx",
		"unclosed line":   "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\nx\n",
		"single part":     "mime-VERSION: 1.0\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n",
		"mbox":            "From me Sat Jan  1 00:00:00 2000\nMIME-Version: 1.0\n\n\u00fc\n",
		"folded first":    " x\nMIME-Version: 1.0\n\n",
		"last that is in": "A:" + strings.Repeat("#", 4096-2-13) + "mime-version: 1.0\n",
	}
	for name, doc := range docs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, given := range map[string][]byte{"bare": []byte(doc), "gzip": zip(t, doc)} {
				got, err := Input{VendorData: given, GuestAgent: true}.vendorData()
				if err != nil {
					t.Fatal(err)
				}
				b := pickBoundary(boundarySeed([]byte(doc), Script()), []byte(doc))
				head := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"" + b + "\"\n\n--" + b + "\n"
				end := "\n"
				if name == "unclosed line" {
					end = ""
				}
				rest, ok := strings.CutPrefix(string(got), head+doc+end+"--"+b+"\n")
				if !ok || !strings.HasPrefix(rest, "Content-Type: text/x-shellscript;") || !strings.HasSuffix(rest, "\n--"+b+"--\n") {
					t.Errorf("%s: not nested as it stands:\n%s", how, got)
				}
			}
		})
	}
}

func TestSeed18_VendorDataRefusesMIMEThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	doc := []byte("MIME-Version: 1.0\nContent-Type: text/plain\n\n\xfc\n")
	for how, given := range map[string][]byte{"bare": doc, "gzip": zip(t, string(doc))} {
		in := Input{InstanceID: "i", VendorData: given, GuestAgent: true}
		if diff := cmp.Diff([]string{VendorDataFile}, fields(in.Validate())); diff != "" {
			t.Errorf("%s: fields (-want +got):\n%s", how, diff)
		}
	}
}

// A document that holds the first candidates, as a nested one well may, gets
// the next one that is free, and always the same.
func TestSeed19_BoundaryCollision(t *testing.T) {
	t.Parallel()
	from := boundarySeed([]byte("doc"), []byte("script"))
	first := pickBoundary(from, nil)
	if want := "==egress-" + hex.EncodeToString(from[:16]) + "=="; first != want {
		t.Fatalf("first candidate %q, want %q", first, want)
	}
	second := pickBoundary(from, []byte("MIME-Version: 1.0\n\n--"+first+"\n"))
	if second == first {
		t.Fatal("took a boundary that is in the document")
	}
	both := []byte("x\r--" + second + "--\n--" + first + "\n")
	third := pickBoundary(from, both)
	if third == first || third == second || third != pickBoundary(from, both) {
		t.Errorf("candidates %q, %q, then %q", first, second, third)
	}
	if free := pickBoundary(from, []byte(first)); free != first {
		t.Error("a document that only names the boundary does not collide with its delimiter")
	}
}
