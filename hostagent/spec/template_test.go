package spec_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// fromDocument decodes the proxy p1 of a document with templates.
func fromDocument(t *testing.T, templates, proxy string) (spec.Spec, error) {
	t.Helper()
	text := `{"templates": ` + templates + ",\n" + `"p1": ` + minimalJSON + proxy + `}}`
	d, err := doc.ParseJSON("m", []byte(text), spec.MaxJSON)
	if err != nil {
		t.Fatal(err)
	}
	shared := spec.DecodeTemplates(d.Root().Table("templates"))
	s := spec.DecodeTable("p1", d.Root().Table("p1"), catalog(), shared)
	return s, d.Err()
}

// However user-data is written, it is the same spec, to the byte.
func TestI07_TemplatesAreUserData(t *testing.T) {
	t.Parallel()
	want, err := decodeJSON(minimalJSON + `, "user_data": "#!/bin/sh\r\n{{ x }}\n"}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, templates := range []string{
		`{"squid": {"user_data": "#!/bin/sh\r\n{{ x }}\n"}, "unused": {"user_data": ""}}`,
		`{"squid": {"user_data_base64": "IyEvYmluL3NoDQp7eyB4IH19Cg=="}}`,
	} {
		got, err := fromDocument(t, templates, `, "user_data_template": "squid"`)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, compareAddresses); diff != "" || got.Hash() != want.Hash() || got.Own != want.Own {
			t.Errorf("%s (-written out +from a template):\n%s", templates, diff)
		}
	}
}

func TestTemplateProblems(t *testing.T) {
	t.Parallel()
	const one = `{"squid": {"user_data": "#cloud-config\n"}}`
	for _, tt := range []struct{ templates, proxy, want string }{
		{one, `, "user_data_template": "squit"`, `m:2:55: p1.user_data_template: there is no template "squit"; did you mean "squid"? known: squid`},
		{`{}`, `, "user_data_template": "squid"`, `m:2:55: p1.user_data_template: there is no template "squid"; the document has none: add it to templates`},
		{one, `, "user_data_template": "squid", "user_data": ""`,
			"m:2:55: p1.user_data_template: is given beside user_data; give at most one of user_data, user_data_file, user_data_base64, user_data_template"},
		{one, `, "user_data_template": null`, "m:2:55: p1.user_data_template: is null; want a string"},
		{`{"squid": {}}`, ``, "m:1:16: templates.squid: has no user-data; give user_data or user_data_base64"},
		{`{"squid": "x"}`, ``, "m:1:16: templates.squid: is a string; want a table"},
		{`{"squid": {"user_data_file": "/etc/shadow"}}`, ``,
			"m:1:26: templates.squid.user_data_file: unknown key; no file of the host can be named here; give user_data or user_data_base64"},
		{`{"squid": {"user_data": "", "user_data_template": "squid"}}`, ``,
			"m:1:43: templates.squid.user_data_template: is given beside user_data; give at most one of user_data, user_data_file, user_data_base64\n" +
				"m:1:43: templates.squid.user_data_template: unknown key; templates are for a manifest's proxies; give user_data or user_data_base64"},
	} {
		_, err := fromDocument(t, tt.templates, tt.proxy)
		if diff := cmp.Diff(tt.want, fmt.Sprint(err)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tt.templates, tt.proxy, diff)
		}
	}
	_, err := decodeJSON(minimalJSON + `, "user_data_template": "squid"}`)
	if diff := cmp.Diff("p1.json:1:49: user_data_template: unknown key; templates are for a manifest's proxies; give user_data or user_data_base64", fmt.Sprint(err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
