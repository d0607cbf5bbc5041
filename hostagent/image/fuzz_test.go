package image

import (
	"encoding/json"
	"testing"
)

// A record that is taken is this host's, speaks of the files it lies beside and
// can be written again.
func FuzzParseRecord(f *testing.F) {
	good, err := json.Marshal(testRecord("a", testInst))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(`{"version":2,"new":true}`))
	f.Add([]byte(`{"version":1,"host":"host-b","Version":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tree := New("/r", testHost)
		rec, err := tree.parseRecord(data, "a", testInst)
		if err != nil {
			return
		}
		if rec.Host != testHost || rec.Name != "a" || rec.Instance != testInst {
			t.Fatalf("%q was taken for a record of this incarnation: %+v", data, rec)
		}
		text, err := json.Marshal(rec)
		if err != nil {
			t.Fatalf("%q can not be written again: %v", data, err)
		}
		again, err := tree.parseRecord(text, "a", testInst)
		if err != nil {
			t.Fatalf("%q became %q: %v", data, text, err)
		}
		if second, err := json.Marshal(again); err != nil || string(second) != string(text) {
			t.Errorf("%q became %q: %v", text, second, err)
		}
	})
}
