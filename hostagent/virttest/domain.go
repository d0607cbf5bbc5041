package virttest

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// domain is one domain of the Fake.
type domain struct {
	uuid      string
	config    *definition // what it starts with; nil: transient
	live      *definition // what it runs on; nil: off
	saved     *saved      // what a managed save left; only of one that is off
	paused    bool
	stalled   bool // by libvirt, for want of room
	autostart bool

	deaf   bool // ignores a request to shut down
	agent  bool // the guest agent's channel is connected
	claims map[observe.AddressSource][]observe.Claim
}

// current is the definition that names the domain.
func (d *domain) current() *definition {
	if d.config != nil {
		return d.config
	}
	return d.live
}

func (d *domain) name() string { return d.current().name }

func (d *domain) power() observe.Power {
	switch {
	case d.live == nil:
		return observe.PowerOff
	case d.paused:
		return observe.PowerPaused
	default:
		return observe.PowerRunning
	}
}

func (d *domain) raw(namespace string) observe.RawDomain {
	return observe.RawDomain{
		UUID:       d.uuid,
		Name:       d.name(),
		Power:      d.power(),
		Stalled:    d.stalled,
		Persistent: d.config != nil,
		Autostart:  d.autostart,
		Metadata:   d.current().metadata[namespace].render(namespace),
	}
}

// print writes the domain as a few lines, with a digest of its XML so that any
// change shows.
func (d *domain) print(b *strings.Builder, namespace string) {
	fmt.Fprintf(b, "%s %s %s", d.name(), d.uuid, d.power())
	if d.config != nil {
		fmt.Fprintf(b, " config=%s", d.config.digest())
	}
	if d.live != nil {
		fmt.Fprintf(b, " live=%s", d.live.digest())
	}
	if d.saved != nil {
		fmt.Fprintf(b, " saved=%s", d.saved.def.digest())
	}
	if d.autostart {
		b.WriteString(" autostart")
	}
	b.WriteString("\n")
	def := d.current()
	for _, ns := range slices.Sorted(maps.Keys(def.metadata)) {
		if ns == namespace {
			fmt.Fprintf(b, "  metadata %s\n", def.metadata[ns].render(ns))
		} else {
			fmt.Fprintf(b, "  foreign metadata %s\n", def.metadata[ns].render(""))
		}
	}
	for _, n := range def.nics {
		fmt.Fprintf(b, "  nic %s %s\n", n.mac, cmp.Or(n.source, "-"))
	}
}

// digest is short: for people to see that two XMLs differ.
func (def *definition) digest() string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(def.xml())))[:8]
}
