package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"
)

// patience bounds every wait for something that must come. It says nothing
// about how soon it should.
const patience = time.Minute

// until waits until try gives no error.
func until(what string, try func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %s: %w", patience, what, err)
		}
	}
}

// freePort finds a port of 127.0.0.1 that nobody listens on.
func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}

// Client makes an HTTP client that believes ca and shows the pair, if it is
// not empty. It follows no redirect.
func Client(ca *Authority, pair Pair) (*http.Client, error) {
	config := &tls.Config{RootCAs: ca.Pool()}
	if pair.Cert != nil {
		c, err := pair.TLS()
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{c}
	}
	return &http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{TLSClientConfig: config},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
