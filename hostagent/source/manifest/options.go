package manifest

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/state"
	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

// Getter fetches the document, once a call. *upstream.Origin is one.
type Getter interface {
	Get(context.Context, upstream.Request) (upstream.Answer, error)
}

// Store keeps entries: each change whole or not at all, in order, up to the
// first that fails.
type Store interface {
	Save(changes ...state.Change) error
}

// DefaultInterval is that of Options.
const DefaultInterval = time.Minute

// Options of a Source. Get, Store and Rules have to be set; what else
// is zero means its default, or none.
type Options struct {
	Get   Getter
	Store Store
	Rules Rules
	// Open takes a document out of the envelope it is signed in, and gives the id
	// of the key whose signature is right; nil: documents come bare. The state
	// directory keeps what was fetched, and Open judges that again.
	Open     func(body []byte) (document []byte, key string, err error)
	Interval time.Duration // between two requests, give or take a fifth
	// Wait is for how long a server that can is asked to hold its answer back
	// until there is something new; 0: it is not asked.
	Wait time.Duration
	// Built is when the agent was built: a clock that is earlier is wrong. Zero:
	// not known.
	Built time.Time
	Now   func() time.Time // nil: time.Now
	// Random gives a random duration in [0, n); nil: math/rand/v2.
	Random func(n time.Duration) time.Duration
	Log    *slog.Logger // nil: nothing is logged
}

func (o Options) withDefaults() Options {
	if o.Open == nil {
		o.Open = func(body []byte) ([]byte, string, error) { return body, "", nil }
	}
	if o.Interval <= 0 {
		o.Interval = DefaultInterval
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = func(n time.Duration) time.Duration {
			if n <= 0 {
				return 0
			}
			return rand.N(n)
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
