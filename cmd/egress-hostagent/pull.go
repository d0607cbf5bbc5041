package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent"
	"github.com/egress-proxies/egress-hostagent/hostagent/config"
	"github.com/egress-proxies/egress-hostagent/hostagent/source"
	"github.com/egress-proxies/egress-hostagent/hostagent/source/manifest"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

// pulled is the manifest as the agent has it: the source, and the client that
// fetches for it.
type pulled struct {
	*manifest.Source
	origin  *upstream.Origin // nil: the config names none that can be asked
	unasked error            // why not
}

// pull makes the manifest source with what an earlier run kept of it; nil when
// none is configured. It sends nothing.
func pull(cfg config.Config, who identity, kept hostagent.Kept, keep hostagent.State, log *slog.Logger) *pulled {
	if cfg.Manifest.URL == "" {
		return nil
	}
	log = log.With("source", source.OriginManifest)
	var p pulled
	var get manifest.Getter
	origin, err := upstream.NewOrigin(cfg.Manifest.For(who.Name), upstream.OriginOptions{
		Files:        upstream.Files{CA: cfg.TLS.CA, Cert: cfg.TLS.Cert, Key: cfg.TLS.Key, Token: cfg.TLS.Token},
		InsecureHTTP: cfg.Manifest.InsecureHTTP,
		UserAgent:    upstream.DefaultUserAgent + "/" + version,
	})
	if get = origin; err != nil {
		get, p.unasked = unaskable{err}, err
	} else {
		p.origin = origin
	}
	p.Source = manifest.New(manifest.Options{
		Get: get, Store: keep, Rules: manifestRules(cfg, who),
		Interval: cfg.Manifest.Interval, Wait: cfg.Manifest.Wait, Built: built(), Log: log,
	})
	p.Restore(kept.Manifest, kept.Specs[source.OriginManifest])
	return &p
}

// unaskable is a server whose address is none.
type unaskable struct{ err error }

// Get implements manifest.Getter.
func (u unaskable) Get(context.Context, upstream.Request) (upstream.Answer, error) {
	return upstream.Answer{}, u.err
}

// manifestRules is what the configuration holds a manifest to.
func manifestRules(cfg config.Config, who identity) manifest.Rules {
	return manifest.Rules{
		Name: upstream.Redact(cfg.Manifest.For(who.Name)), Host: who.Name, Catalog: cfg.Catalog, Remote: cfg.Remote(),
	}
}

// warnOfCredentials says once which files are missing or wrong. They are waited
// for: the directory of specs works meanwhile.
func (p *pulled) warnOfCredentials(log *slog.Logger) {
	if p == nil || p.origin == nil {
		return
	}
	for _, f := range p.origin.Check() {
		switch {
		case f.Err != nil:
			log.Warn("a credential file of the manifest can not be used yet", "role", f.Role, "error", f.Err)
		case f.Warning != "":
			log.Warn("a credential file of the manifest", "role", f.Role, "path", f.Path, "warning", f.Warning)
		}
	}
}

// Status implements hostagent.Manifest.
func (p *pulled) Status() status.Manifest {
	s := p.Source.Status()
	m := status.Manifest{
		Revision: s.Revision, Digest: s.Digest, Key: s.Key, IssuedAt: s.IssuedAt, ExpiresAt: s.ExpiresAt,
		FetchedAt: s.FetchedAt, FromCache: s.FromCache, CheckedAt: s.CheckedAt,
		Reason: string(s.Reason), Problem: s.Problem, Since: s.Since, Failures: s.Failures,
		Stale: s.Stale, ClockAhead: s.Skew.Seconds(), ClockOff: s.Skewed,
	}
	if p.origin == nil {
		return m
	}
	for _, f := range p.origin.Seen() {
		c := status.Credential{Role: f.Role, Path: f.Path, Kept: f.Kept, Warning: f.Warning, NotAfter: f.NotAfter}
		if f.Err != nil {
			c.Problem = f.Err.Error()
		}
		m.Credentials = append(m.Credentials, c)
	}
	return m
}

// built is when this binary's source was committed; zero when it does not say.
func built() time.Time {
	at, err := time.Parse(time.RFC3339, builtAt)
	if err != nil {
		return time.Time{}
	}
	return at
}
