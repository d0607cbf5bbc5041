//go:build libvirtd

package virt

import (
	"os"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

// daemonURI names the environment variable with the URI of a libvirt daemon for
// tests, whose network "default" is active. The tests define and remove domains
// there.
const daemonURI = "EGRESS_TEST_LIBVIRT_URI"

func openDaemon(t *testing.T) *fixture {
	t.Helper()
	uri := os.Getenv(daemonURI)
	if uri == "" {
		t.Fatalf("%s is not set", daemonURI)
	}
	f := start(t, Options{URI: uri})
	f.await(observe.Connected)
	return f
}

func TestConformsOnADaemon(t *testing.T) {
	virttest.Conform(t, func(t *testing.T) virttest.Handle { return openDaemon(t) })
}
