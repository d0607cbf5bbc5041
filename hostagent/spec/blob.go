package spec

import (
	"encoding/base64"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
	"github.com/egress-proxies/egress-hostagent/seed"
)

// blob is a document for cloud-init that is shipped byte for byte (invariant
// 7) and given by one of three keys:
//
//   - KEY: the bytes of the string. TOML itself takes away the first newline
//     after the opening quotes, resolves the escapes of a string in double
//     quotes, and nothing else: a spec with CRLF line ends ships CRLF.
//   - KEY_file: the file's bytes.
//   - KEY_base64: what is left after removing exactly one layer.
//
// User-data has a fourth, user_data_template: the bytes of a template of the
// same document.
type blob struct {
	key  string
	most int // bytes
}

var (
	userDataBlob    = blob{"user_data", seed.MaxUserData}
	vendorDataBlob  = blob{"vendor_data", seed.MaxVendorData}
	networkConfBlob = blob{"network_config", seed.MaxNetworkConfig}
)

func (b blob) file() string   { return b.key + "_file" }
func (b blob) base64() string { return b.key + "_base64" }

// keys gives those by which the document can be given.
func (b blob) keys() []string {
	keys := []string{b.key, b.file(), b.base64()}
	if b == userDataBlob {
		keys = append(keys, templateKey)
	}
	return keys
}

// given gives the keys that are there.
func (b blob) given(t *doc.Table) []string {
	return slices.DeleteFunc(b.keys(), func(key string) bool { return !t.Has(key) })
}

// read reads the document: nil when none of its keys is there, or what was
// reported.
func (b blob) read(t *doc.Table, from shelf) Secret {
	given := b.given(t)
	allowed := b.keys()
	if from.templates == nil {
		allowed = allowed[:3]
	}
	for _, key := range given[min(1, len(given)):] {
		t.Fail(key, "is given beside %s; give at most one of %s", given[0], strings.Join(allowed, ", "))
	}
	data := []byte(nil)
	if text, ok := t.String(b.key); ok {
		data = []byte(text)
	}
	if decoded, ok := doc.Text(t, b.base64(), decodeBase64); ok {
		data = decoded
	}
	if from.open == nil {
		t.Refuse(b.file(), fmt.Sprintf("no file of the host can be named here; give %s or %s", b.key, b.base64()))
	} else if rel, ok := doc.Text(t, b.file(), relativeFile); ok && len(given) == 1 {
		data = readFile(t, b.file(), rel, from.open)
	}
	if b == userDataBlob {
		data = from.template(t, data)
	}
	if len(given) != 1 {
		return nil
	}
	if len(data) > b.most {
		t.Fail(given[0], "is %d bytes long; at most %d are allowed", len(data), b.most)
		return nil
	}
	return data
}

// decodeBase64 removes one layer. Blanks and newlines do not count.
func decodeBase64(text string) ([]byte, error) {
	packed := strings.Join(strings.Fields(text), "")
	data, err := base64.StdEncoding.Strict().DecodeString(packed)
	if at, ok := err.(base64.CorruptInputError); ok {
		return nil, fmt.Errorf("is not base64: it breaks at character %d of %d; want the standard alphabet, padded with \"=\"", int64(at)+1, len(packed))
	}
	return data, err
}

// relativeFile checks that a path names something beneath the directory it is
// relative to, as far as its text shows.
func relativeFile(rel string) (string, error) {
	const allowed = "want a file beneath the spec's directory, such as \"squid.yaml\""
	switch {
	case rel == "" || strings.ContainsFunc(rel, isControl):
		return "", fmt.Errorf("%q is no file's path; %s", clip(rel), allowed)
	case path.IsAbs(rel):
		return "", fmt.Errorf("%q is an absolute path; %s", clip(rel), allowed)
	case !filepath.IsLocal(rel) || path.Clean(rel) != rel || rel == ".":
		return "", fmt.Errorf("%q has parts that lead elsewhere (\"..\", \".\", a double or final slash); %s", clip(rel), allowed)
	}
	return rel, nil
}

// readFile gives a file's bytes: not nil, unless it reported why.
func readFile(t *doc.Table, key, rel string, open Opener) []byte {
	data, err := open(rel)
	if err != nil {
		t.Fail(key, "%v", err)
		return nil
	}
	if data == nil {
		return []byte{}
	}
	return data
}

func isControl(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }
