package spec

import (
	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
)

// templateKey gives user-data by the name of a template of the same document.
const templateKey = "user_data_template"

// Templates is user-data that the proxies of one document share, by name. A
// template is taken byte for byte, as user-data is everywhere (invariant 7):
// nothing in it is filled in.
type Templates map[string]Secret

// DecodeTemplates reads templates from a table of them: each is a table with
// one of user_data and user_data_base64. Problems are left in the document. It
// gives a map even when there are none.
func DecodeTemplates(t *doc.Table) Templates {
	all := Templates{}
	for _, name := range t.Keys() {
		sub := t.Table(name)
		if err := CheckName(KindTemplate, name); err != nil {
			t.Fail(name, "%v", err)
		}
		if len(userDataBlob.given(sub)) == 0 {
			sub.Fail("", "has no user-data; give user_data or user_data_base64")
		}
		all[name] = userDataBlob.read(sub, shelf{})
	}
	return all
}

// shelf is where a document finds what it names.
type shelf struct {
	open      Opener    // nil: no file can be named
	templates Templates // nil: no template can
}

// template gives the bytes of the template that the table names, else data.
func (s shelf) template(t *doc.Table, data []byte) []byte {
	if s.templates == nil {
		t.Refuse(templateKey, "templates are for a manifest's proxies; give user_data or user_data_base64")
		return data
	}
	name, ok := doc.Text(t, templateKey, named(KindTemplate))
	if !ok {
		return data
	}
	found, ok := s.templates[name]
	switch {
	case ok && found == nil: // its own problem is reported
		return []byte{}
	case ok:
		return found
	case len(s.templates) == 0:
		t.Fail(templateKey, "there is no template %q; the document has none: add it to templates", name)
	default:
		t.Fail(templateKey, "there is no template %q; %s", name, known(name, s.templates, "templates"))
	}
	return []byte{}
}
