package hostagent

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/source/manifest"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

// publisher is who publishes the manifest, with the server that has it and all
// that can go wrong on the way. The source that reads it is the real one.
type publisher struct {
	rng    *rand.Rand // of its own: what it does must not change the weather
	desk   *desk
	source *manifest.Source

	revision int64
	body     []byte                    // of that revision
	issued   map[string]map[string]doc // what was published, by digest
	fault    string                    // of the last answer; empty: it was good
	stood    int64                     // the highest revision that ever stood
}

func newPublisher(seed uint64, k *desk) *publisher {
	return &publisher{rng: rand.New(rand.NewPCG(seed, 0x6d616e69)), desk: k, issued: map[string]map[string]doc{}}
}

// restart makes the source anew, on what the last one kept.
func (p *publisher) restart(kept Kept, keep State, now func() time.Time) {
	p.source = manifest.New(manifest.Options{
		Get: p, Store: keep, Now: now,
		Rules: manifest.Rules{Name: "https://fleet.example/h.json", Host: "h", Catalog: spec.Catalog{
			Images: map[string]spec.Image{simImages[0].Key: simImages[0]}, Defaults: spec.Defaults{Image: simImages[0].Key},
		}, Remote: spec.Remote{Networks: []spec.Network{{Network: spec.DefaultNetwork}}, MaxProxies: 64}},
	})
	p.source.Restore(kept.Manifest, kept.Specs[source.OriginManifest])
}

// read makes one attempt, and gives what the source says after it. That is a
// document as it was published, or what an earlier run left.
func (p *publisher) read(s *storm) source.Snapshot {
	snap := p.source.Once(context.Background())
	st := p.source.Status()
	if p.stood = max(p.stood, st.Revision); st.Revision < p.stood {
		s.blame("promise 2: revision %d stands, and %d stood before", st.Revision, p.stood)
	}
	digest := st.Digest
	docs, known := p.issued[digest]
	switch {
	case digest == "":
		return snap // last good specs
	case !known:
		s.blame("promise 2: the manifest source took what nobody published: %s", digest)
	case !slices.Equal(slices.Sorted(maps.Keys(docs)), slices.Sorted(maps.Keys(snap.Entries))):
		s.blame("promise 2: the manifest lists %v, the source says %v", slices.Sorted(maps.Keys(docs)), slices.Sorted(maps.Keys(snap.Entries)))
	case snap.Synced && p.fault != "":
		s.blame("promise 2: the source takes %s for an answer", p.fault)
	}
	for name, d := range docs {
		e := snap.Entries[name]
		sp := s.decode(name, d)
		e.Spec, e.Hash = &sp, sp.Hash()
		snap.Entries[name] = e
	}
	return snap
}

// document is what the publisher has to say as that revision.
func (p *publisher) document(host string, revision int64, docs map[string]doc, allowEmpty bool) []byte {
	proxies := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		d := docs[name]
		proxy := map[string]any{"name": name, "cpus": 1, "memory": "256MiB", "user_data": fmt.Sprintf("#cloud-config\n# %s %+v\n", canary, d)}
		if d.broken {
			proxy["brokne"] = true
		}
		proxies = append(proxies, proxy)
	}
	body, err := json.Marshal(map[string]any{
		"version": 1, "host": host, "revision": revision, "issued_at": "2026-01-01T00:00:00Z", "allow_empty": allowEmpty, "proxies": proxies,
	})
	if err != nil {
		panic(err)
	}
	return body
}

// publish brings what is served up to date: another content is another revision.
func (p *publisher) publish() {
	if p.body != nil && string(p.body) == string(p.document("h", p.revision, p.desk.docs, true)) {
		return
	}
	p.revision++
	p.body = p.document("h", p.revision, p.desk.docs, true)
	p.issued[fmt.Sprintf("%x", sha256.Sum256(p.body))] = maps.Clone(p.desk.docs)
}

// Get implements manifest.Getter.
func (p *publisher) Get(_ context.Context, r upstream.Request) (upstream.Answer, error) {
	p.fault = ""
	if p.desk.inDoubt {
		return p.fail(r)
	}
	p.publish()
	if slices.ContainsFunc(slices.Collect(maps.Values(p.desk.docs)), func(d doc) bool { return d.broken }) {
		p.fault = "a document with a broken proxy"
	}
	tag := strconv.FormatInt(p.revision, 10)
	if r.ETag == tag {
		return upstream.Answer{Status: http.StatusNotModified, ETag: tag}, nil
	}
	return served(p.body, tag), nil
}

func served(body []byte, tag string) upstream.Answer {
	return upstream.Answer{Status: http.StatusOK, Body: body, ETag: tag, ContentType: "application/json"}
}

// fail answers in one of the ways that must count for nothing.
func (p *publisher) fail(r upstream.Request) (upstream.Answer, error) {
	taken := p.source.Status().Revision
	fewer := map[string]doc{}
	for name, d := range p.desk.docs {
		if d.broken = false; p.rng.IntN(2) == 0 {
			fewer[name] = d
		}
	}
	bad := func(what string, a upstream.Answer, err error) (upstream.Answer, error) {
		p.fault = what
		return a, err
	}
	switch n := p.rng.IntN(10); {
	case n == 0:
		return bad("a 404", upstream.Answer{}, &upstream.StatusError{Code: http.StatusNotFound})
	case n == 1:
		return bad("a 503", upstream.Answer{}, &upstream.StatusError{Code: http.StatusServiceUnavailable})
	case n == 2:
		return bad("a portal's page", upstream.Answer{Status: http.StatusOK, Body: []byte("<html>log in</html>"), ETag: "p", ContentType: "text/html"}, nil)
	case n == 3:
		body := p.document("h", p.revision+1, p.desk.docs, true)
		return bad("half a document", served(body[:p.rng.IntN(len(body))], "h"), nil)
	case n == 4:
		return bad("another host's", served(p.document("g", p.revision+1, fewer, true), "g"), nil)
	case n == 5 && taken > 1:
		return bad("an old revision", served(p.document("h", 1+p.rng.Int64N(taken-1), fewer, true), "o"), nil)
	case n == 6 && taken > 0 && taken == p.revision && string(p.document("h", taken, fewer, true)) != string(p.body):
		return bad("another content of the same revision", served(p.document("h", taken, fewer, true), "e"), nil)
	case n == 7:
		return bad("nothing, unexplained", served(p.document("h", p.revision+1, nil, false), "n"), nil)
	case n == 8 && r.ETag == "":
		return bad("a 304 about nothing", upstream.Answer{Status: http.StatusNotModified}, nil)
	}
	return bad("no answer", upstream.Answer{}, errors.New("simulated: connection reset"))
}
