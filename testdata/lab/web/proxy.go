package web

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// Proxy stands before an nginx, with a server's certificate of its own, and
// lets through what its fault leaves of requests and answers. Its clients show
// certificates; to nginx it shows one that it was given.
type Proxy struct {
	URL string // of its root

	ln     net.Listener
	server *http.Server
	pass   http.Handler
	ended  chan struct{}
	stop   context.CancelFunc
	life   context.Context

	mu    sync.Mutex
	fault Fault
	open  map[net.Conn]bool
	asked []Asked
}

// Asked is one request that reached the proxy.
type Asked struct {
	When   time.Time
	Path   string
	Query  string
	Header http.Header
	Client bool // it came with a client certificate
}

// Backend is the server that a proxy stands before.
type Backend struct {
	Nginx *Nginx
	CA    *Authority // of the server
	Pair  Pair       // shown to it; it names the host
}

// NewProxy starts a proxy with a server's certificate, for clients of hosts.
func NewProxy(server Pair, hosts *Authority, b Backend) (*Proxy, error) {
	cert, err := server.TLS()
	if err != nil {
		return nil, err
	}
	client, err := Client(b.CA, b.Pair)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(b.Nginx.URL(""))
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.Background())
	quiet := log.New(io.Discard, "", 0)
	p := &Proxy{
		URL: "https://" + ln.Addr().String(), ln: ln, ended: make(chan struct{}), life: life, stop: stop, open: map[net.Conn]bool{},
		pass: &httputil.ReverseProxy{
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport: client.Transport, ErrorLog: quiet,
		},
	}
	p.server = &http.Server{Handler: p, ConnState: p.track, ErrorLog: quiet, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: hosts.Pool(), ClientAuth: tls.VerifyClientCertIfGiven,
	}}
	go func() {
		defer close(p.ended)
		_ = p.server.ServeTLS(faulty{ln, p}, "", "")
	}()
	return p, nil
}

// Set makes a fault count from now on; the zero Fault is none. Connections that
// are open are closed.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	for c := range p.open {
		_ = c.Close()
	}
}

// Asked gives the requests that came since then, oldest first.
func (p *Proxy) Asked(since time.Time) []Asked {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Asked
	for _, a := range p.asked {
		if a.When.After(since) {
			out = append(out, a)
		}
	}
	return out
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	fault := p.fault
	p.asked = append(p.asked, Asked{
		When: time.Now(), Path: r.URL.Path, Query: r.URL.RawQuery, Header: r.Header.Clone(), Client: len(r.TLS.PeerCertificates) > 0,
	})
	p.mu.Unlock()
	if fault.HTTP == nil {
		p.pass.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	fault.HTTP(w, r.WithContext(ctx), p.pass)
}

// Close ends the proxy and everything that it holds back.
func (p *Proxy) Close() error {
	p.stop()
	err := p.server.Close()
	<-p.ended
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (p *Proxy) track(c net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		p.open[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(p.open, c)
	}
}

// faulty gives out the connections that the proxy's fault leaves.
type faulty struct {
	net.Listener
	p *Proxy
}

// Accept implements net.Listener.
func (l faulty) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.p.mu.Lock()
		take := l.p.fault.Conn
		l.p.mu.Unlock()
		if take == nil {
			return c, nil
		}
		go func() {
			defer c.Close()
			take(l.p.life, c)
		}()
	}
}
