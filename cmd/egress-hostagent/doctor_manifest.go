package main

import (
	"fmt"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

// expiresSoon is how long before its end a client certificate is spoken of.
const expiresSoon = 14 * 24 * time.Hour

// checkManifest looks at the files that are shown to the manifest's server, as
// this user sees them. The server is not asked: the agent's status says how that
// goes.
func checkManifest(w wired) []finding {
	if w.pull == nil {
		return nil
	}
	what := "manifest"
	if w.pull.origin == nil {
		return []finding{{what, fail, w.pull.unasked.Error(), "correct url in [manifest]"}}
	}
	out := []finding{{what, ok, w.pull.Snapshot().Location, ""}}
	for _, f := range w.pull.origin.Check() {
		out = append(out, checkCredential(f, time.Now()))
	}
	return out
}

func checkCredential(f upstream.FileState, now time.Time) finding {
	what := "manifest " + f.Role
	switch {
	case f.Err != nil:
		return finding{what, fail, f.Err.Error(), "put it there, readable for the agent's user; it counts within seconds"}
	case !f.NotAfter.IsZero() && f.NotAfter.Sub(now) < expiresSoon:
		return finding{what, warn, fmt.Sprintf("%s is valid until %s", f.Path, f.NotAfter.UTC().Format(time.RFC3339)), "renew it; the agent takes the new one up by itself"}
	case f.Warning != "":
		return finding{what, warn, fmt.Sprintf("%s: %s", f.Path, f.Warning), "chown root:egress-hostagent and chmod 0640"}
	}
	return finding{what, ok, f.Path, ""}
}
