package virttest

import (
	"context"
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// SetBandwidth limits an interface in the domain's configuration and in what
// runs; 0 lifts a limit.
func (f *Fake) SetBandwidth(ctx context.Context, uuid, mac string, inbound, outbound uint) error {
	w := what{"set bandwidth of domain", uuid}
	return f.onDomain(ctx, "SetBandwidth", w, func(d *domain) error {
		limited := map[**definition]*definition{}
		for _, def := range []**definition{&d.config, &d.live} {
			if *def == nil {
				continue
			}
			now, found := (*def).withBandwidth(mac, bandwidthElement(inbound, outbound))
			if !found {
				return w.fail(observe.Permanent, "%s is no known interface", mac)
			}
			limited[def] = now
		}
		for def, now := range limited {
			*def = now
		}
		f.changes = append(f.changes, "SetBandwidth "+d.uuid) // libvirt has no event for it
		return nil
	})
}

func bandwidthElement(inbound, outbound uint) string {
	if inbound+outbound == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("<bandwidth>")
	for _, limit := range []struct {
		name    string
		average uint
	}{{"inbound", inbound}, {"outbound", outbound}} {
		if limit.average > 0 {
			fmt.Fprintf(&b, `<%s average="%d"></%[1]s>`, limit.name, limit.average)
		}
	}
	b.WriteString("</bandwidth>")
	return b.String()
}

// withBandwidth gives a copy in which the interface with that MAC has that
// element; found is false without such an interface.
func (def *definition) withBandwidth(mac, element string) (out *definition, found bool) {
	copied := *def
	for _, part := range []*string{&copied.before, &copied.after} {
		if at, ok := findInterface(*part, mac); ok {
			*part = (*part)[:at.begin] + element + (*part)[at.end:]
			return &copied, true
		}
	}
	return nil, false
}

// span is a part of a text.
type span struct{ begin, end int64 }

// findInterface finds where the limits of the interface with that MAC stand, or
// would: right behind its start. text may begin or end in the middle of a
// document.
func findInterface(text, mac string) (at span, found bool) {
	dec := xml.NewDecoder(strings.NewReader(text))
	dec.Strict = false
	within, ours := false, false
	for {
		start := dec.InputOffset()
		token, err := dec.RawToken()
		if err != nil { // the end, since the document was parsed before
			return at, false
		}
		switch t := token.(type) {
		case xml.StartElement:
			switch {
			case t.Name.Local == "interface":
				within, ours, at = true, false, span{dec.InputOffset(), dec.InputOffset()}
			case within && t.Name.Local == "bandwidth":
				at.begin = start
			case within && t.Name.Local == "mac":
				ours = ours || strings.EqualFold(attr(t, "address"), mac)
			}
		case xml.EndElement:
			switch {
			case within && t.Name.Local == "bandwidth":
				at.end = dec.InputOffset()
			case t.Name.Local == "interface":
				if ours {
					return at, true
				}
				within = false
			}
		}
	}
}

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}
