//go:build guest

package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// multipart is user-data as tools make it: a cloud-config and a script in one.
const multipart = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="=="

--==
Content-Type: text/cloud-config; charset="utf-8"

#cloud-config
write_files:
- path: /etc/from-config
  content: "0755"
--==
Content-Type: text/x-shellscript; charset="utf-8"

#!/bin/sh
echo 1.10 >/etc/from-script
--==--
`

const template = `## template: jinja
#cloud-config
write_files:
- path: /etc/upstream
  content: "{{ ds.meta_data.upstream }}"
`

// TestGuestSeeds: what real guests make of user-data that is not plain text, of
// variables, of the operator's own vendor data and of static addresses.
func TestGuestSeeds(t *testing.T) {
	l := newGuestLane(t)
	gateway, err := netip.ParseAddr(l.place.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	four := gateway.As4()
	four[3] = 77
	static := netip.AddrFrom4(four)
	packed := gzipped(t, multipart)
	specs := map[string]string{
		"packed": fmt.Sprintf("user_data_base64 = %q\n", base64.StdEncoding.EncodeToString(packed)),
		"jinja": fmt.Sprintf("user_data = '''\n%s'''\nvendor_data = '''\n#!/bin/sh\necho vendor >/etc/from-vendor\n'''\n"+
			"[vars]\nupstream = \"1.10\"\n[[network]]\nnetwork = \"default\"\naddress = \"%s/24\"\ngateway = \"%s\"\ndns = \"%s\"\n",
			template, static, gateway, gateway),
	}
	for name, text := range specs {
		if err := l.agent.Write(name+".toml", "image = \"debian-12\"\nmachine_type = \"small\"\ndisk = \"4GiB\"\n"+text); err != nil {
			t.Fatal(err)
		}
	}
	l.answer(len(specs))

	t.Run("TestI07 gzip of MIME arrives as it is and runs", func(t *testing.T) {
		l.name = "packed"
		l.done(t)
		sum := sha256.Sum256(packed)
		if got := l.guest("sha256sum", "/var/lib/cloud/instance/user-data.txt"); !strings.HasPrefix(got, hex.EncodeToString(sum[:])) {
			t.Errorf("sha256 in the guest %s, in the spec %x", got, sum)
		}
		if got := l.guest("cat", "/etc/from-config", "/etc/from-script"); got != "07551.10" {
			t.Errorf("the parts left %q", got)
		}
	})
	t.Run("TestI07 a template reads a variable as it was written", func(t *testing.T) {
		l.name = "jinja"
		l.done(t)
		if got := l.guest("cat", "/etc/upstream", "/etc/from-vendor"); got != "1.10vendor" {
			t.Errorf("template and vendor data left %q", got)
		}
	})
	t.Run("a static address is the guest's", func(t *testing.T) {
		if got := l.guest("ip", "-4", "-o", "address", "show", "eth0"); !strings.Contains(got, " "+static.String()+"/24") {
			t.Errorf("wanted %s, the guest has %s", static, got)
		}
		if got := l.guest("ip", "route", "show", "default"); !strings.Contains(got, "via "+gateway.String()) {
			t.Errorf("the guest's default route is %q", got)
		}
		h, err := l.agent.Status()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range h.Proxies {
			if p.Name == "jinja" && (len(p.Addresses) == 0 || p.Addresses[0].Address != static) {
				t.Errorf("status shows %v", p.Addresses)
			}
		}
	})
}

// answer waits until so many guests have said their addresses themselves.
func (l *guestLane) answer(guests int) {
	l.Helper()
	err := l.agent.Wait(bootPatience, "the guest agents answer", func(h status.Host) bool {
		n := 0
		for _, p := range h.Proxies {
			if len(p.Addresses) > 0 && p.Addresses[0].Source == "agent" {
				n++
			}
		}
		return n == guests
	})
	if err != nil {
		l.Fatal(err)
	}
}

// done waits for the end of cloud-init.
func (l *guestLane) done(t *testing.T) {
	t.Helper()
	if got := l.guest("cloud-init", "status", "--wait"); !strings.Contains(got, "status: done") {
		t.Errorf("cloud-init: %s", got)
	}
}

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
