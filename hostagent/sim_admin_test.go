package hostagent

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/domxml"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

// someDomain gives a domain that a proxy of that name has, or had and abandoned.
func (s *storm) someDomain(name string) (uuid string, d observe.RawDomain, ok bool) {
	var all []string
	for _, id := range s.ids {
		if _, there := s.hv.Domain(id.uuid); there && id.name == name {
			all = append(all, id.uuid)
		}
	}
	if len(all) == 0 {
		return "", d, false
	}
	uuid = all[s.rng.IntN(len(all))]
	d, ok = s.hv.Domain(uuid)
	return uuid, d, ok
}

// admin makes a gust of what is done to a domain.
func (s *storm) admin(what string, do func(uuid string, d observe.RawDomain)) func(string) {
	return func(name string) {
		if uuid, d, ok := s.someDomain(name); ok {
			s.say("admin %s %s (%s)", what, name, d.Name)
			do(uuid, d)
		}
	}
}

// adminGusts are what admins do to domains behind the agent's back.
func (s *storm) adminGusts() []gust {
	on := func(do func(string)) func(string, observe.RawDomain) {
		return func(uuid string, _ observe.RawDomain) { do(uuid) }
	}
	return []gust{
		{14, s.admin("destroys", on(s.hv.AdminDestroy))},
		{10, s.admin("undefines", on(s.hv.AdminUndefine))},
		{6, s.admin("pauses", on(s.hv.AdminPause))},
		{8, s.admin("resumes", on(s.hv.AdminResume))},
		{8, s.admin("starts", on(s.hv.AdminStart))},
		{10, s.admin("saves", on(s.hv.AdminSave))},
		{6, s.admin("renames", s.rename)},
		{4, s.admin("sets autostart of", func(uuid string, _ observe.RawDomain) { s.hv.AdminSetAutostart(uuid, s.one(2)) })},
		{6, s.admin("clones", s.clone)},
		{6, s.admin("drops the metadata of", func(uuid string, _ observe.RawDomain) { s.hv.AdminSetMetadata(uuid, domxml.Namespace, "") })},
		{3, s.admin("puts another host into the metadata of", s.otherHost)},
		{3, s.admin("has another version of the agent make", s.otherVersion)},
		{4, s.takeName},
		{4, s.freeName},
	}
}

func (s *storm) rename(uuid string, d observe.RawDomain) {
	if d.Power == observe.PowerOff {
		s.hv.AdminRename(uuid, fmt.Sprintf("mine-%d", s.foreign))
		s.foreign++
	}
}

// meddle has an admin be quicker than the agent, which has planned what to do
// with a domain and not begun.
func (s *storm) meddle(uuid string) {
	d, there := s.hv.Domain(uuid)
	if !there {
		return
	}
	what := []func(){
		func() { s.hv.AdminSetMetadata(uuid, domxml.Namespace, "") },
		func() { s.otherHost(uuid, d) },
		func() { s.hv.AdminDestroy(uuid) },
		func() { s.hv.AdminStart(uuid) },
		func() { s.hv.AdminPause(uuid) },
		func() { s.hv.AdminUndefine(uuid) },
		func() { s.hv.AdminSave(uuid) },
	}
	n := s.rng.IntN(len(what))
	s.say("  admin was quicker: %d", n)
	what[n]()
}

var hostAttr = regexp.MustCompile(`host="[^"]*"`)

func (s *storm) otherHost(uuid string, d observe.RawDomain) {
	if d.Metadata != "" {
		s.hv.AdminSetMetadata(uuid, domxml.Namespace, hostAttr.ReplaceAllString(d.Metadata, `host="host-3"`))
	}
}

// otherVersion makes a guest that of an agent which hashes specs otherwise.
func (s *storm) otherVersion(uuid string, d observe.RawDomain) {
	o, err := domxml.DecodeOwnership(d.Metadata)
	if err != nil {
		return
	}
	s.hv.AdminSetMetadata(uuid, domxml.Namespace, strings.Replace(d.Metadata, `spec="1:`, `spec="7:`, 1))
	for i, inc := range s.tree.incs[o.Name] {
		if inc.Record != nil && inc.Instance == o.Instance {
			rec := *inc.Record
			rec.SpecHash = strings.Replace(rec.SpecHash, "1:", "7:", 1)
			s.tree.incs[o.Name][i].Record = &rec
		}
	}
}

var (
	nameTag = regexp.MustCompile(`<name>[^<]*</name>`)
	diskAt  = regexp.MustCompile(`/tree/disk/[^'"]*\.qcow2`)
	baseAt  = regexp.MustCompile(`/tree/base/[0-9a-f]+\.qcow2`)
	macAt   = regexp.MustCompile(`56:[0-9a-f:]+`)
)

// clone copies a running domain with all that is in its XML, ownership too, onto
// a disk of its own, which stands on the same base image.
func (s *storm) clone(uuid string, _ observe.RawDomain) {
	xml, running := s.hv.AdminXML(uuid)
	if !running || len(s.clones) > 3 {
		return
	}
	s.foreign++
	id := fmt.Sprintf("c0000000-0000-4000-8000-%012d", s.foreign)
	disk := fmt.Sprintf("/other/clone-%d.qcow2", s.foreign)
	xml = strings.Replace(xml, uuid, id, 1)
	xml = nameTag.ReplaceAllString(xml, fmt.Sprintf("<name>clone-%d</name>", s.foreign))
	xml = diskAt.ReplaceAllString(xml, disk)
	xml = macAt.ReplaceAllString(xml, fmt.Sprintf("52:54:00:cc:00:%02x", s.foreign))
	s.tree.chains[disk] = baseAt.FindAllString(xml, -1)
	s.clones[s.hv.AdminDefine(xml)] = xml
	if s.one(2) {
		s.hv.AdminStart(id)
	}
}

const nameTakerXML = `<domain type='test'><name>%s</name><uuid>d0000000-0000-4000-8000-%012d</uuid><memory unit='KiB'>65536</memory><os><type>hvm</type></os></domain>`

// takeName defines a domain of somebody else under a name that a proxy's has,
// if that is free.
func (s *storm) takeName(name string) {
	if s.uuidNamed(domxml.DomainName(name)) == "" {
		s.say("another domain takes the name of %s", name)
		s.foreign++
		s.hv.AdminDefine(fmt.Sprintf(nameTakerXML, domxml.DomainName(name), s.foreign))
	}
}

// freeName takes a domain that is not the agent's out of a proxy's way.
func (s *storm) freeName(name string) {
	uuid := s.uuidNamed(domxml.DomainName(name))
	switch {
	case strings.HasPrefix(uuid, "d0000000"):
		s.say("the domain that took the name of %s goes", name)
		s.hv.AdminUndefine(uuid)
	case s.buried(uuid):
		s.say("admin renames the abandoned VM of %s", name)
		s.foreign++
		s.hv.AdminRename(uuid, fmt.Sprintf("left-%d", s.foreign))
	}
}

// uuidNamed finds the domain of that name.
func (s *storm) uuidNamed(name string) string {
	for uuid, p := range s.picture().domains {
		if strings.HasPrefix(p, name+" ") {
			return uuid
		}
	}
	return ""
}

// guestGusts are what guests do.
func (s *storm) guestGusts() []gust {
	running := func(what string, do func(uuid, name string)) func(string) {
		return func(name string) {
			if uuid, d, ok := s.someDomain(name); ok && d.Power != observe.PowerOff {
				s.say("guest %s %s", name, what)
				do(uuid, name)
			}
		}
	}
	return []gust{
		{10, running("powers off", func(uuid, _ string) { s.hv.GuestPowerOff(uuid) })},
		{6, running("reboots", func(uuid, _ string) {
			s.hints = append(s.hints, Hint{observe.Event{Kind: observe.DomainChanged, UUID: uuid, Detail: "rebooted"}})
		})},
		{8, running("crashes after each start, or does not any more", func(uuid, _ string) { s.fragile[uuid] = !s.fragile[uuid] })},
		{8, running("ignores shutdown", func(uuid, _ string) { s.hv.IgnoreShutdown(uuid, true) })},
		{6, running("heeds shutdown", func(uuid, _ string) { s.hv.IgnoreShutdown(uuid, false) })},
		{6, running("has an agent, or not", func(uuid, _ string) { s.hv.SetAgent(uuid, s.one(2)) })},
		{6, running("lies about its address", s.lie)},
		{5, running("fills its disk", func(uuid, _ string) { s.tree.free = 0; s.hv.FillDisk(uuid) })},
		{6, func(string) { s.say("there is room again"); s.tree.free = roomy; s.hv.FreeDisk() }},
	}
}

// lie has a guest claim the address of another, or of the host.
func (s *storm) lie(uuid, name string) {
	p := s.agent.core.Status(s.now).Proxies
	claim := observe.Claim{MAC: domxml.MAC(testHost, name, 0), Addr: virttest.DefaultPrefix().Addr().Next()}
	if len(p) > 0 {
		if other := p[s.rng.IntN(len(p))]; len(other.Addresses) > 0 && !s.one(4) {
			claim.Addr = other.Addresses[0].Address
		}
	}
	s.hv.SetAgent(uuid, true)
	s.hv.SetClaims(uuid, observe.FromAgent, claim)
}
