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
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

func TestEnsureBaseLocal(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"qcow2", "raw"} {
		tree := newTree(t)
		img := source(t, format, 3*mib)
		var seen int
		base, err := tree.EnsureBase(t.Context(), img, func(done, total int64) {
			seen++
			if done > total || total <= 0 {
				t.Errorf("progress %d of %d", done, total)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		want := observe.Base{SHA256: img.SHA256, Format: format, Path: filepath.Join(tree.root, "base", img.SHA256+"."+format)}
		if diff := cmp.Diff(want, base); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		published := entry(t, base.Path, format)
		fi, err := os.Stat(base.Path)
		if err != nil || fi.Mode() != 0o440 || published.SHA256 != img.SHA256 || seen == 0 {
			t.Errorf("%v %v, digest %s, %d progress calls", fi, err, published.SHA256, seen)
		}
		if diff := cmp.Diff(map[string]observe.Base{img.SHA256: want}, tree.Scan().Bases); diff != "" {
			t.Errorf("Scan (-want +got):\n%s", diff)
		}
		// Published once, the source is not needed any more, nor may it matter.
		if err := os.WriteFile(img.Source, []byte("changed in place"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := tree.EnsureBase(t.Context(), img, nil); err != nil || entry(t, base.Path, format).SHA256 != img.SHA256 {
			t.Errorf("after the source changed: %v", err)
		}
	}
}

// What is no complete image of the stated format never gets a final name.
func TestEnsureBaseRefuses(t *testing.T) {
	t.Parallel()
	needQemu(t)
	dir := t.TempDir()
	make := func(format, name string, args ...string) spec.Image {
		qemu(t, dir, append(append([]string{"create", "-q", "-f", format}, args...), name, "1M")...)
		return entry(t, filepath.Join(dir, name), format)
	}
	plain := make("qcow2", "plain.qcow2")
	corrupt := make("qcow2", "corrupt.qcow2")
	markCorrupt(t, &corrupt)
	with := func(img spec.Image, change func(*spec.Image)) spec.Image { change(&img); return img }
	tests := []struct {
		name  string
		img   spec.Image
		class observe.Class
		says  string
	}{
		{"raw as qcow2", with(make("raw", "a.raw"), func(i *spec.Image) { i.Format = "qcow2" }), observe.Permanent, "raw"},
		{"qcow2 as raw", with(plain, func(i *spec.Image) { i.Format = "raw" }), observe.Permanent, "qcow2"},
		{"another format", with(make("vmdk", "a.vmdk"), func(i *spec.Image) { i.Format = "raw" }), observe.Permanent, "vmdk"},
		{"backing file", make("qcow2", "b.qcow2", "-F", "qcow2", "-b", "plain.qcow2"), observe.Permanent, "plain.qcow2"},
		{"data file", make("qcow2", "d.qcow2", "-o", "data_file=data.raw"), observe.Permanent, "data.raw"},
		{"encrypted", make("qcow2", "e.qcow2", "--object", "secret,id=s,data=abc", "-o", "encrypt.format=luks,encrypt.iter-time=1,encrypt.key-secret=s"), observe.Permanent, "encrypted"},
		{"corrupt", corrupt, observe.Permanent, "corrupt"},
		{"another digest", with(plain, func(i *spec.Image) { i.SHA256 = digest(nil) }), observe.Transient, plain.SHA256},
		{"missing", with(plain, func(i *spec.Image) { i.Source = filepath.Join(dir, "none") }), observe.Transient, filepath.Join(dir, "none")},
		{"directory", with(plain, func(i *spec.Image) { i.Source = dir }), observe.Transient, dir},
		{"device", with(plain, func(i *spec.Image) { i.Source = "/dev/zero" }), observe.Transient, "/dev/zero"},
		{"relative", with(plain, func(i *spec.Image) { i.Source = "plain.qcow2" }), observe.Permanent, "absolute"},
		{"plain http", with(plain, func(i *spec.Image) { i.Source = "http://mirror.example/a" }), observe.Permanent, "https"},
		{"no format", with(plain, func(i *spec.Image) { i.Format = "" }), observe.Permanent, "format"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tree := newTree(t)
			_, err := tree.EnsureBase(t.Context(), tt.img, nil)
			if err == nil || observe.ClassOf(err) != tt.class || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("EnsureBase = %v (%s), want %s with %q", err, observe.ClassOf(err), tt.class, tt.says)
			}
			empty(t, tree)
		})
	}
}

// markCorrupt sets the header's corrupt bit (incompatible feature 1).
func markCorrupt(t *testing.T, img *spec.Image) {
	t.Helper()
	data, err := os.ReadFile(img.Source)
	if err != nil {
		t.Fatal(err)
	}
	data[79] |= 2
	if err := os.WriteFile(img.Source, data, 0o600); err != nil {
		t.Fatal(err)
	}
	img.SHA256 = digest(data)
}

// empty checks that no base is there, whole or in part.
func empty(t *testing.T, tree *Tree) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(tree.root, baseDir))
	if err != nil || len(left) != 0 {
		t.Errorf("left in %s: %v %v", baseDir, left, err)
	}
}

func TestDigestError(t *testing.T) {
	t.Parallel()
	img := image(t)
	got := img.SHA256
	img.SHA256 = digest([]byte("other"))
	_, err := newTree(t).EnsureBase(t.Context(), img, nil)
	var d *DigestError
	if !errors.As(err, &d) {
		t.Fatal(err)
	}
	if diff := cmp.Diff(DigestError{Source: img.Source, Want: img.SHA256, Got: got}, *d); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

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
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		if n == 1 {
			w.Write(data[:1<<20])
			return // shorter than announced: net/http closes the connection
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

func TestI15_BaseIsBounded(t *testing.T) {
	t.Parallel()
	img := image(t)
	tree := newTree(t, WithMaxBase(2))
	if _, err := tree.EnsureBase(t.Context(), img, nil); err == nil {
		t.Error("a source above the limit was copied")
	}
	empty(t, tree)
}

func TestConcurrentCallsFetchOnce(t *testing.T) {
	t.Parallel()
	needQemu(t)
	var fetches atomic.Int64
	tree := newTree(t, WithFetcher(fetcher(func(_ context.Context, w io.Writer) error {
		fetches.Add(1)
		_, err := io.WriteString(w, "raw")
		return err
	})))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := tree.EnsureBase(t.Context(), remote("raw"), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := fetches.Load(); got != 1 {
		t.Errorf("%d fetches", got)
	}
}

// The one whose call fetches may leave; the next one goes on, and a waiter may
// leave, too.
func TestSingleFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tree := New("/tree", testHost)
		leader, leave := context.WithCancel(t.Context())
		waiter, leaveToo := context.WithTimeout(t.Context(), time.Second)
		defer leaveToo()
		var runs int
		results := make(chan string, 4)
		call := func(ctx context.Context, name string) {
			err := tree.single(ctx, "k", func() error {
				runs++
				if name == "leader" {
					<-ctx.Done()
					return context.Cause(ctx)
				}
				return errors.New("final")
			})
			results <- fmt.Sprint(name, ": ", err)
		}
		go call(leader, "leader")
		synctest.Wait()
		go call(waiter, "waiter")
		if got, want := <-results, "waiter: context deadline exceeded"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		go call(t.Context(), "second")
		synctest.Wait()
		leave()
		got := map[string]bool{<-results: true, <-results: true}
		if diff := cmp.Diff(map[string]bool{"leader: context canceled": true, "second: final": true}, got); diff != "" || runs != 2 {
			t.Errorf("%d runs (-want +got):\n%s", runs, diff)
		}
	})
}

func TestSingleFlightSharesFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tree := New("/tree", testHost)
		go0, runs := make(chan struct{}), 0
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				err := tree.single(t.Context(), "k", func() error { runs++; <-go0; return errFinal })
				if !errors.Is(err, errFinal) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(go0)
		wg.Wait()
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
	})
}

var errFinal = errors.New("final")

func TestEnsureBaseEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	tree := newTree(t)
	img := image(t)
	if err := os.Truncate(img.Source, 8*mib); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.EnsureBase(ctx, img, func(int64, int64) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("EnsureBase = %v", err)
	}
	empty(t, tree)
}
