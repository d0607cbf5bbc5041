package upstream

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// maxErrorBody is how much of an error's body is read, in bytes.
const maxErrorBody = 4 << 10

// maxText bounds a text of the server in an error, in bytes.
const maxText = 300

// Problem is what a server says about an error in application/problem+json (RFC
// 9457, section 3.1): bounded, printable, with the client's secrets taken out.
// A handler looks at Type only.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

// StatusError is a response with another status than the call takes for an answer.
type StatusError struct {
	Code int
	// RetryAfter is how long the server wants to be left alone, whatever the
	// code; zero: it did not say. At most MaxRetryAfter.
	RetryAfter time.Duration
	Problem    Problem // zero: none was sent, or it was not read
	// Date is the server's clock, zero if it was not sent; Skew is ours minus
	// theirs.
	Date time.Time
	Skew time.Duration
}

// Error implements error. The server's own reason phrase is not repeated.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("server answered %d %s", e.Code, http.StatusText(e.Code))
	for _, part := range []string{e.Problem.Type, e.Problem.Title, e.Problem.Detail} {
		if part != "" && part != "about:blank" {
			text += ": " + part
		}
	}
	return text
}

// newStatusError makes the error of a response without reading its body.
func newStatusError(resp *http.Response, now time.Time) *StatusError {
	e := &StatusError{Code: resp.StatusCode}
	e.RetryAfter, _ = retryAfter(resp.Header.Get("Retry-After"), now)
	e.Date, e.Skew = serverClock(resp.Header, now)
	return e
}

// readStatusError also reads the start of the body; hide takes secrets out of
// what it says. A body that can not be read is no problem of its own.
func readStatusError(resp *http.Response, now time.Time, hide func(string) string) *StatusError {
	e := newStatusError(resp, now)
	data, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind != "application/problem+json" || json.Unmarshal(data, &e.Problem) != nil {
		e.Problem = Problem{}
		return e
	}
	for _, text := range []*string{&e.Problem.Type, &e.Problem.Title, &e.Problem.Detail} {
		*text = shorten(hide(*text))
	}
	return e
}

// serverClock reads the Date header; a cache adds the age of what it gives out
// (RFC 9111, sections 4.2.3 and 5.1).
func serverClock(h http.Header, now time.Time) (date time.Time, skew time.Duration) {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Time{}, 0
	}
	if age, err := strconv.ParseUint(h.Get("Age"), 10, 31); err == nil {
		date = date.Add(time.Duration(age) * time.Second)
	}
	return date, now.Sub(date)
}

// shorten makes a text of others fit for a line of a log.
func shorten(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, s)
}
