package probe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

const (
	maxBody   = 64 << 10 // bytes that are read after the header; the rest is not waited for
	maxHeader = 64 << 10 // bytes up to the end of an answer's header; more is ReasonBadResponse
)

var errHeaderTooLong = fmt.Errorf("header of more than %d bytes", maxHeader)

// fetch asks the proxy for t.URL and compares the status. It speaks HTTP on a
// connection of its own, without http.Transport: there is nothing to reuse or
// to retry, no redirect to follow and no HTTP_PROXY to obey.
func fetch(ctx context.Context, t Target) Result {
	req, err := request(ctx, t.URL)
	if err != nil {
		return Result{Reason: ReasonBadTarget, Detail: err.Error()}
	}
	conn, err := dial(ctx, t.Addr)
	if err != nil {
		return failure(err)
	}
	defer conn.Close()
	// The past as deadline ends a read or write that is under way.
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	result, err := exchange(conn, req, t.ExpectStatus)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return failure(err)
	}
	return result
}

// request makes a GET that, written with WriteProxy, has its target in
// absolute form (RFC 9112, section 3.2.2).
func request(ctx context.Context, target string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, fmt.Errorf("probe url: %v", withoutURL(err))
	}
	if req.URL.Scheme != "http" || req.URL.Hostname() == "" {
		return nil, errors.New("probe url: want http://HOST/…")
	}
	req.Close = true
	req.Header.Set("User-Agent", "egress-hostagent-probe")
	// A cached answer would tell that the proxy worked once.
	req.Header.Set("Cache-Control", "no-cache")
	return req, nil
}

// withoutURL takes the URL out of an error's text: it may hold credentials.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// exchange sends req and judges the answer.
func exchange(conn net.Conn, req *http.Request, expect int) (Result, error) {
	if err := req.WriteProxy(conn); err != nil {
		return Result{}, err
	}
	bounded := &io.LimitedReader{R: conn, N: maxHeader}
	resp, err := readHeader(bufio.NewReader(bounded), req)
	if err != nil && bounded.N <= 0 {
		return Result{}, errHeaderTooLong
	}
	if err != nil {
		return Result{}, err
	}
	// Closing the body would wait for all of it; closing conn is enough.
	if resp.StatusCode != expect {
		detail := fmt.Sprintf("answered %s, expected %d", resp.Status, expect)
		return Result{Reason: ReasonUnexpectedStatus, Detail: detail}, nil
	}
	bounded.N = maxBody
	body, err := io.ReadAll(resp.Body)
	if err != nil && bounded.N > 0 {
		return Result{}, err
	}
	return Result{OK: true, EgressAddress: address(body)}, nil
}

// readHeader reads up to the end of the final answer's header. How many
// interim answers (1xx) come before it is bounded by the reader.
func readHeader(in *bufio.Reader, req *http.Request) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(in, req)
		if err != nil || resp.StatusCode >= http.StatusOK {
			return resp, err
		}
	}
}

// address gives the IP address that a body consists of, or "".
func address(body []byte) string {
	addr, err := netip.ParseAddr(string(bytes.TrimSpace(body)))
	if err != nil || addr.Zone() != "" {
		return ""
	}
	return addr.String()
}
