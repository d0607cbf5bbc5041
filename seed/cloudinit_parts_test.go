//go:build cloudinit

package seed

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// corpus are all documents, each bare and as gzip.
func corpus(t *testing.T) map[string][]byte {
	docs := map[string][]byte{}
	for name, doc := range plainCorpus(t) {
		docs[name] = []byte(doc)
	}
	for name, doc := range mimeCorpus(t) {
		docs[name] = []byte(doc)
	}
	for _, name := range slices.Collect(maps.Keys(docs)) {
		docs["gzip: "+name] = zip(t, string(docs[name]))
	}
	return docs
}

// sameType makes the two types one by which cloud-init says that it found none.
func sameType(parts []ciPart) []ciPart {
	for i := range parts {
		if parts[i].Type == "text/x-not-multipart" {
			parts[i].Type = "text/plain"
		}
	}
	return parts
}

// What cloud-init makes of a user's vendor data does not depend on whether the
// guest agent's installer is beside it.
func TestSeed20_CloudInitMakesTheSameOfVendorData(t *testing.T) {
	t.Parallel()
	docs := corpus(t)
	if len(docs) < 40 {
		t.Fatalf("a corpus of %d documents", len(docs))
	}
	names := slices.Sorted(maps.Keys(docs))
	var ask [][]byte
	for _, name := range names {
		composed, err := Input{VendorData: docs[name], GuestAgent: true}.vendorData()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ask = append(ask, docs[name], composed)
	}
	answer := cloudInit(t, map[string]any{"documents": ask}).Documents
	agent := ciPart{"text/x-shellscript", partName, Script()}
	for i, name := range names {
		bare, composed := answer[2*i], answer[2*i+1]
		if bare.Error != "" && composed.Error != "" {
			t.Errorf("%s: cloud-init can read neither form (%s): no test of ours", name, bare.Error)
			continue
		}
		want := ciDocument{Parts: append(sameType(bare.Parts), agent), Error: bare.Error}
		composed.Parts = sameType(composed.Parts)
		if diff := cmp.Diff(want, composed); diff != "" {
			t.Errorf("%s (-bare and agent +composed):\n%s", name, diff)
		}
	}
}

// Where bare and composed differ, composed is the more exact one: cloud-init
// finds a message without headers in these, and what it finds is not the text.
func TestSeed20_CloudInitReadsComposedMoreExactly(t *testing.T) {
	t.Parallel()
	docs := []string{
		"#!/bin/sh\ncat <<E\nMIME-Version: 1.0\nE\n",
		"\nMIME-Version: 1.0\nContent-Type: text/cloud-config\n\na: 1\n",
	}
	var ask [][]byte
	for _, doc := range docs {
		composed, err := Input{VendorData: []byte(doc), GuestAgent: true}.vendorData()
		if err != nil {
			t.Fatal(err)
		}
		ask = append(ask, composed)
	}
	answer := cloudInit(t, map[string]any{"documents": ask}).Documents
	for i, doc := range docs {
		got := answer[i].Parts
		if len(got) != 2 || string(got[0].Payload) != doc {
			t.Errorf("%q: %d parts, the first of them %q", doc, len(got), got[0].Payload)
		}
	}
}

// The parser sees the vendor data of the image, not only of the function.
func TestSeed14_CloudInitRunsTheScriptAlone(t *testing.T) {
	t.Parallel()
	got := ciSeeds(t, "", Input{InstanceID: "i", GuestAgent: true})[0].Vendor
	want := []ciPart{{"text/x-shellscript", "part-001", Script()}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("vendor parts (-want +got):\n%s", diff)
	}
}
