package image

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/hostagent/upstream"
)

const envCert = "TEST_IMAGE_CERT" // the mirror's certificate, PEM

// victimFetch kills itself as soon as part of an image has come.
func victimFetch(img spec.Image) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(os.Getenv(envCert))) {
		return errors.New("no certificate")
	}
	tree := New(os.Getenv(envRoot), testHost, WithFetcher(upstream.New(upstream.Options{RootCAs: pool})))
	_, err := tree.EnsureBase(context.Background(), img, func(int64, int64) {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	return err
}

// TestCase072_KilledWhileDownloading: what the agent had got is no image to its
// next run, which fetches anew and leaves nothing of the first.
func TestCase072_KilledWhileDownloading(t *testing.T) {
	t.Parallel()
	needQemu(t)
	data := bytes.Repeat([]byte("image"), 400_000)
	for _, announced := range []bool{true, false} {
		s, opt := mirror(t, func(n int64, w http.ResponseWriter) {
			if announced {
				w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			}
			w.Write(data[:1<<20])
			http.NewResponseController(w).Flush()
			if n > 1 {
				w.Write(data[1<<20:])
			}
		})
		tree := newTree(t, opt)
		img := spec.Image{Key: "debian", Source: s.URL + "/a.raw", SHA256: digest(data), Format: "raw"}
		encoded, err := json.Marshal(img)
		if err != nil {
			t.Fatal(err)
		}
		cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), envRoot+"="+tree.root, envImg+"="+string(encoded), envWork+"=fetch", envCert+"="+string(cert))
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
			t.Fatalf("announced %v: %v: %s", announced, err, out)
		}
		final := tree.base(img.SHA256, img.Format).Path
		part := filepath.Join(filepath.Dir(final), partName(filepath.Base(final)))
		fi, err := os.Stat(part)
		if err != nil || fi.Size() == 0 || fi.Size() >= int64(len(data)) {
			t.Errorf("announced %v: it was not killed on the way: %v, %v", announced, fi, err)
		}
		if _, err := os.Lstat(final); !os.IsNotExist(err) || len(New(tree.root, testHost).Scan().Bases) != 0 {
			t.Errorf("announced %v: half an image counts: %v", announced, err)
		}
		base, err := tree.EnsureBase(t.Context(), img, nil)
		if err != nil || entry(t, base.Path, "raw").SHA256 != img.SHA256 {
			t.Errorf("announced %v: the next run: %v", announced, err)
		}
		if _, err := os.Lstat(part); !os.IsNotExist(err) {
			t.Errorf("announced %v: left %s: %v", announced, part, err)
		}
	}
}
