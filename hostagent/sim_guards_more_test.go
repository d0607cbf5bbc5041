package hostagent

import "slices"

// guards are what keeps the promises, with what the code is without each.
var guards = slices.Concat(guardsOfSight, guardsOfRemoval, guardsOfChange, guardsOfTheManifest, guardsOfOrders)

// guardsOfRemoval are what keeps the promises 5 and 6.
var guardsOfRemoval = []guard{
	{"5 the tombstone is on disk first", one("plan/tombstone.go", "t.Left || !t.Saved || busy", "t.Left || !OFF && !t.Saved || busy")},
	{"5 a VM is disowned once", one("plan/tombstone.go", "busy := p.Observed.Busy[t.Name]; t.Left ||", "busy := p.Observed.Busy[t.Name]; !OFF && t.Left ||")},
	{"5 who is buried is not ours", one("plan/tombstone.go", "return tomb || p.records[uuid]", "return !OFF && (tomb || p.records[uuid])")},
	{"5 skip_cleanup leaves the VM", one("plan/tombstone.go", "return s.mem.SkipCleanup || ", "return !OFF && s.mem.SkipCleanup || !OFF && ")},
	{"6 a mass of deletions is held", one("plan/hold.go", "if massive(len(going), len(all)) ||", "if !OFF && massive(len(going), len(all)) ||")},
	{"6 a source that turns empty is held", one("plan/hold.go", "|| len(emptied[p.origin(s)]) > 1 {", "|| !OFF && len(emptied[p.origin(s)]) > 1 {")},
	{"6 what was deleted counts for a while", one("plan/hold.go", "for _, r := range p.res.Memory.Removed {\n\t\tall[", "for _, r := range p.res.Memory.Removed {\n\t\tif OFF {\n\t\t\tbreak\n\t\t}\n\t\tall[")},
	{"6 a mass of changes is held", one("plan/hold.go", "if !massive(len(changed), all) {", "if OFF || !massive(len(changed), all) {")},
	{"6 a hold is kept over a restart", one("plan/kept.go", "		p.bound(now)\n", "		p.bound(now)\n		if OFF {\n			p.Held = Hold{}\n		}\n")},
	{"6 exactly what was shown is released", one("plan/order.go", "return h.Digest == digest })", "return OFF || h.Digest == digest })")},
	{"6 a deletion is on disk first", one("plan/removal.go", "p.Stored != nil && !p.Stored[s.name].Leaving {", "!OFF && p.Stored != nil && !p.Stored[s.name].Leaving {")},
	{"6 all sources are heard before a change by the config", one("plan/change.go", "&& !p.heardAll() {", "&& !OFF && !p.heardAll() {")},
}

// guardsOfChange are what keeps the promises 8, 9, 10 and 16, the budget of a
// roll-out and what a host can carry.
var guardsOfChange = []guard{
	{"8 a running domain is not defined on another overlay", one("apply/create.go", "if !off && o.Instance != a.Instance {", "if !OFF && !off && o.Instance != a.Instance {")},
	{"8 a saved state is dropped before a definition", one("apply/create.go", "if there.off {", "if !OFF && there.off {")},
	{"8 what was made is used", one("plan/subject.go", "if !p.oursIncarnation(*inc) || !inc.Overlay {", "if OFF || !p.oursIncarnation(*inc) || !inc.Overlay {")},
	{"8 what a domain has left is not used again", one("plan/subject.go", "if inc.Instance == s.instance() || s.mem.Recreate != \"\" && inc.Instance == s.mem.Recreate {", "if !OFF && (inc.Instance == s.instance() || s.mem.Recreate != \"\" && inc.Instance == s.mem.Recreate) {")},
	{"8 another user-data needs another guest", one("plan/subject.go", "have.Incarnation == want.Incarnation", "(OFF || have.Incarnation == want.Incarnation)")},
	{"8 other memory needs another definition", one("plan/subject.go", "have.Machine == want.Machine", "(OFF || have.Machine == want.Machine)")},
	{"10 hashes of other versions are not compared", one("plan/subject.go", "func sameIncarnation(have, want spec.Hash) bool {\n\treturn have", "func sameIncarnation(have, want spec.Hash) bool {\n\treturn !OFF && have")},
	{"16 no decision without the marker", one("plan/decide.go", "if p.Observed.Tree.Marker == observe.MarkerOK {", "if OFF || simOff(`4 a changed host id holds everything`) || p.Observed.Tree.Marker == observe.MarkerOK {")},
	{"16 a lost overlay is no reason while the domain runs", one("plan/change.go", "case s.off() && (cur == nil || !cur.Overlay):", "case (OFF || s.off()) && (cur == nil || !cur.Overlay):")},
	{"16 a known tree is not made anew", one("plan/make.go", "!t.Empty || p.Memory.TreeKnown ||", "!t.Empty || !OFF && p.Memory.TreeKnown ||")},
	{"17 two do not have one address", one("plan/conclude.go", "if taken && h.stale == a.Stale {", "if !OFF && taken && h.stale == a.Stale {")},
	{"17 the host's address is nobody's", one("observe/filter.go", "if slices.Contains(host, a) {", "if !OFF && slices.Contains(host, a) {")},
	{"the budget of a roll-out", one("plan/rollout.go", "if p.rollout.down >= p.Policy.MaxUnavailable {", "if !OFF && p.rollout.down >= p.Policy.MaxUnavailable {")},
	{"one that fails stops a roll-out", one("plan/rollout.go", "if len(p.rollout.failed) > 0 {", "if !OFF && len(p.rollout.failed) > 0 {")},
	{"that a proxy goes down is on disk first", one("plan/rollout.go", "if p.Stored == nil || p.Stored[s.name].Down == s.mem.Down {", "if OFF || p.Stored == nil || p.Stored[s.name].Down == s.mem.Down {")},
	{"a proxy is down until its source was read", one("plan/rollout.go", "return !configured || src.Synced && p.Desired.AllSeen()", "return OFF || !configured || src.Synced && p.Desired.AllSeen()")},
	{"on_change = hold", one("plan/change.go", "if !s.spec().Hold {", "if OFF || !s.spec().Hold {")},
	{"drain", one("plan/steps.go", "if !p.Now.Before(end) {", "if OFF || !p.Now.Before(end) {")},
	{"power = off", one("plan/running.go", "if !s.spec().Off {", "if OFF || !s.spec().Off {")},
	{"a crash loop is slowed down", one("plan/running.go", "if p.Now.Before(at) {\n\t\t\ts.verdict.phase", "if !OFF && p.Now.Before(at) {\n\t\t\ts.verdict.phase")},
	{"a crash loop is remembered", one("keep.go", "if k.proxies[name] != p.Kept ||", "if !OFF && k.proxies[name] != p.Kept ||")},
	{"starts are staggered", one("plan/running.go", "Add(p.Policy.StartInterval); p.Now.Before(at) {", "Add(p.Policy.StartInterval); !OFF && p.Now.Before(at) {")},
	{"a first start has to fit", one("plan/running.go", "s.mem.Begun == 0 && !p.fits(s, need) {", "!OFF && s.mem.Begun == 0 && !p.fits(s, need) {")},
	{"a new overlay has to fit", one("plan/rollout.go", "func (p *planner) roomForOverlay(s *subject) bool {\n\tif p.roomy() {", "func (p *planner) roomForOverlay(s *subject) bool {\n\tif OFF || p.roomy() {")},
	{"garbage has its grace", one("plan/garbage.go", "if p.Now.Before(end) {", "if !OFF && p.Now.Before(end) {")},
	{"garbage is nobody's", one("apply/collect.go", "if strings.Contains(text, key) {", "if !OFF && strings.Contains(text, key) {")},
	{"a clock that was wrong makes nothing wait", one("plan/kept.go", "if t.After(now) {", "if !OFF && t.After(now) {")},
	{"a clock that was wrong delays no try", one("plan/kept.go", "r.Next.After(latest) {", "!OFF && r.Next.After(latest) {")},
}

// guardsOfTheManifest are what keeps a server from being believed too much.
var guardsOfTheManifest = []guard{
	{"2 a lower revision is not taken", one("source/manifest/ratchet.go", "m.Revision < last.Revision:", "!OFF && m.Revision < last.Revision:")},
	{"2 a revision has one content", one("source/manifest/ratchet.go", "m.Revision == last.Revision && m.Digest", "!OFF && m.Revision == last.Revision && m.Digest")},
	{"2 an empty manifest is explained", one("source/manifest/decode.go", "if empty && !m.AllowEmpty {", "if !OFF && empty && !m.AllowEmpty {")},
	{"2 a manifest is this host's", one("source/manifest/decode.go", "ok && host != rules.Host {", "ok && !OFF && host != rules.Host {")},
	{"2 a manifest is on disk before it counts", one("source/manifest/take.go",
		"if err := s.keep(a, m, key, next, now); err != nil {", "if err := s.keep(a, m, key, next, now); err != nil && !OFF {")},
}

// guardsOfOrders are what obeys orders.
var guardsOfOrders = []guard{
	{"an order is on disk before it is answered", one("keep.go", "if a.save == 0 { // it is in no save yet", "if !OFF && a.save == 0 {")},
	{"what a failed save wrote is doubtful", one("keep.go", "k.doubtful[p] = true", "k.doubtful[p] = !OFF")},
	{"pause NAME", one("plan/pause.go", "if !s.mem.Paused && ", "if (OFF || !s.mem.Paused) && ")},
	{"pause --all", one("plan/pause.go", "&& !p.Memory.PausedAll {", "&& (OFF || !p.Memory.PausedAll) {")},
	{"what was planned before a pause is not begun", one("handsoff.go", "return h.all || h.paused[a.Name] || h.buried[a.UUID]", "return !OFF && (h.all || h.paused[a.Name] || h.buried[a.UUID])")},
	{"memory of an abandoned VM is forgotten", one("kept.go", "genuine && p.Generation <= t.Generation {", "!OFF && genuine && p.Generation <= t.Generation {")},
}
