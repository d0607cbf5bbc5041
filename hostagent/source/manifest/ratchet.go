package manifest

import "maps"

// Ratchet is the highest revision that was taken, by the id of the key whose
// signature it had; "" for those without a signature. A value is not changed
// once it was made.
type Ratchet map[string]Mark

// Mark is a revision and the digest of the document that had it.
type Mark struct {
	Revision int64  `json:"revision"`
	Digest   string `json:"digest"`
}

// Check tells whether a document may be taken. A lower revision than one that
// was taken is an old state played back, the same with another content two
// publishers, or one that forgot to count.
func (r Ratchet) Check(name, key string, m Mark) error {
	last, known := r[key]
	switch {
	case key == "" && !known && len(r) > 0:
		return faultf(Unsigned, "%s: has no signature, and a signed one was taken before; if that is meant: egress-hostagent manifest reset", name)
	case known && m.Revision < last.Revision:
		return faultf(Rollback, "%s: revision: %d is lower than %d, which was taken before; publish a higher one, or, if the publisher has lost count: egress-hostagent manifest reset",
			name, m.Revision, last.Revision)
	case known && m.Revision == last.Revision && m.Digest != last.Digest:
		return faultf(Equivocation, "%s: revision: %d was taken before with another content (%.12s…, now %.12s…); publish each change with a higher revision",
			name, m.Revision, last.Digest, m.Digest)
	}
	return nil
}

// With gives the ratchet after a document was taken.
func (r Ratchet) With(key string, m Mark) Ratchet {
	next := maps.Clone(r)
	if next == nil {
		next = Ratchet{}
	}
	next[key] = m
	return next
}
