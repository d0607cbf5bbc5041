package virt

import (
	"context"
	"errors"
	"strings"
	"testing"

	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	const (
		p = observe.Permanent
		x = observe.Transient
		d = observe.Disconnected
		u = observe.Unavailable
		c = observe.Clash
	)
	const fromQEMU, fromRPC, fromRemote, fromNone = 10, 7, 13, 0
	for _, test := range []struct {
		name   string
		op     op
		code   int
		domain int
		dead   bool
		want   observe.Class
	}{
		{"client socket is closed", opList, 1, fromRPC, true, d},
		{"end of file while reading", opList, 38, fromRPC, true, d},
		{"keepalive timeout, socket not closed yet", opList, 1, fromRPC, false, d},
		{"closed by another thread, no error saved", opList, 0, fromNone, true, d},
		{"no error number on a link that is up", opList, 0, fromNone, false, x},
		{"connect refused", opConnect, 38, fromRPC, true, d},
		{"no connect", opConnect, 5, fromRemote, true, d},
		{"RPC error", opList, 39, fromRPC, false, d},
		{"no error number from the remote driver", opList, 0, fromRemote, false, d},
		{"invalid connection", opList, 6, 20, false, d},
		{"the daemon's own system error", opStart, 38, fromQEMU, false, x},
		{"the daemon's own internal error", opStart, 1, fromQEMU, false, x},
		{"internal error of a helper command", opStart, 1, fromNone, false, x},
		{"operation timeout", opDestroy, 68, fromQEMU, false, x},
		{"resource busy", opDestroy, 87, fromQEMU, false, x},
		{"no memory", opStart, 2, fromQEMU, false, x},
		{"aborted", opStart, 78, fromQEMU, false, x},
		{"no support", opXML, 3, fromQEMU, false, p},
		{"invalid argument", opStart, 8, fromQEMU, false, p},
		{"operation denied", opStart, 29, fromQEMU, false, p},
		{"access denied", opStart, 88, fromQEMU, false, p},
		{"authentication failed", opConnect, 45, fromRemote, false, p},
		{"bad XML", opDefine, 27, fromQEMU, false, p},
		{"bad XML detail", opDefine, 35, fromQEMU, false, p},
		{"schema", opDefine, 92, fromQEMU, false, p},
		{"config unsupported", opDefine, 67, fromQEMU, false, p},
		{"name or UUID taken", opDefine, 9, fromQEMU, false, c},
		{"name or UUID taken, transient", opCreate, 9, fromQEMU, false, c},
		{"operation failed elsewhere", opStart, 9, fromQEMU, false, x},
		{"network not active", opStart, 55, fromQEMU, false, x},
		{"network absent", opStart, 43, 19, false, x},
		{"hook refused", opStart, 70, 30, false, p},
		{"CPU incompatible", opStart, 91, fromQEMU, false, p},
		{"not running", opClaims, 55, fromQEMU, false, u},
		{"agent not connected", opClaims, 86, fromQEMU, false, u},
		{"agent out of step", opClaims, 97, fromQEMU, false, u},
		{"agent too slow", opClaims, 112, fromQEMU, false, u},
		{"agent forbids the command", opClaims, 113, fromQEMU, false, u},
		{"agent internal", opClaims, 1, fromQEMU, false, u},
		{"no channel in the XML", opClaims, 74, fromQEMU, false, p},
		{"link lost under a claim", opClaims, 1, fromRPC, true, d},
		{"a number from the future", opStart, 4711, fromQEMU, false, x},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := classify(test.op, libvirt.ErrorNumber(test.code), libvirt.ErrorDomain(test.domain), !test.dead)
			if got != test.want {
				t.Errorf("%s: class %s, want %s", test.op, got, test.want)
			}
		})
	}
}

func TestI01_OnlyNoDomainIsAbsent(t *testing.T) {
	t.Parallel()
	for code := range 200 {
		for domain := range 80 {
			for _, alive := range []bool{true, false} {
				lerr := libvirt.Error{Code: libvirt.ErrorNumber(code), Domain: libvirt.ErrorDomain(domain), Message: "Domain not found"}
				err := what{opLookup, "u"}.wrap(lerr, alive)
				if absent := errors.Is(err, observe.ErrNoDomain); absent != (code == 42) {
					t.Fatalf("code %d, domain %d, alive %t: absent %t", code, domain, alive, absent)
				}
			}
		}
	}
}

func TestErrorsNameOperationAndObject(t *testing.T) {
	t.Parallel()
	err := what{opStart, "0a1b"}.wrap(libvirt.Error{Code: 1, Domain: 10, Message: "qemu\nexited\x1b[2J" + strings.Repeat("x", 2000)}, true)
	text := err.Error()
	if !strings.HasPrefix(text, "start domain 0a1b: qemu exited [2Jxxx") || !strings.HasSuffix(text, "(libvirt error 1, domain 10)") {
		t.Errorf("text %q", text)
	}
	if len(text) > 600 {
		t.Errorf("text has %d bytes", len(text))
	}
	err = what{opStart, "0a1b"}.wrap(context.Canceled, true)
	if !errors.Is(err, context.Canceled) || observe.ClassOf(err) != observe.Transient {
		t.Errorf("wrapped %v, class %s", err, observe.ClassOf(err))
	}
}
