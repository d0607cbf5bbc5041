package probe

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
)

const (
	maxBody   = 64 << 10 // bytes that are read after the header; the rest is not waited for
	maxHeader = 64 << 10 // bytes up to the end of an answer's header, interim answers included; more is ReasonBadResponse
	userAgent = "egress-hostagent-probe"
)

const authHeader = "Proxy-Authorization"

// fetchByProxy asks the proxy for the URL, in absolute form (RFC 9112, section
// 3.2.2), and compares the status. It speaks HTTP on a connection of its own,
// without http.Transport: there is nothing to reuse or to retry, no redirect
// to follow and no HTTP_PROXY to obey.
func (j job) fetchByProxy(conn net.Conn) (Result, error) {
	if j.auth != nil {
		j.request.Header.Set(authHeader, j.auth.basic())
	}
	if err := j.request.WriteProxy(conn); err != nil {
		return Result{}, err
	}
	in := newAnswer(conn)
	resp, err := in.header(j.request)
	if err != nil {
		return Result{}, err
	}
	if resp.StatusCode == http.StatusProxyAuthRequired && j.ExpectStatus != resp.StatusCode {
		return Result{}, j.authRequired()
	}
	return j.judge(resp, in)
}

// fetchDirectly asks for the URL on a connection that leads to its host.
func (j job) fetchDirectly(conn net.Conn) (Result, error) {
	if err := j.request.Write(conn); err != nil {
		return Result{}, err
	}
	in := newAnswer(conn)
	resp, err := in.header(j.request)
	if err != nil {
		return Result{}, err
	}
	return j.judge(resp, in)
}

// judge compares an answer with the one expected.
func (j job) judge(resp *http.Response, in *answer) (Result, error) {
	// Closing the body would wait for all of it; closing the connection is enough.
	if resp.StatusCode != j.ExpectStatus {
		return Result{}, fail(ReasonUnexpectedStatus, "answered %s, expected %d", j.status(resp), j.ExpectStatus)
	}
	body, err := in.body(resp)
	if err != nil {
		return Result{}, err
	}
	return Result{OK: true, EgressAddress: address(body)}, nil
}

// status is the answer's status for people, in the peer's own words unless it
// was sent credentials.
func (j job) status(resp *http.Response) string {
	if j.auth == nil {
		return resp.Status
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
}

func (j job) authRequired() error {
	if j.auth == nil {
		return fail(ReasonProxyAuthRequired, "the proxy wants credentials; give the probe some")
	}
	return fail(ReasonProxyAuthRequired, "the proxy does not take the credentials of %s; correct them there or in the guest", j.Credentials)
}

// answer reads an HTTP answer within bounds.
type answer struct {
	bounded *io.LimitedReader
	*bufio.Reader
}

func newAnswer(conn io.Reader) *answer {
	bounded := &io.LimitedReader{R: conn, N: maxHeader}
	return &answer{bounded, bufio.NewReader(bounded)}
}

// header reads up to the end of the final answer's header. How many interim
// answers (1xx) come before it is bounded by their size.
func (a *answer) header(req *http.Request) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(a.Reader, req)
		if err != nil && a.bounded.N <= 0 {
			return nil, fail(ReasonBadResponse, "header of more than %d bytes", maxHeader)
		}
		if err != nil || resp.StatusCode >= http.StatusOK {
			return resp, err
		}
	}
}

// body reads the body or its first maxBody bytes.
func (a *answer) body(resp *http.Response) ([]byte, error) {
	a.bounded.N = maxBody
	body, err := io.ReadAll(resp.Body)
	if err != nil && a.bounded.N > 0 {
		return nil, err
	}
	return body, nil
}

// address gives the IP address that a body consists of, or none.
func address(body []byte) netip.Addr {
	addr, err := netip.ParseAddr(string(bytes.TrimSpace(body)))
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}
	}
	return addr.Unmap()
}
