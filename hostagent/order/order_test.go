package order_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/order"
)

const digest = "0123456789ab"

func TestCheck(t *testing.T) {
	t.Parallel()
	named := []order.Verb{order.Recreate, order.Delete, order.Abandon}
	orAll := []order.Verb{order.Adopt, order.Pause, order.Resume}
	type test struct {
		order order.Order
		says  string // of the error; "" when there is none
	}
	tests := []test{
		{order.Order{Verb: order.Release, Digest: digest}, ""},
		{order.Order{Verb: order.Release}, "12 hex digits"},
		{order.Order{Verb: order.Release, Digest: digest + "0"}, "12 hex digits"},
		{order.Order{Verb: order.Release, Digest: digest + "\n"}, "12 hex digits"},
		{order.Order{Verb: order.Release, Digest: strings.ToUpper(digest)}, "12 hex digits"},
		{order.Order{Verb: order.Release, Digest: digest, Name: "a"}, "nothing else"},
		{order.Order{Verb: order.Release, Digest: digest, All: true}, "nothing else"},
		{order.Order{Verb: order.ResetManifest}, ""},
		{order.Order{Verb: order.ResetManifest, Name: "a"}, "takes nothing"},
		{order.Order{}, `no order ""`},
		{order.Order{Verb: "Pause", Name: "a"}, `no order "Pause"`},
		{order.Order{Verb: order.Verb(strings.Repeat("x", 4000))}, `no order "` + strings.Repeat("x", 40) + `"`},
	}
	for _, v := range named {
		tests = append(tests, test{order.Order{Verb: v, Name: "a"}, ""},
			test{order.Order{Verb: v}, "needs the name of one proxy"}, test{order.Order{Verb: v, All: true}, "needs the name of one proxy"},
			test{order.Order{Verb: v, Name: "a", All: true}, "needs the name of one proxy"},
			test{order.Order{Verb: v, Name: "a", Digest: digest}, "needs the name of one proxy"})
	}
	for _, v := range orAll {
		tests = append(tests, test{order.Order{Verb: v, Name: "a"}, ""}, test{order.Order{Verb: v, All: true}, ""},
			test{order.Order{Verb: v}, "or all"}, test{order.Order{Verb: v, Name: "a", All: true}, "or all"},
			test{order.Order{Verb: v, All: true, Digest: digest}, "or all"})
	}
	for _, tt := range tests {
		err := tt.order.Check()
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: error %v, want %q", tt.order, err, tt.says)
		}
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]order.Order{
		"delete edge1":      {Verb: order.Delete, Name: "edge1", By: "root"},
		"pause --all":       {Verb: order.Pause, All: true},
		"resume edge1":      {Verb: order.Resume, Name: "edge1"},
		"manifest reset":    {Verb: order.ResetManifest},
		"release " + digest: {Verb: order.Release, Digest: digest},
	} {
		if got := o.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The names of the fields are what other programs send.
func TestJSON(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]order.Order{
		`{"verb":"delete","name":"edge1"}`:            {Verb: order.Delete, Name: "edge1"},
		`{"verb":"adopt","all":true}`:                 {Verb: order.Adopt, All: true},
		`{"verb":"release","digest":"0123456789ab"}`:  {Verb: order.Release, Digest: digest},
		`{"verb":"recreate","name":"a","by":"alice"}`: {Verb: order.Recreate, Name: "a", By: "alice"},
	} {
		got, err := json.Marshal(o)
		if err != nil || string(got) != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
		var back order.Order
		if err := json.Unmarshal(got, &back); err != nil || !cmp.Equal(o, back) {
			t.Errorf("%s comes back as %+v, %v", got, back, err)
		}
	}
}
