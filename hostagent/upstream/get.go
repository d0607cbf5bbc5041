package upstream

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// maxETag is the longest entity tag that is sent back, in bytes: a longer one
// would make a server refuse every request.
const maxETag = 1 << 10

// Request is what Get asks for.
type Request struct {
	// ETag is what an earlier Answer held, sent back byte for byte; empty: the
	// request is unconditional. One that no header can hold counts as empty.
	ETag string
	// Wait asks the server to hold its answer back until there is something new
	// (RFC 7240, section 4.3), in whole seconds; zero: it should answer at once.
	Wait time.Duration
	// Limit is the largest body, in decoded bytes.
	Limit int64
}

// Answer is a complete answer to Get.
type Answer struct {
	Status      int    // 200, or 304 without Body if an ETag was sent
	Body        []byte // decoded
	ETag        string // as it came; empty: none, or one of no use
	ContentType string // as it came
	Waited      bool   // the server says that it heeds Wait
	// Date is the server's clock, zero if it was not sent; Skew is ours minus
	// theirs.
	Date time.Time
	Skew time.Duration
}

// Get fetches the origin's URL, once. Its time is bounded: Wait and Stall for
// each header, Stall for each bit of progress, ten minutes for the body.
//
// An error is an *Error that holds no secret. ClassOf and RetryAfter tell how
// it heals; what to look for with errors.As is *StatusError,
// *CredentialError (nothing was sent), *RedirectError and *ProxyError, with
// errors.Is ErrTooLarge, ErrEncoded and ErrStalled.
func (o *Origin) Get(ctx context.Context, r Request) (Answer, error) {
	header := http.Header{"Accept-Encoding": {"gzip"}}
	conditional := r.ETag != "" && fitsHeader(r.ETag)
	if conditional {
		header.Set("If-None-Match", r.ETag)
	}
	wait := max(r.Wait.Truncate(time.Second), 0)
	if wait > 0 {
		header.Set("Prefer", fmt.Sprintf("wait=%d", wait/time.Second))
	}
	var a Answer
	err := o.call(ctx, exchange{
		op:     "get",
		method: http.MethodGet,
		header: header,
		limit:  wait + o.opt.Stall,
		receive: func(resp *http.Response, hide func(string) string) (err error) {
			if resp.StatusCode != http.StatusOK && (resp.StatusCode != http.StatusNotModified || !conditional) {
				return readStatusError(resp, o.opt.Now(), hide)
			}
			a, err = readAnswer(resp, r.Limit, o.opt.Now())
			return err
		},
	})
	if err != nil {
		return Answer{}, err
	}
	return a, nil
}

// readAnswer makes an answer of a response with a good status.
func readAnswer(resp *http.Response, limit int64, now time.Time) (Answer, error) {
	a := Answer{
		Status:      resp.StatusCode,
		ContentType: resp.Header.Get("Content-Type"),
		Waited:      applied(resp.Header, "wait"),
	}
	if tag := resp.Header.Get("ETag"); fitsHeader(tag) {
		a.ETag = tag
	}
	a.Date, a.Skew = serverClock(resp.Header, now)
	if a.Status == http.StatusNotModified {
		return a, nil
	}
	var err error
	a.Body, err = readBody(resp, limit)
	return a, err
}

// fitsHeader tells whether an entity tag can be sent in a header. Which
// characters it may have is for the server to say.
func fitsHeader(tag string) bool {
	for i := range len(tag) {
		if tag[i] < ' ' || tag[i] == 0x7f {
			return false
		}
	}
	return len(tag) <= maxETag
}

// applied tells whether Preference-Applied names a preference (RFC 7240,
// section 3), with or without its value.
func applied(h http.Header, name string) bool {
	for preference := range strings.SplitSeq(strings.Join(h.Values("Preference-Applied"), ","), ",") {
		token, _, _ := strings.Cut(preference, "=")
		if strings.EqualFold(strings.TrimSpace(token), name) {
			return true
		}
	}
	return false
}
