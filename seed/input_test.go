package seed

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fields returns the fields of all InputErrors in err, in order.
func fields(err error) []string {
	var out []string
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			out = append(out, fields(e)...)
		}
		return out
	}
	if bad, ok := errors.AsType[*InputError](err); ok {
		out = append(out, bad.Field)
	}
	return out
}

func with(change func(*Input)) Input {
	in := Input{InstanceID: "i-1", Hostname: "edge-1"}
	change(&in)
	return in
}

func TestI13_NamesAreValidated(t *testing.T) {
	t.Parallel()
	label63 := strings.Repeat("a", 63)
	for _, test := range []struct {
		name string
		in   Input
		want []string
	}{
		{"minimum", Input{InstanceID: "i"}, nil},
		{"id of 64", with(func(in *Input) { in.InstanceID = strings.Repeat("x", 64) }), nil},
		{"id of 65", with(func(in *Input) { in.InstanceID = strings.Repeat("x", 65) }), []string{"instance-id"}},
		{"id empty", with(func(in *Input) { in.InstanceID = "" }), []string{"instance-id"}},
		{"id with slash", with(func(in *Input) { in.InstanceID = "a/../b" }), []string{"instance-id"}},
		{"id with line end", with(func(in *Input) { in.InstanceID = "a\n" }), []string{"instance-id"}},
		{"id with NUL", with(func(in *Input) { in.InstanceID = "a\x00b" }), []string{"instance-id"}},
		{"host that YAML retypes", with(func(in *Input) { in.Hostname = "on" }), nil},
		{"host of digits", with(func(in *Input) { in.Hostname = "0123" }), nil},
		{"host with domain", with(func(in *Input) { in.Hostname = "edge.example.test" }), nil},
		{"host label of 63", with(func(in *Input) { in.Hostname = label63 }), nil},
		{"host label of 64", with(func(in *Input) { in.Hostname = label63 + "a" }), []string{"local-hostname"}},
		{"host too long", with(func(in *Input) {
			in.Hostname = strings.Join([]string{label63, label63, label63, label63}, ".")
		}), []string{"local-hostname"}},
		{"host with underscore", with(func(in *Input) { in.Hostname = "edge_1" }), []string{"local-hostname"}},
		{"host ends with hyphen", with(func(in *Input) { in.Hostname = "edge-" }), []string{"local-hostname"}},
		{"host is an address", with(func(in *Input) { in.Hostname = "192.0.2.1" }), []string{"local-hostname"}},
		{"host with final dot", with(func(in *Input) { in.Hostname = "edge." }), []string{"local-hostname"}},
		{"all at once", Input{Hostname: "-", Vars: map[string]string{"dsmode": "", "b c": ""}, NetworkConfig: []byte("- a")},
			[]string{"instance-id", "local-hostname", `vars["b c"]`, `vars["dsmode"]`, "network-config"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, fields(test.in.Validate())); diff != "" {
				t.Errorf("fields with problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestI15_SizesAreBounded(t *testing.T) {
	t.Parallel()
	long := func(n int) []byte { return []byte("a: " + strings.Repeat("b", n-3)) }
	for _, test := range []struct {
		field string
		limit int
		set   func(*Input, []byte)
	}{
		{UserDataFile, MaxUserData, func(in *Input, b []byte) { in.UserData = b }},
		{VendorDataFile, MaxVendorData, func(in *Input, b []byte) { in.VendorData = b }},
		{NetworkConfigFile, MaxNetworkConfig, func(in *Input, b []byte) { in.NetworkConfig = b }},
		{MetaDataFile, MaxMetaData, func(in *Input, b []byte) {
			const frame = `{"instance-id":"i-1","local-hostname":"edge-1","v":""}` + "\n"
			in.Vars = map[string]string{"v": string(b[len(frame):])}
		}},
	} {
		t.Run(test.field, func(t *testing.T) {
			t.Parallel()
			fits := with(func(in *Input) { test.set(in, long(test.limit)) })
			if err := fits.Validate(); err != nil {
				t.Errorf("at the limit: %v", err)
			}
			over := with(func(in *Input) { test.set(in, long(test.limit+1)) })
			err := over.Validate()
			if diff := cmp.Diff([]string{test.field}, fields(err)); diff != "" {
				t.Fatalf("over the limit (-want +got):\n%s", diff)
			}
			if len(err.Error()) > 200 {
				t.Errorf("message of %d bytes: content in it?", len(err.Error()))
			}
			if img, err := Build(over); err == nil || img.Bytes != nil {
				t.Error("Build made an image of it")
			}
		})
	}
}
