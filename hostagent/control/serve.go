package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// Bounds of one client's hold on the agent.
const (
	headerTimeout = 2 * time.Second
	readTimeout   = 2 * time.Second
	writeTimeout  = 10 * time.Second
	idleTimeout   = 10 * time.Second
	maxHeader     = 8 << 10 // bytes
	maxConns      = 32      // further clients wait in the kernel's queue
	endTimeout    = 500 * time.Millisecond
)

// Serve answers on ln until ctx ends, then lets requests under way finish for
// at most half a second and returns nil. It closes ln. Any other error is one
// of accepting connections.
func Serve(ctx context.Context, ln net.Listener, b Backend, who *Access, log *slog.Logger) error {
	return newServer(b, who, log).run(ctx, ln)
}

// server is the agent's side of the API.
type server struct {
	backend Backend
	access  *Access
	self    uint32 // the agent's own uid
	peer    func(net.Conn) peer
	names   *namer
	log     *slog.Logger
}

func newServer(b Backend, who *Access, log *slog.Logger) *server {
	return &server{backend: b, access: who, self: uint32(os.Geteuid()), peer: peerOf, names: newNamer(), log: log}
}

func (s *server) run(ctx context.Context, ln net.Listener) error {
	srv := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		// An order that waits ends with the agent.
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, s.peer(conn))
		},
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(limit(ln, maxConns)) }()
	select {
	case err := <-failed:
		srv.Close()
		return fmt.Errorf("serve the control socket: %w", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := srv.Shutdown(end); err != nil {
		srv.Close()
	}
	<-failed
	return nil
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(pathStatus, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, s.log, http.StatusOK, s.backend.Status())
	})
	mux.HandleFunc(pathProxies+"{name}", func(w http.ResponseWriter, r *http.Request) {
		proxy, err := find(s.backend.Status(), r.PathValue("name"))
		if err != nil {
			answer(w, s.log, http.StatusNotFound, failure{err.Error()})
			return
		}
		answer(w, s.log, http.StatusOK, proxy)
	})
	mux.HandleFunc(pathOrders, s.order)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer(w, s.log, http.StatusNotFound, failure{fmt.Sprintf("no such resource: %.200q", r.URL.Path)})
	})
	return onlyServed(mux, s.log)
}

// onlyServed refuses methods that a resource does not have.
func onlyServed(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served := http.MethodGet
		if r.URL.Path == pathOrders {
			served = http.MethodPost
		}
		if r.Method == served {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", served)
		answer(w, log, http.StatusMethodNotAllowed, failure{fmt.Sprintf("method %.20q: only %s is served here", r.Method, served)})
	})
}

func find(h status.Host, name string) (status.Proxy, error) {
	for _, p := range h.Proxies {
		if p.Name == name {
			return p, nil
		}
	}
	return status.Proxy{}, fmt.Errorf("no proxy is named %.200q", name)
}

// answer writes v. It is encoded whole first: a value that does not encode
// must not leave with status 200.
func answer(w http.ResponseWriter, log *slog.Logger, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		log.Error("encode an answer of the control socket", "error", err)
		code, body = http.StatusInternalServerError, []byte(`{"error":"the answer could not be encoded: see the agent's log"}`)
	}
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(code)
	if _, err := w.Write(append(body, '\n')); err != nil && !errors.Is(err, net.ErrClosed) {
		log.Debug("a client of the control socket went away", "error", err)
	}
}
