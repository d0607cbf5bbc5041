package hostagent

import (
	"errors"
	"fmt"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// resetManifest obeys an operator whose publisher has lost count.
func (a *Agent) resetManifest() (string, error) {
	if a.p.Manifest == nil {
		return "", errors.New("no manifest is configured: there is no url in [manifest]")
	}
	if err := a.p.Manifest.Reset(); err != nil {
		return "", err
	}
	return "the next manifest counts whatever its revision is; until then what was taken stands", nil
}

// manifestFresh is the host's condition that says whether the manifest that
// stands is renewed. One that is not stays in force: nobody said otherwise.
func manifestFresh(m status.Manifest, now time.Time) status.Condition {
	c := status.Condition{Type: status.ManifestFresh, Status: status.True, Reason: "Fresh", Since: m.FetchedAt}
	switch {
	case m.Revision == 0:
		c.Status, c.Reason, c.Since = status.Unknown, "NotYet", now
	case m.Stale:
		c.Status, c.Reason, c.Since = status.False, "ManifestStale", m.ExpiresAt
		c.Message = fmt.Sprintf("revision %d of the manifest has expired and nobody has published a newer one; it stands: see to its publisher", m.Revision)
	}
	return c
}
