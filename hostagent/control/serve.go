package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
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
func Serve(ctx context.Context, ln net.Listener, b Backend, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           handler(b, log),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
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

func handler(b Backend, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(pathStatus, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, log, http.StatusOK, b.Status())
	})
	mux.HandleFunc(pathProxies+"{name}", func(w http.ResponseWriter, r *http.Request) {
		proxy, err := find(b.Status(), r.PathValue("name"))
		if err != nil {
			answer(w, log, http.StatusNotFound, failure{err.Error()})
			return
		}
		answer(w, log, http.StatusOK, proxy)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer(w, log, http.StatusNotFound, failure{fmt.Sprintf("no such resource: %.200q", r.URL.Path)})
	})
	return onlyGet(mux, log)
}

func onlyGet(next http.Handler, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Allow", http.MethodGet)
		answer(w, log, http.StatusMethodNotAllowed, failure{fmt.Sprintf("method %.20q: only GET is served", r.Method)})
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
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if _, err := w.Write(append(body, '\n')); err != nil && !errors.Is(err, net.ErrClosed) {
		log.Debug("a client of the control socket went away", "error", err)
	}
}
