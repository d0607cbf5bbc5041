package virttest

// managedSave: a start takes the saved state up, unless it was dropped.
func (s *suite) managedSave() {
	d := s.domain(1)
	s.define(d)
	s.expectDropped(d, false)
	s.must(s.hv.Start(s.ctx, d.uuid))
	s.expectDropped(d, false)

	s.hv.AdminSave(d.uuid)
	s.expect(d, off)
	s.must(s.hv.Start(s.ctx, d.uuid))
	s.expect(d, running)
	s.must(s.hv.Destroy(s.ctx, d.uuid))
	s.expectDropped(d, false) // the start took it up

	s.must(s.hv.Start(s.ctx, d.uuid))
	s.hv.AdminSave(d.uuid)
	s.define(d) // a redefine keeps it
	s.expectDropped(d, true)
	s.expectDropped(d, false)
	s.expect(d, off)
	s.must(s.hv.Start(s.ctx, d.uuid))
	s.expect(d, running)
}

// expectDropped drops a domain's saved state and says whether there is to be one.
func (s *suite) expectDropped(d spec, want bool) {
	s.Helper()
	dropped, err := s.hv.DropSaved(s.ctx, d.uuid)
	s.must(err)
	if dropped != want {
		s.Errorf("saved state dropped: %t, want %t", dropped, want)
	}
}

// undefineSaved: saved state goes with the definition.
func (s *suite) undefineSaved() {
	d := s.domain(1)
	s.define(d)
	s.must(s.hv.Start(s.ctx, d.uuid))
	s.hv.AdminSave(d.uuid)
	s.must(s.hv.Undefine(s.ctx, d.uuid))
	s.expectAbsent(d)
	s.define(d)
	s.expectDropped(d, false)
}
