package upstream

import (
	"context"
	"io"
	"net/http"
	"time"
)

// slowest is the upload rate, in bytes per second, that a Put must reach.
const slowest = 32 << 10

// PutAnswer is a server's consent.
type PutAnswer struct {
	Status int // 200, 201, 202 or 204
	// Date is the server's clock, zero if it was not sent; Skew is ours minus
	// theirs.
	Date time.Time
	Skew time.Duration
}

// Put sends body, as it is and with its length, to the origin's URL, once; each
// attempt and each redirect within the origin sends the whole of it. header
// is added as it is; an Idempotency-Key in it allows net/http to repeat a
// request whose connection was closed before it was read. Errors are as for Get.
func (o *Origin) Put(ctx context.Context, contentType string, body []byte, header map[string]string) (PutAnswer, error) {
	h := http.Header{"Accept-Encoding": {"identity"}, "Content-Type": {contentType}}
	for name, value := range header {
		h.Set(name, value)
	}
	var a PutAnswer
	err := o.call(ctx, exchange{
		op:     "put",
		method: http.MethodPut,
		header: h,
		body:   body,
		limit:  o.opt.Stall + time.Duration(len(body)/slowest)*time.Second,
		receive: func(resp *http.Response, hide func(string) string) error {
			switch resp.StatusCode {
			case http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent:
			default:
				return readStatusError(resp, o.opt.Now(), hide)
			}
			// What it says is of no use; read, it lets the connection be used again.
			_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody)
			a.Status = resp.StatusCode
			a.Date, a.Skew = serverClock(resp.Header, o.opt.Now())
			return nil
		},
	})
	if err != nil {
		return PutAnswer{}, err
	}
	return a, nil
}
