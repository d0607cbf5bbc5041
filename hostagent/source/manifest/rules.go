package manifest

// Judge makes other rules count. The document that stands is judged by them at
// once. One that they refuse stands on as it was read, like a spec file that is
// broken by an edit, and the next attempt says why.
func (s *Source) Judge(r Rules) {
	s.mu.Lock()
	s.opt.Rules = r
	if t := s.taken; t != nil {
		again := *t
		s.taken = &again
		again.refused = true // so that what is decoded now is not what was decoded then
		if m, _, err := s.judge(t.body); err == nil {
			again.manifest, again.refused = m, false
			s.apply(&again)
		} else {
			again.etag = "" // a tag would bring no document to refuse
		}
	}
	s.mu.Unlock()
	s.judged.Store(true)
	signal(s.again)
}
