package image

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

// fetcher is a Fetcher made of a function.
type fetcher func(ctx context.Context, w io.Writer) error

func (f fetcher) Fetch(ctx context.Context, _ string, w io.Writer, _ int64, _ func(done, total int64)) error {
	return f(ctx, w)
}

// remote is an entry whose content is not an image; for tests without qemu-img.
func remote(data string) spec.Image {
	return spec.Image{Key: "debian", Source: "https://user:hush@mirror.example/a.raw?signature=hush", SHA256: digest([]byte(data)), Format: "raw"}
}

// Case 70, while a base image is written.
func TestCase070NoSpaceForBase(t *testing.T) {
	t.Parallel()
	full := true
	tree := newTree(t, WithFetcher(fetcher(func(_ context.Context, w io.Writer) error {
		io.WriteString(w, "half")
		if full {
			return fmt.Errorf("write: %w", syscall.ENOSPC)
		}
		_, err := io.WriteString(w, "whole")
		return err
	})))
	_, err := tree.EnsureBase(t.Context(), remote("halfwhole"), nil)
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), tree.root) {
		t.Errorf("EnsureBase = %v", err)
	}
	empty(t, tree)
	needQemu(t)
	full = false
	if _, err := tree.EnsureBase(t.Context(), remote("halfwhole"), nil); err != nil {
		t.Error(err)
	}
}

// mirror serves an image over TLS; answer may misbehave on the nth request.
func mirror(t *testing.T, answer func(n int64, w http.ResponseWriter)) (*httptest.Server, Option) {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(n.Add(1), w) }))
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return s, WithFetcher(upstream.New(upstream.Options{RootCAs: pool, Retries: 1, BackoffMin: 1, BackoffMax: 1}))
}

// Case 72: a download that breaks off, with and without an announced length,
// is no image; the next one starts anew.
func TestCase072BrokenDownload(t *testing.T) {
	t.Parallel()
	needQemu(t)
	data := bytes.Repeat([]byte("image"), 400_000)
	for _, length := range []string{"", fmt.Sprintf("Content-Length: %d\r\n", len(data))} {
		broken := true
		s, opt := mirror(t, func(_ int64, w http.ResponseWriter) {
			if !broken {
				w.Write(data)
				return
			}
			conn, buf, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nConnection: close\r\n%s\r\n%s", length, data[:1<<20])
			buf.Flush()
			conn.Close()
		})
		tree := newTree(t, opt)
		img := spec.Image{Key: "debian", Source: s.URL + "/a.raw", SHA256: digest(data), Format: "raw"}
		if _, err := tree.EnsureBase(t.Context(), img, nil); err == nil {
			t.Errorf("length %q: half a body was accepted", length)
		} else if wrong := (*DigestError)(nil); errors.As(err, &wrong) {
			t.Errorf("length %q: what was cut short is taken for another image: %v", length, err)
		}
		empty(t, tree)
		broken = false
		base, err := tree.EnsureBase(t.Context(), img, nil)
		if err != nil || entry(t, base.Path, "raw").SHA256 != img.SHA256 {
			t.Errorf("length %q: %v", length, err)
		}
	}
}

// Case 72 within one call: the bytes of a broken attempt are not part of the
// image that the next attempt gives.
func TestCase072RestartWithinFetch(t *testing.T) {
	t.Parallel()
	needQemu(t)
	data := bytes.Repeat([]byte("image"), 400_000)
	s, opt := mirror(t, func(n int64, w http.ResponseWriter) {
		if n == 1 { // longer than the whole, and shorter than announced: net/http closes the connection
			w.Header().Set("Content-Length", fmt.Sprint(3*len(data)))
			w.Write(data)
			w.Write(data)
			return
		}
		w.Write(data)
	})
	tree := newTree(t, opt)
	img := spec.Image{Key: "debian", Source: s.URL + "/a.raw", SHA256: digest(data), Format: "raw"}
	base, err := tree.EnsureBase(t.Context(), img, nil)
	if err != nil || entry(t, base.Path, "raw").SHA256 != img.SHA256 {
		t.Error(err)
	}
}

// Case 73.
func TestCase073ContentEncoding(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	s, opt := mirror(t, func(n int64, w http.ResponseWriter) {
		requests.Store(n)
		w.Header().Set("Content-Encoding", "gzip")
		io.WriteString(w, "zipped")
	})
	tree := newTree(t, opt)
	img := spec.Image{Key: "debian", Source: s.URL + "/a.raw", SHA256: digest([]byte("zipped")), Format: "raw"}
	if _, err := tree.EnsureBase(t.Context(), img, nil); !errors.Is(err, upstream.ErrEncoded) {
		t.Errorf("EnsureBase = %v", err)
	}
	if requests.Load() != 1 {
		t.Errorf("%d requests", requests.Load())
	}
	empty(t, tree)
}

func TestI12_SourceIsShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	tree := newTree(t, WithFetcher(fetcher(func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, "other")
		return err
	})))
	_, err := tree.EnsureBase(t.Context(), remote("wanted"), nil)
	if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "https://mirror.example/a.raw") {
		t.Errorf("EnsureBase = %v", err)
	}
}
