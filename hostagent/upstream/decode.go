package upstream

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// codingRoom is by how much a compressed body may be larger than what it holds.
const codingRoom = 4 << 10

// codings gives the content codings of a body, in lower case, without
// identity. They are a list, on one line or more (RFC 9110, 8.4 and 5.3).
func codings(h http.Header) (out []string) {
	for coding := range strings.SplitSeq(strings.Join(h.Values("Content-Encoding"), ","), ",") {
		if c := strings.ToLower(strings.TrimSpace(coding)); c != "" && c != "identity" {
			out = append(out, c)
		}
	}
	return out
}

// readBody reads a whole body, gzip or plain, of at most limit bytes decoded.
func readBody(resp *http.Response, limit int64) ([]byte, error) {
	var r io.Reader = resp.Body
	switch c := codings(resp.Header); {
	case len(c) == 0:
		if resp.ContentLength > limit {
			return nil, fmt.Errorf("%w: %d bytes announced, %d allowed", ErrTooLarge, resp.ContentLength, limit)
		}
	case len(c) == 1 && (c[0] == "gzip" || c[0] == "x-gzip"): // the same (RFC 9110, 8.4.1.3)
		// Empty members decode to nothing: what comes in is bounded, too.
		zip, err := gzip.NewReader(&capped{r: r, limit: limit + codingRoom})
		if errors.Is(err, io.EOF) { // not even a header
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		r = zip
	default:
		return nil, ErrEncoded
	}
	return io.ReadAll(&capped{r: r, limit: limit})
}

// capped is a reader that fails when there is more than limit.
type capped struct {
	r           io.Reader
	limit, done int64
}

// Read implements io.Reader.
func (c *capped) Read(p []byte) (int, error) {
	if left := c.limit - c.done; int64(len(p)) > left+1 {
		p = p[:left+1]
	}
	n, err := c.r.Read(p)
	if c.done += int64(n); c.done > c.limit {
		return 0, fmt.Errorf("%w of %d bytes", ErrTooLarge, c.limit)
	}
	return n, err
}
