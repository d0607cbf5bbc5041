package manifest

// Judge makes other rules count. The document that stands is judged by them at
// once. One that they refuse stands on as it was read, like a spec file that is
// broken by an edit, and the next attempt says why.
func (s *Source) Judge(r Rules) {
	s.deciding.Lock()
	defer s.deciding.Unlock()
	s.mu.Lock()
	s.opt.Rules = r
	var again taken
	stood := s.taken != nil
	if stood {
		again = *s.taken
		again.refused = true // so that what is decoded now is not what was decoded then
		s.taken = &again
	}
	s.mu.Unlock()
	if stood {
		m, _, err := s.judge(again.body)
		s.mu.Lock()
		if err == nil {
			again.manifest, again.refused = m, false
			s.apply(&again)
		} else {
			again.etag = "" // a tag would bring no document to refuse
		}
		s.mu.Unlock()
	}
	s.judged.Store(true)
	signal(s.again)
}
