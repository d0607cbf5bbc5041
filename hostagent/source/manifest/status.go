package manifest

import (
	"fmt"
	"time"
)

// Status is what there is to know about the manifest, for people and reports. It
// holds no user-data.
type Status struct {
	Location string
	// What stands. Revision 0: no document does (last good specs may).
	Revision  int64
	Digest    string // SHA-256 of the document, 64 hex digits
	Key       string // id of the key whose signature it has; empty: none
	IssuedAt  time.Time
	ExpiresAt time.Time // zero: never
	FetchedAt time.Time // when it was taken
	FromCache bool      // by an earlier run, and no server has confirmed it since
	Proxies   int       // specs that stand, from wherever

	ReadAt    time.Time // end of the last attempt; zero: none since the start
	CheckedAt time.Time // end of the last good one
	Reason    Reason    // why the last attempt counts for nothing; empty: it was good
	Problem   string    // the same for people
	Since     time.Time // of the trouble
	Failures  int       // attempts since then
	Lost      string    // why what an earlier run kept is not used; empty: it is, or there was none

	Stale bool // past ExpiresAt, by a clock that can be believed
	// Skew is the host's clock minus the server's, as last seen.
	Skew time.Duration
	// Skewed: by more than MaxSkew, so that times can not be judged.
	Skewed bool
}

// MaxSkew is how far the clocks of host and server may be apart unremarked.
const MaxSkew = time.Minute

// Status gives what is known now.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		Location: s.opt.Rules.Name, Proxies: len(s.entries),
		ReadAt: s.read, CheckedAt: s.checked, Failures: s.failed, Lost: s.lost,
		Skew: s.skew, Skewed: s.skew.Abs() > MaxSkew, Stale: s.expired(s.opt.Now()),
	}
	if s.fault != nil {
		st.Reason, st.Problem, st.Since = s.fault.Reason, s.fault.Text, s.since
	}
	if t := s.taken; t != nil {
		m := t.manifest
		st.Revision, st.Digest, st.Key, st.IssuedAt, st.ExpiresAt = m.Revision, m.Digest, t.key, m.IssuedAt, m.ExpiresAt
		st.FetchedAt, st.FromCache = t.fetched, t.cached
	}
	return st
}

// expired tells whether the document that stands is past its time. A clock that
// is known to be wrong is not asked.
func (s *Source) expired(now time.Time) bool {
	if s.taken == nil || s.taken.manifest.ExpiresAt.IsZero() || now.Before(s.opt.Built) || s.skew.Abs() > MaxSkew {
		return false
	}
	return now.After(s.taken.manifest.ExpiresAt)
}

// stands says what counts while the source is in doubt.
func (s *Source) stands() string {
	switch {
	case s.taken != nil:
		return fmt.Sprintf("until then revision %d stands", s.taken.manifest.Revision)
	case len(s.entries) > 0:
		return "until then the specs last known from it stand"
	}
	return "until then it lists nothing and removes nothing"
}

// note takes the end of an attempt, and says in the log what is new.
func (s *Source) note(err error, changed bool, skew *time.Duration, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = now
	if skew != nil {
		s.skew = *skew
	}
	if err == nil {
		s.noteGood(changed, now)
	} else {
		s.noteBad(faultOf(err), now)
	}
	s.noteClock(now)
}

func (s *Source) noteGood(changed bool, now time.Time) {
	if s.failed > 0 {
		s.opt.Log.Info("manifest is read again", "failures", s.failed, "after", now.Sub(s.since).Round(time.Second).String())
	}
	if changed {
		m := s.taken.manifest
		s.opt.Log.Info("manifest taken", "revision", m.Revision, "proxies", len(m.Specs), "digest", m.Digest)
	}
	s.seq++
	s.checked, s.fault, s.shown, s.failed, s.since = now, nil, nil, 0, time.Time{}
}

// noteBad keeps what is shown, and the log, from following each change of
// wording in a trouble that stays the same: a port, an address.
func (s *Source) noteBad(f *Fault, now time.Time) {
	if s.failed == 0 {
		s.since = now
	}
	s.failed++
	if !f.like(s.shown) || powerOfTen(s.failed) {
		s.shown = f
		s.opt.Log.Warn("manifest in doubt", "reason", string(f.Reason), "problem", f.Text, "failures", s.failed)
	}
	s.fault = f
}

// powerOfTen tells whether n is 10, 100, 1000, …
func powerOfTen(n int) bool {
	for n >= 10 && n%10 == 0 {
		n /= 10
		if n == 1 {
			return true
		}
	}
	return false
}

// noteClock says once that the document is stale, or the clock off, and once
// that this is over.
func (s *Source) noteClock(now time.Time) {
	if skewed := s.skew.Abs() > MaxSkew; skewed != s.skewed {
		s.skewed = skewed
		if skewed {
			s.opt.Log.Warn("the clocks of this host and the manifest's server are apart", "by", s.skew.Round(time.Second).String())
		} else {
			s.opt.Log.Info("the clocks of this host and the manifest's server agree")
		}
	}
	if stale := s.expired(now); stale != s.stale {
		s.stale = stale
		if stale {
			s.opt.Log.Warn("manifest is past its expires_at; it stands, but nobody has renewed it", "revision", s.taken.manifest.Revision, "expired", s.taken.manifest.ExpiresAt)
		} else {
			s.opt.Log.Info("manifest is not stale any more")
		}
	}
}
