package apply

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// document is what matters of a domain's XML for the files it needs.
type document struct {
	ID    string `xml:"id,attr"` // only of a document that a running domain has
	Disks []disk `xml:"devices>disk"`

	text string // all that the document says, as it stands and unescaped
}

type disk struct {
	Driver struct {
		Type string `xml:"type,attr"`
	} `xml:"driver"`
	Source  *source   `xml:"source"`
	Backing *struct{} `xml:"backingStore"`
}

// source is where a disk's content is: a file, a block device, a volume of a
// storage pool, or something on a network.
type source struct {
	File     string `xml:"file,attr"`
	Dev      string `xml:"dev,attr"`
	Pool     string `xml:"pool,attr"`
	Volume   string `xml:"volume,attr"`
	Protocol string `xml:"protocol,attr"`
	Name     string `xml:"name,attr"`
}

// path is the disk's file or block device; empty for what is on a network or in
// a storage pool.
func (d disk) path() string {
	if d.Source == nil {
		return ""
	}
	return d.Source.File + d.Source.Dev
}

// layered tells whether the disk may stand on another file. One without a
// format is raw: libvirt does not guess.
func (d disk) layered() bool {
	return d.Source != nil && d.Driver.Type != "" && d.Driver.Type != "raw"
}

func parseDocument(text string) (document, error) {
	var doc document
	if err := xml.Unmarshal([]byte(text), &doc); err != nil {
		return doc, fmt.Errorf("its XML: %w", err)
	}
	said, err := unescaped(text)
	if err != nil {
		return doc, fmt.Errorf("its XML: %w", err)
	}
	doc.text = text + said
	return doc, nil
}

// unescaped gives a document's character data and attributes, each on lines of
// its own.
func unescaped(text string) (string, error) {
	var b strings.Builder
	dec := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return "", err
		}
		switch t := token.(type) {
		case xml.StartElement:
			for _, a := range t.Attr {
				b.WriteString("\n" + a.Value)
			}
		case xml.CharData:
			b.WriteString("\n" + string(t))
		}
	}
}

// uses tells whether a disk of the domain is that file.
func (doc document) uses(path string) bool {
	for _, d := range doc.Disks {
		if d.path() == path {
			return true
		}
	}
	return false
}
