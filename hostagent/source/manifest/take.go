package manifest

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

// take judges an answer to a request with the entity tag sent. changed tells
// that another document stands now. With an error nothing has changed.
func (s *Source) take(a upstream.Answer, sent string, now time.Time) (changed bool, err error) {
	s.deciding.Lock()
	defer s.deciding.Unlock()
	name := s.opt.Rules.Name
	if a.Status == http.StatusNotModified {
		if s.taken == nil || sent == "" || sent != s.taken.etag {
			return false, faultf(NotModified, "%s: the server says that nothing has changed (304) though no document was named: see what stands between", name)
		}
		s.confirm(s.taken.etag)
		return false, nil
	}
	if err := checkType(name, a.ContentType, a.Body); err != nil {
		return false, err
	}
	m, key, err := s.judge(a.Body)
	if err != nil {
		return false, err
	}
	mark := Mark{m.Revision, m.Digest}
	if err := s.marks.Keys.Check(name, key, mark); err != nil {
		return false, err
	}
	next := marks{s.marks.Number, s.marks.Keys.With(key, mark)}
	if t := s.taken; t != nil && t.key == key && t.manifest.Digest == m.Digest {
		return false, s.same(a, next)
	}
	next.Number++
	if err := s.keep(a, m, key, next, now); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apply(&taken{manifest: m, body: a.Body, key: key, etag: a.ETag, fetched: now})
	s.marks, s.lost = next, ""
	return true, nil
}

// confirm notes that a server has what stands, under that tag.
func (s *Source) confirm(etag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken.etag, s.taken.cached = etag, false
}

// same takes a body with the content that stands. Its tag may be another: a
// server that stands between may write it anew each time.
func (s *Source) same(a upstream.Answer, next marks) error {
	if _, known := s.marks.Keys[s.taken.key]; !known { // it was forgotten by order
		if err := s.count(next); err != nil {
			return notKept(err)
		}
	}
	s.confirm(a.ETag)
	return nil
}

// count writes down which revisions were taken. Who calls it holds deciding.
func (s *Source) count(next marks) error {
	c, err := put(ratchetKey, next)
	if err == nil {
		err = s.opt.Store.Save(c)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks = next
	return nil
}

// keep writes a document down. Before that it does not count: after a crash
// another one, of a lower revision, could take its place.
func (s *Source) keep(a upstream.Answer, m Manifest, key string, next marks, now time.Time) error {
	all, err := changes(document{
		Number: next.Number, Revision: m.Revision, Key: key, Digest: m.Digest, ETag: a.ETag,
		Location: s.opt.Rules.Name, Fetched: now.UTC(), Sum: digestOf(a.Body), Body: a.Body,
	}, next)
	if err == nil {
		err = s.opt.Store.Save(all...)
	}
	if err != nil {
		return notKept(err)
	}
	return nil
}

func notKept(err error) *Fault {
	return faultf(NotKept, "the manifest is good, and counts once it could be kept: %v", err)
}

// Reset forgets which revisions were taken: the next document counts whatever
// its revision is. What stands stays until then.
func (s *Source) Reset() error {
	s.deciding.Lock()
	defer s.deciding.Unlock()
	if err := s.count(marks{Number: s.marks.Number, Keys: Ratchet{}}); err != nil {
		return fmt.Errorf("forget the revisions of the manifest: %w", err)
	}
	signal(s.again)
	return nil
}

// faultOf makes a fault of any error of an attempt.
func faultOf(err error) *Fault {
	var f *Fault
	var status *upstream.StatusError
	var credential *upstream.CredentialError
	switch {
	case errors.As(err, &f):
	case errors.As(err, &status):
		f = faultf(HTTPStatus, "%v", err)
		f.Status = status.Code
	case errors.As(err, &credential):
		f = faultf(Credentials, "%v", err)
	case errors.Is(err, upstream.ErrTooLarge):
		f = faultf(TooLarge, "%v", err)
	default:
		f = faultf(Unreachable, "%v", err)
	}
	return f
}
