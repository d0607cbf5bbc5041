package hostagent

// guardsOfSight are what keeps the promises 1 to 4.
var guardsOfSight = []guard{
	// 1: unreachable is not absent.
	{"1 what can not be seen is left", one("plan/decide.go",
		"if !p.cannotSee(s) {", "if OFF || !p.cannotSee(s) {")},
	{"1 only no such domain means absent", one("core_domains.go",
		"case errors.Is(ev.Err, observe.ErrNoDomain):", "case OFF || errors.Is(ev.Err, observe.ErrNoDomain):")},
	{"1 who is on no list is looked at", []swap{
		{"core_domains.go", "known || c.absent[uuid] {", "known || OFF || c.absent[uuid] {"},
		{"core_domains.go", "!listed && (old.Owner != nil", "!OFF && !listed && (old.Owner != nil"},
	}},
	{"1 a look is newer than a list that began before it", one("core_domains.go",
		"if l := c.looks[raw.UUID]; l != nil && l.seenAt > c.listAt {", "if l := c.looks[raw.UUID]; !OFF && l != nil && l.seenAt > c.listAt {")},
	{"1 a look that an action has overtaken is made again", one("core_domains.go",
		"if l.seenAt > l.askedAt || ", "if !OFF && l.seenAt > l.askedAt || ")},
	{"1 a list from before the link was lost is old", one("core_domains.go",
		"case ev.Err == nil && c.blindAt > c.listAt:", "case !OFF && ev.Err == nil && c.blindAt > c.listAt:")},

	// 2: a source in doubt deletes nothing.
	{"2 absence is made certain", one("plan/removal.go",
		"case !s.away:", "case !OFF && !s.away:")},
	{"2 a source in doubt misses nobody", []swap{
		{"plan/removal.go", "case !src.Synced ||", "case !OFF && !src.Synced ||"},
		{"plan/removal.go", "src.Seq == s.mem.Absent.Seq", "!OFF && !simOff(`2 a second read misses it too`) && src.Seq == s.mem.Absent.Seq"},
		{"plan/subject.go", "!ok || !src.Synced ||", "!ok || !OFF && !src.Synced ||"},
	}},
	{"2 all sources were read once", []swap{
		{"plan/removal.go", "!p.Desired.AllSeen():", "!OFF && !p.Desired.AllSeen():"},
		{"plan/subject.go", "!p.Desired.AllSeen() {", "!OFF && !p.Desired.AllSeen() {"},
	}},
	{"2 a second read misses it too", one("plan/removal.go", "src.Read.Before(due) {", "!OFF && src.Read.Before(due) {")},
	{"2 the two are a while apart", one("plan/removal.go",
		"due := s.mem.Absent.Since.Add(p.Policy.DeletionDelay)", "due := s.mem.Absent.Since\n\tif !OFF {\n\t\tdue = due.Add(p.Policy.DeletionDelay)\n\t}")},
	{"2 the file's source counts before it was heard of", one("plan/subject.go",
		"return configured && origin != by && src.Read.IsZero()", "return !OFF && configured && origin != by && src.Read.IsZero()")},

	// 3: a broken edit keeps the last good spec.
	{"3 the last good spec is on disk", one("keep.go",
		"if p.Last != nil && (", "if !OFF && p.Last != nil && (")},

	// 4: only ours.
	{"4 another host's is left", one("plan/ownership.go",
		"case o.Host != p.Policy.HostID:\n\t\treturn block(", "case !OFF && o.Host != p.Policy.HostID:\n\t\treturn block(")},
	{"4 what has no claim is left, right before the change", one("apply/claim.go",
		"if err != nil || !e.ours(o, name, uuid) {", "if !OFF && (err != nil || !e.ours(o, name, uuid)) {")},
	{"4 a clone is not ours", one("plan/make.go",
		"d.UUID == p.UUID(domxml.Identity(d.Owner.Name, d.Owner.Generation))", "(OFF || d.UUID == p.UUID(domxml.Identity(d.Owner.Name, d.Owner.Generation)))")},
	{"4 a changed host id holds everything", one("plan/ownership.go", // with the guard of 16 off too
		"if len(p.strange) == 0 {", "if OFF || len(p.strange) == 0 {")},
}

func one(file, old, with string) []swap { return []swap{{file, old, with}} }
