package spec

import "github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"

// MaxJSON is the largest document that DecodeJSON takes, in bytes.
const MaxJSON = MaxStored

// DecodeJSON reads the spec of the proxy called name from a JSON object with the
// keys of a spec file, less those that name another file: a document that came
// over the network never reads one of the host's. file is its name for people.
//
// Keys match in their exact case, a key twice in an object and anything after
// the object are errors, and so is a number that is not written as an integer.
// An error is Problems, with the places.
func DecodeJSON(name, file string, data []byte, cat Catalog) (Spec, error) {
	d, err := doc.ParseJSON(file, data, MaxJSON)
	if err != nil {
		return Spec{}, err
	}
	d.Root().Refuse("name", "the name is given outside the object")
	s := DecodeTable(name, d.Root(), cat, nil)
	if err := d.Err(); err != nil {
		return Spec{}, err
	}
	return s, nil
}

// DecodeTable reads the spec of the proxy called name from a table of a document
// of many, as DecodeJSON does from a whole one. Problems are left in the table's
// document: what is returned may be used only when that document's Err is nil.
// The key name is for the caller to read, who got the name from it. templates are
// those of the document; nil where it can have none.
func DecodeTable(name string, t *doc.Table, cat Catalog, templates Templates) Spec {
	return decodeTable(name, t, cat, shelf{templates: templates})
}
