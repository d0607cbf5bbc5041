package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// picture is everything on a host that is the agent's, in words that do not
// depend on chance: OLD is the instance-id that was there before, NEW one that
// was not, images go by their key.
type picture struct {
	Proxies []string // as status has them
	Domains []string
	Tree    []string // files
	State   []string // files
}

// What there is of a proxy p that is well.
var (
	wellProxies = []string{"p Ready"}
	wellState   = []string{".lock", "host/host.json", "proxy/p.json", "spec/p.json", "staging/.egress-seed-staging"}
)

func wellDomains(instance string) []string {
	return []string{"egress-p (p) running, autostart, of " + instance + ", on its files, with its MAC"}
}

// wellTree is a tree with one base and one incarnation.
func wellTree(base, instance string) []string {
	return []string{
		".egress-tree", "base/" + base + ".qcow2", "console/p.log",
		"disk/p." + instance + ".json", "disk/p." + instance + ".qcow2", "seed/p." + instance + ".iso",
	}
}

// thriving is the picture of a host on which p is as it should be.
func thriving(base, instance string) picture {
	return picture{wellProxies, wellDomains(instance), wellTree(base, instance), wellState}
}

// picture takes one.
func (h *crashHost) picture(st status.Host) picture {
	h.t.Helper()
	p := picture{Proxies: displayed(st)}
	for _, d := range h.ours() {
		p.Domains = append(p.Domains, h.portrait(d))
	}
	p.Tree, p.State = h.files("tree"), h.files("state")
	if slices.Contains(p.Tree, "console/p.log") { // what the log daemon rotated goes with it
		p.Tree = slices.DeleteFunc(p.Tree, func(f string) bool { return f == "console/p.log.0" })
	}
	for _, list := range []*[]string{&p.Domains, &p.Tree} {
		for i := range *list {
			(*list)[i] = h.inWords((*list)[i])
		}
		slices.Sort(*list)
	}
	return p
}

// displayed are the proxies in a status, each with its phase, and why it is Blocked.
func displayed(st status.Host) []string {
	var all []string
	for _, p := range st.Proxies {
		text := p.Name + " " + string(p.Phase)
		if c, _ := p.Condition(status.Synced); p.Phase == status.PhaseBlocked {
			text += " " + c.Reason
		}
		all = append(all, text)
	}
	return all
}

var instanceID = regexp.MustCompile(`i-[0-9a-f]{16}`)

func (h *crashHost) inWords(text string) string {
	for key, sum := range h.images {
		text = strings.ReplaceAll(text, sum, key)
	}
	return instanceID.ReplaceAllStringFunc(text, func(id string) string {
		switch id {
		case h.old:
			return "OLD"
		case h.new:
			return "NEW"
		}
		if h.new == "" {
			return "NEW"
		}
		return id + ", which is not the one that was begun"
	})
}

// portrait describes a domain.
func (h *crashHost) portrait(d observe.RawDomain) string {
	h.t.Helper()
	text := d.Name
	generation := 0
	for ; generation < 2; generation++ {
		if d.UUID == domxml.DomainUUID(testIdentity.ID, domxml.Identity("p", generation)) {
			text += " (" + domxml.Identity("p", generation) + ")"
			break
		}
	}
	text += " " + string(d.Power)
	if d.Autostart {
		text += ", autostart"
	}
	o, err := domxml.DecodeOwnership(d.Metadata)
	if err != nil {
		return text + ", of nobody"
	}
	text += ", of " + o.Instance
	xml, err := h.conn.DomainXML(h.t.Context(), d.UUID, false)
	if err != nil { // it went meanwhile
		return text
	}
	if strings.Contains(xml, "/disk/p."+o.Instance+".qcow2'") && strings.Contains(xml, "/seed/p."+o.Instance+".iso'") {
		text += ", on its files"
	}
	if strings.Contains(xml, domxml.MAC(testIdentity.ID, domxml.Identity("p", generation), 0)) {
		text += ", with its MAC"
	}
	return text
}

// begun are the incarnations that have an overlay, but for the old one.
func (h *crashHost) begun() []string {
	var ids []string
	for _, f := range h.files("tree/disk") {
		if id := instanceID.FindString(f); strings.HasSuffix(f, ".qcow2") && id != h.old {
			ids = append(ids, id)
		}
	}
	return ids
}

// intact is an error when a domain of the agent's misses a file.
func (h *crashHost) intact() error {
	h.t.Helper()
	for _, d := range h.ours() {
		for _, inactive := range []bool{false, true} {
			xml, err := h.conn.DomainXML(h.t.Context(), d.UUID, inactive)
			h.must(err)
			for _, m := range diskSource.FindAllStringSubmatch(xml, -1) {
				if _, err := os.Stat(m[1]); err != nil {
					return fmt.Errorf("domain %s, %s, stands on nothing: %w", d.Name, d.Power, err)
				}
			}
		}
	}
	return nil
}

var diskSource = regexp.MustCompile(`<source file='([^']*)'`)

// remains is what must stay of a VM that is abandoned: its documents but for
// metadata, and the content of its files but for the record.
func (h *crashHost) remains() map[string]string {
	h.t.Helper()
	out := map[string]string{}
	for _, d := range h.ours() {
		for _, inactive := range []bool{false, true} {
			xml, err := h.conn.DomainXML(h.t.Context(), d.UUID, inactive)
			h.must(err)
			out[fmt.Sprintf("%s %t", d.UUID, inactive)] = passing.ReplaceAllString(xml, "")
		}
	}
	for _, f := range h.files("tree") {
		if strings.HasSuffix(f, ".json") || strings.HasSuffix(f, partSuffix) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(h.dir, "tree", f))
		h.must(err)
		sum := sha256.Sum256(b)
		out[f] = hex.EncodeToString(sum[:])
	}
	return out
}

const partSuffix = ".part"

// passing is what of a document may change: metadata, and the number of the run.
var passing = regexp.MustCompile(`(?s)\s*<metadata(/>|>.*</metadata>)| id='\d+'`)
