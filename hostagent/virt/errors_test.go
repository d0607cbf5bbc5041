package virt

import (
	"context"
	"errors"
	"strings"
	"testing"

	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// classCase is one error and its class.
type classCase struct {
	name   string
	op     op
	code   int
	domain int
	dead   bool // the connection is closed
	want   observe.Class
}

const (
	perm  = observe.Permanent
	trans = observe.Transient
	disc  = observe.Disconnected
	unav  = observe.Unavailable
	clash = observe.Clash

	fromNone, fromRPC, fromQEMU, fromRemote = 0, 7, 10, 13
)

func testClasses(t *testing.T, cases []classCase) {
	t.Helper()
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := classify(test.op, libvirt.ErrorNumber(test.code), libvirt.ErrorDomain(test.domain), !test.dead)
			if got != test.want {
				t.Errorf("%s: class %s, want %s", test.op, got, test.want)
			}
		})
	}
}

func TestClassifyLostLinks(t *testing.T) {
	t.Parallel()
	testClasses(t, []classCase{
		{"client socket is closed", opList, 1, fromRPC, true, disc},
		{"end of file while reading", opList, 38, fromRPC, true, disc},
		{"keepalive timeout", opList, 1, fromRPC, true, disc},
		{"the daemon can not reach virtlogd", opStart, 38, fromRPC, false, trans},
		{"virtqemud can not reach virtnetworkd", opNetwork, 38, fromRPC, false, trans},
		{"closed by another thread, no error saved", opList, 0, fromNone, true, disc},
		{"no error number on a link that is up", opList, 0, fromNone, false, trans},
		{"connect refused", opConnect, 38, fromRPC, true, disc},
		{"no connect", opConnect, 5, fromRemote, true, disc},
		{"RPC error", opList, 39, fromRPC, true, disc},
		{"RPC error passed on", opList, 39, fromRPC, false, trans},
		{"no error number from the remote driver", opList, 0, fromRemote, true, disc},
		{"invalid connection", opList, 6, 20, false, disc},
		{"the daemon's own system error", opStart, 38, fromQEMU, false, trans},
		{"the daemon's own internal error", opStart, 1, fromQEMU, false, trans},
		{"internal error of a helper command", opStart, 1, fromNone, false, trans},
		{"link lost under a claim", opClaims, 1, fromRPC, true, disc},
	})
}

func TestClassifyCalls(t *testing.T) {
	t.Parallel()
	testClasses(t, []classCase{
		{"operation timeout", opDestroy, 68, fromQEMU, false, trans},
		{"resource busy", opDestroy, 87, fromQEMU, false, trans},
		{"no memory", opStart, 2, fromQEMU, false, trans},
		{"aborted", opStart, 78, fromQEMU, false, trans},
		{"no support", opXML, 3, fromQEMU, false, perm},
		{"invalid argument", opStart, 8, fromQEMU, false, perm},
		{"operation denied", opStart, 29, fromQEMU, false, perm},
		{"access denied", opStart, 88, fromQEMU, false, perm},
		{"authentication failed", opConnect, 45, fromRemote, false, perm},
		{"bad XML", opDefine, 27, fromQEMU, false, perm},
		{"bad XML detail", opDefine, 35, fromQEMU, false, perm},
		{"schema", opDefine, 92, fromQEMU, false, perm},
		{"config unsupported", opDefine, 67, fromQEMU, false, perm},
		{"name or UUID taken", opDefine, 9, fromQEMU, false, clash},
		{"name or UUID taken, transient", opCreate, 9, fromQEMU, false, clash},
		{"operation failed elsewhere", opStart, 9, fromQEMU, false, trans},
		{"network not active", opStart, 55, fromQEMU, false, trans},
		{"network absent", opStart, 43, 19, false, trans},
		{"hook refused", opStart, 70, 30, false, perm},
		{"CPU incompatible", opStart, 91, fromQEMU, false, perm},
		{"not running", opClaims, 55, fromQEMU, false, unav},
		{"agent not connected", opClaims, 86, fromQEMU, false, unav},
		{"agent out of step", opClaims, 97, fromQEMU, false, unav},
		{"agent too slow", opClaims, 112, fromQEMU, false, unav},
		{"agent forbids the command", opClaims, 113, fromQEMU, false, unav},
		{"agent internal", opClaims, 1, fromQEMU, false, unav},
		{"no channel in the XML", opClaims, 74, fromQEMU, false, perm},
		{"a number from the future", opStart, 4711, fromQEMU, false, trans},
	})
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
