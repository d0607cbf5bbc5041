package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

// maxHeaderBytes bounds what a server can make the client hold before a body.
const maxHeaderBytes = 64 << 10

// ErrProxySettings: the environment names a proxy that can not be used.
var ErrProxySettings = errors.New("the proxy settings in the environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY) are not readable: correct them")

// ProxyError is a proxy that does not lead to the server.
type ProxyError struct{ Code int }

// Error implements error. The proxy's own reason phrase is not repeated.
func (e *ProxyError) Error() string {
	return fmt.Sprintf("the proxy answered %d %s", e.Code, http.StatusText(e.Code))
}

// Proxy finds the proxy of a request; http.ProxyFromEnvironment is one.
type Proxy func(*http.Request) (*url.URL, error)

// newTransport makes a transport whose connections are set up within limit. A
// connection on which nothing comes for that long is tested and, when the test
// goes unanswered as long, closed: its peer may be gone without a word.
func newTransport(limit time.Duration, config *tls.Config, proxy Proxy) *http.Transport {
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	return &http.Transport{
		Proxy:                  quietProxy(proxy),
		OnProxyConnectResponse: checkProxy,
		DialContext:            newDialer(limit).DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    limit,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: limit, PingTimeout: limit},
		// Transparent decompression would hand over bytes that have another
		// digest and another size than the object has.
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        90 * time.Second,
	}
}

// newDialer makes a dialer that gives up after limit, and whose connections
// break within a minute when the peer is gone.
func newDialer(limit time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout:         limit,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 6},
	}
}

// quietProxy keeps the setting, which may hold a password, out of the error.
func quietProxy(proxy Proxy) Proxy {
	return func(r *http.Request) (*url.URL, error) {
		u, err := proxy(r)
		if err != nil {
			return nil, ErrProxySettings
		}
		return u, nil
	}
}

// checkProxy gives a proxy's refusal a type.
func checkProxy(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return &ProxyError{Code: resp.StatusCode}
	}
	return nil
}
