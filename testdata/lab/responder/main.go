// Command responder is the far end of the lab: the HTTP server a proxy is asked to fetch from. It
// answers 204 on /generate_204 and 404 on every other path, as the connectivity checks of browsers
// and phones expect it, so no request of the lab leaves the machine.
//
// Each request is one line on standard output: method, remote address, path. The remote address
// shows whether a request came through the guest's proxy or straight from the host. It ends on TERM
// or INT with exit code 0.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", "192.168.122.1:8204", "address and port to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := serve(ctx, *listen); err != nil {
		fmt.Fprintf(os.Stderr, "responder: %v\n", err)
		os.Exit(1)
	}
}

// serve listens on address until ctx ends.
func serve(ctx context.Context, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	fmt.Printf("listening on %s\n", listener.Addr())
	server := &http.Server{Handler: http.HandlerFunc(answer), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", address, err)
	}
	return nil
}

func answer(w http.ResponseWriter, r *http.Request) {
	fmt.Printf("%s %s %q\n", r.Method, r.RemoteAddr, r.URL.Path)
	if r.URL.Path != "/generate_204" {
		http.NotFound(w, r)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
