package state

import (
	"bytes"
	"encoding/json"
	"testing"
)

// What is on disk stays readable: this form is a promise to later builds.
func TestTheFormOnDisk(t *testing.T) {
	got, err := encode(envelope{Host: testHost, Kind: Spec, Key: "a", Body: json.RawMessage(`{"user_data": "<&>\u2028"}`)})
	want := `{"version":1,"host":"host-1","kind":"spec","key":"a","body":{"user_data":"<&>\u2028"}}` + "\n"
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// What decode accepts says the same after encode and decode.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(envelopeA))
	f.Add([]byte(`{"version":1,"host":"h","kind":"tombstone","key":"k","lost":"why"}`))
	f.Add([]byte(`{"version":2,"host":[]}`))
	f.Add([]byte(`{"version":1,"body":null,"body":{"a":[1,"\ud800"]},"BODY":1}`))
	f.Add([]byte(" "))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := decode(data)
		if err != nil {
			return
		}
		text, err := encode(first)
		if err != nil {
			t.Fatalf("%q can not be encoded: %v", data, err)
		}
		second, err := decode(text)
		if err != nil {
			t.Fatalf("%q became %q: %v", data, text, err)
		}
		again, err := encode(second)
		if err != nil || !bytes.Equal(text, again) {
			t.Errorf("%q became %q, then %q: %v", data, text, again, err)
		}
		if second.belongs(first.Host, place{first.Kind, first.Key}) != nil || second.Lost != first.Lost {
			t.Errorf("%+v became %+v", first, second)
		}
	})
}
