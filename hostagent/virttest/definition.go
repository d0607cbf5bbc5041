package virttest

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// definition is a domain's XML, read as far as the Fake needs it. The rest is
// kept as text.
type definition struct {
	name, uuid string
	before     string // the XML up to its metadata
	after      string // and from there on
	metadata   map[string]element
	nics       []nic
}

// nic is a network interface of a domain.
type nic struct {
	mac    string // lower case
	source string // name of the libvirt network; empty for others
}

// devices is the part of <devices> that matters here.
type devices struct {
	Interfaces []struct {
		MAC struct {
			Address string `xml:"address,attr"`
		} `xml:"mac"`
		Source struct {
			Network string `xml:"network,attr"`
		} `xml:"source"`
	} `xml:"interface"`
}

// parse reads a domain's XML. One without UUID gets one from its name.
func parse(text string) (*definition, error) {
	dec := xml.NewDecoder(strings.NewReader(text))
	root, err := firstElement(dec)
	if err != nil {
		return nil, err
	}
	if root.Name.Local != "domain" {
		return nil, fmt.Errorf("XML of a domain expected, not of a %s", root.Name.Local)
	}
	def := &definition{metadata: map[string]element{}}
	cut, resume := dec.InputOffset(), dec.InputOffset()
	for {
		start := dec.InputOffset()
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			if err := def.child(dec, t); err != nil {
				return nil, err
			}
			if t.Name.Local == "metadata" {
				cut, resume = start, dec.InputOffset()
			}
		case xml.EndElement:
			return def.complete(text[:cut], text[resume:])
		}
	}
}

// child reads one child of <domain>.
func (def *definition) child(dec *xml.Decoder, start xml.StartElement) error {
	switch start.Name.Local {
	case "name":
		return dec.DecodeElement(&def.name, &start)
	case "uuid":
		return dec.DecodeElement(&def.uuid, &start)
	case "metadata":
		return def.readMetadata(dec)
	case "devices":
		var found devices
		if err := dec.DecodeElement(&found, &start); err != nil {
			return err
		}
		for _, i := range found.Interfaces {
			if i.MAC.Address != "" {
				def.nics = append(def.nics, nic{strings.ToLower(i.MAC.Address), i.Source.Network})
			}
		}
		return nil
	}
	return dec.Skip()
}

// readMetadata keeps one element of each namespace and none without, as
// libvirt does.
func (def *definition) readMetadata(dec *xml.Decoder) error {
	for {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.StartElement:
			e, err := readElement(dec, t)
			if err != nil {
				return err
			}
			if _, second := def.metadata[t.Name.Space]; !second && t.Name.Space != "" {
				def.metadata[t.Name.Space] = e
			}
		case xml.EndElement:
			return nil
		}
	}
}

func (def *definition) complete(before, after string) (*definition, error) {
	def.name = strings.TrimSpace(def.name)
	if def.name == "" {
		return nil, errors.New("the domain has no name")
	}
	def.before, def.after = before, after
	if def.uuid == "" {
		def.uuid = uuid.NewSHA1(uuid.NameSpaceOID, []byte(def.name)).String()
		def.before += "<uuid>" + def.uuid + "</uuid>"
	}
	id, err := uuid.Parse(strings.TrimSpace(def.uuid))
	if err != nil {
		return nil, fmt.Errorf("uuid of the domain: %w", err)
	}
	def.uuid = id.String()
	return def, nil
}

// xml gives the whole XML back.
func (def *definition) xml() string {
	if len(def.metadata) == 0 {
		return def.before + def.after
	}
	var b strings.Builder
	b.WriteString(def.before + "<metadata>")
	for _, ns := range slices.Sorted(maps.Keys(def.metadata)) {
		b.WriteString(def.metadata[ns].render(""))
	}
	b.WriteString("</metadata>" + def.after)
	return b.String()
}

// withMetadata gives a copy with the namespace's element replaced, or removed
// when e is empty.
func (def *definition) withMetadata(namespace string, e element) *definition {
	out := *def
	out.metadata = maps.Clone(def.metadata)
	delete(out.metadata, namespace)
	if len(e) > 0 {
		out.metadata[namespace] = e
	}
	return &out
}

// renamed gives a copy with another name.
func (def *definition) renamed(name string) *definition {
	out := *def
	out.name = name
	for _, part := range []*string{&out.before, &out.after} {
		*part = strings.Replace(*part, nameElement(def.name), nameElement(name), 1)
	}
	return &out
}

func nameElement(name string) string {
	var b strings.Builder
	b.WriteString("<name>")
	escape(&b, name)
	b.WriteString("</name>")
	return b.String()
}

func firstElement(dec *xml.Decoder) (xml.StartElement, error) {
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return xml.StartElement{}, errors.New("no XML element")
		}
		if err != nil {
			return xml.StartElement{}, err
		}
		if start, ok := token.(xml.StartElement); ok {
			return start, nil
		}
	}
}
