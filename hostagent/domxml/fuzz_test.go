package domxml

import (
	"testing"
)

// What DecodeOwnership accepts names its proxy, and says the same after
// encoding and decoding.
func FuzzDecodeOwnership(f *testing.F) {
	f.Add(`<proxy host="h" name="n" instance="i-0000000000000001" origin="dir" spec="" seed="s" base="b"/>`)
	f.Add(`<egress:proxy xmlns:egress="` + Namespace + `" host="h" name="n" instance="i" generation="3"/>`)
	f.Add(`<proxy xmlns="urn:other" host="h" name="n" instance="i"/>`)
	f.Add(`<proxy host="h" name="n" instance="i" generation="-1">`)
	if text, err := EncodeOwnership(input(TCG).Owner); err == nil {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, err := DecodeOwnership(text)
		if err != nil {
			return
		}
		if first.Host == "" || first.Name == "" || first.Instance == "" || first.Generation < 0 {
			t.Fatalf("%q was taken for a claim: %+v", text, first)
		}
		again, err := EncodeOwnership(first)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := DecodeOwnership(again); err != nil || second != first {
			t.Errorf("%+v became %+v: %v", first, second, err)
		}
	})
}

// Metadata of others is cut apart without a panic, whatever it holds.
func FuzzForeignMetadata(f *testing.F) {
	f.Add(`<domain><metadata><a xmlns="urn:a"><b/></a><p xmlns="` + Namespace + `"/></metadata></domain>`)
	f.Add(`<domain><metadata>text<!-- c --><x:y xmlns:x="urn:x" k="&lt;"/></metadata></domain>`)
	f.Fuzz(func(t *testing.T, text string) {
		parts, err := ForeignMetadata(text)
		for _, p := range parts {
			if err != nil || len(p) == 0 || len(p) > len(text) {
				t.Errorf("%q gave %q, %v", text, parts, err)
			}
		}
	})
}
