package seed

import (
	"bytes"
	"encoding/base64"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// part is one part of a composed document, body decoded.
type part struct{ ctype, name, encoding, body string }

var scriptPart = part{"text/x-shellscript", "zz-egress-guest-agent.sh", "base64", script}

// split takes a composed document apart with the standard library's parser.
func split(t *testing.T, doc []byte) []part {
	t.Helper()
	msg, err := mail.ReadMessage(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	ctype, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil || ctype != "multipart/mixed" {
		t.Fatalf("content type %q: %v", ctype, err)
	}
	var parts []part
	r := multipart.NewReader(msg.Body, params["boundary"])
	for {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return parts
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		encoding := p.Header.Get("Content-Transfer-Encoding")
		if encoding == "base64" {
			body, err = base64.StdEncoding.DecodeString(strings.ReplaceAll(string(body), "\n", ""))
			if err != nil {
				t.Fatal(err)
			}
		}
		ctype, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
		parts = append(parts, part{ctype, p.FileName(), encoding, string(body)})
	}
}

func TestI07_Seed14_Seed15_VendorDataUntouched(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		in   Input
		want []byte
	}{
		{"agent off, none", Input{}, nil},
		{"agent off, empty", Input{VendorData: []byte{}}, []byte{}},
		{"agent off, gzip", Input{VendorData: zip(t, "x")}, zip(t, "x")},
		{"agent off, broken MIME", Input{VendorData: []byte("MIME-Version: 1.0\n\n\xff")}, []byte("MIME-Version: 1.0\n\n\xff")},
		{"agent on, none", Input{GuestAgent: true}, Script()},
		{"agent on, empty", Input{GuestAgent: true, VendorData: []byte{}}, Script()},
		{"agent on, white space", Input{GuestAgent: true, VendorData: []byte(" \r\n\t\v\f\n")}, Script()},
		{"agent on, gzip of white space", Input{GuestAgent: true, VendorData: zip(t, " \n")}, Script()},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.in.InstanceID = "i"
			got, present := mustInspect(t, mustBuild(t, test.in)).Files[VendorDataFile]
			if present != (test.want != nil) || !bytes.Equal(got, test.want) {
				t.Errorf("vendor-data present %t, %d bytes; want present %t, %d bytes",
					present, len(got), test.want != nil, len(test.want))
			}
		})
	}
}

// The first part has to give exactly the user's document for everything that
// cloud-init does not take for MIME.
func TestI07_Seed16_VendorDataAsTextPlain(t *testing.T) {
	t.Parallel()
	docs := map[string]string{
		"cloud-config":             "#cloud-config\na: 1\n",
		"CRLF":                     "#cloud-config\r\na: 1\r\n",
		"BOM":                      "\uFEFF#cloud-config\n",
		"no final newline":         "#!/bin/sh\necho",
		"latin-1 and NUL":          "#cloud-config\n# \xfc\x00\xff\n",
		"lines of 57, 58":          strings.Repeat("x", 57) + "\n" + strings.Repeat("y", 58),
		"one byte":                 "x",
		"boundary-looking lines":   "--==egress-00==\nFrom me\n.\n",
		"mime-version too late":    strings.Repeat("#", 4096-12) + "mime-version: 1.0\n",
		"mime-version, no header":  "#!/bin/sh\ncat <<E\nMIME-Version: 1.0\nE\n",
		"blank line, then headers": "\nMIME-Version: 1.0\nContent-Type: text/cloud-config\n\na: 1\n",
		"folds only in Unicode":    "m\u0130me-version: 1.0\n\nx",
		"colon behind a blank":     "a b: MIME-Version:\n",
	}
	for name, doc := range docs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := []part{{"text/plain", "", "base64", doc}, scriptPart}
			for how, given := range map[string][]byte{"bare": []byte(doc), "gzip": zip(t, doc)} {
				got, err := Input{VendorData: given, GuestAgent: true}.vendorData()
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, split(t, got), cmp.AllowUnexported(part{})); diff != "" {
					t.Errorf("%s: parts (-want +got):\n%s", how, diff)
				}
			}
		})
	}
}

func TestSeed17_VendorDataKeepsBrokenGzip(t *testing.T) {
	t.Parallel()
	broken := zip(t, "#cloud-config\n")[:20]
	got, err := Input{VendorData: broken, GuestAgent: true}.vendorData()
	if err != nil {
		t.Fatal(err)
	}
	want := []part{{"text/plain", "", "base64", string(broken)}, scriptPart}
	if diff := cmp.Diff(want, split(t, got), cmp.AllowUnexported(part{})); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

func TestSeed17_VendorDataBombIsRefused(t *testing.T) {
	t.Parallel()
	in := Input{InstanceID: "i", VendorData: zip(t, strings.Repeat("x", MaxVendorData+1)), GuestAgent: true}
	if diff := cmp.Diff([]string{VendorDataFile}, fields(in.Validate())); diff != "" {
		t.Errorf("agent on, fields (-want +got):\n%s", diff)
	}
	in.GuestAgent = false
	if err := in.Validate(); err != nil {
		t.Errorf("agent off, nothing has to be unpacked: %v", err)
	}
}

func TestSeed16_ComposedForm(t *testing.T) {
	t.Parallel()
	got, err := compose([]byte(strings.Repeat("a", 60)), []byte("#!/bin/sh\n"))
	if err != nil {
		t.Fatal(err)
	}
	b := "==egress-43729c788394700ab375a534e1b05b58=="
	want := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"" + b + "\"\n\n" +
		"--" + b + "\nContent-Type: text/plain; charset=\"utf-8\"\nMIME-Version: 1.0\nContent-Transfer-Encoding: base64\n\n" +
		strings.Repeat("YWFh", 19) + "\nYWFh\n" +
		"--" + b + "\nContent-Type: text/x-shellscript; charset=\"utf-8\"\nMIME-Version: 1.0\nContent-Transfer-Encoding: base64\n" +
		"Content-Disposition: attachment; filename=\"zz-egress-guest-agent.sh\"\n\nIyEvYmluL3NoCg==\n" +
		"--" + b + "--\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
}
