package domxml

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// Namespace is the XML name space of the ownership element in a domain's
// metadata; NamespacePrefix is the prefix it is written with.
const (
	Namespace       = "https://github.com/egress-proxies/egress-hostagent/ns/1"
	NamespacePrefix = "egress"
)

// maxMetadata bounds what is parsed of one domain's metadata, in bytes.
const maxMetadata = 64 << 10

// element is the ownership element. It has no namespace in its tags because
// libvirt hands the element out without prefix and xmlns.
type element struct {
	XMLName  xml.Name `xml:"proxy"`
	Host     string   `xml:"host,attr"`
	Name     string   `xml:"name,attr"`
	Instance string   `xml:"instance,attr"`
	Origin   string   `xml:"origin,attr"`
	Spec     string   `xml:"spec,attr"`
	Seed     string   `xml:"seed,attr"`
	Base     string   `xml:"base,attr"`
	// Generation is left out while it is 0, as it was before there was one.
	Generation int `xml:"generation,attr,omitempty"`
}

// EncodeOwnership gives the element without name space, as libvirt's metadata
// calls take and return it.
func EncodeOwnership(o observe.Ownership) (string, error) {
	b, err := xml.Marshal(element{
		Host: o.Host, Name: o.Name, Instance: o.Instance, Origin: o.Origin,
		Spec: o.Spec.String(), Seed: o.Seed, Base: o.Base, Generation: o.Generation,
	})
	if err != nil {
		return "", fmt.Errorf("encode ownership of %s: %w", o.Name, err)
	}
	return string(b), nil
}

// DecodeOwnership reads an ownership element, with or without its name space.
// A claim that is incomplete is an error: it is never taken for ours.
func DecodeOwnership(text string) (observe.Ownership, error) {
	if len(text) > maxMetadata {
		return observe.Ownership{}, fmt.Errorf("ownership element: longer than %d bytes", maxMetadata)
	}
	var e element
	if err := xml.Unmarshal([]byte(text), &e); err != nil {
		return observe.Ownership{}, fmt.Errorf("ownership element: %w", err)
	}
	if e.XMLName.Space != "" && e.XMLName.Space != Namespace {
		return observe.Ownership{}, errors.New("ownership element: of another name space")
	}
	if e.Host == "" || e.Name == "" || e.Instance == "" {
		return observe.Ownership{}, errors.New("ownership element: host, name or instance is missing")
	}
	if e.Generation < 0 {
		return observe.Ownership{}, errors.New("ownership element: generation is negative")
	}
	h, err := spec.ParseHash(e.Spec)
	if err != nil {
		return observe.Ownership{}, fmt.Errorf("ownership element: %w", err)
	}
	return observe.Ownership{
		Host: e.Host, Name: e.Name, Instance: e.Instance, Origin: e.Origin,
		Spec: h, Seed: e.Seed, Base: e.Base, Generation: e.Generation,
	}, nil
}

// ForeignMetadata returns the children of a domain's metadata that are not
// ours, each as XML text that carries its own name space. A redefine hands
// them back, because defining a domain replaces all of its metadata.
func ForeignMetadata(domainXML string) ([]string, error) {
	var doc struct {
		Metadata struct {
			Inner string `xml:",innerxml"`
		} `xml:"metadata"`
	}
	if err := xml.Unmarshal([]byte(domainXML), &doc); err != nil {
		return nil, fmt.Errorf("read metadata of domain: %w", err)
	}
	return splitElements(doc.Metadata.Inner)
}

// splitElements cuts a sequence of sibling elements apart, leaving ours out.
// libvirt declares each metadata child's name space on the child itself.
func splitElements(inner string) ([]string, error) {
	var out []string
	d := xml.NewDecoder(strings.NewReader(inner))
	for {
		start := d.InputOffset()
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read metadata of domain: %w", err)
		}
		el, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		if err := d.Skip(); err != nil {
			return nil, fmt.Errorf("read metadata of domain: %w", err)
		}
		if el.Name.Space != Namespace {
			out = append(out, inner[start:d.InputOffset()])
		}
	}
}
