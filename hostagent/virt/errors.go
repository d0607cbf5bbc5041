package virt

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// op is a kind of call, in the words of its error.
type op string

const (
	opConnect      op = "connect to libvirt at"
	opList         op = "list domains of"
	opLookup       op = "look up domain"
	opXML          op = "read XML of domain"
	opClaims       op = "read addresses of domain"
	opNetwork      op = "read network"
	opDefine       op = "define domain"
	opCreate       op = "create transient domain"
	opStart        op = "start domain"
	opResume       op = "resume domain"
	opShutdown     op = "shut down domain"
	opDestroy      op = "force off domain"
	opUndefine     op = "undefine domain"
	opAutostart    op = "set autostart of domain"
	opMetadata     op = "set metadata of domain"
	opBandwidth    op = "set bandwidth of domain"
	opDropSaved    op = "drop saved state of domain"
	opVersion      op = "read version of"
	opCapabilities op = "read capabilities of"
)

// what is a call and its object: what an error names.
type what struct {
	op     op
	object string
}

func (w what) fail(class observe.Class, err error) error {
	return &observe.Error{Op: string(w.op), Object: w.object, Class: class, Err: err}
}

// wrap makes an error of libvirt's one of ours. alive tells whether the
// connection is open.
func (w what) wrap(err error, alive bool) error {
	var lerr libvirt.Error
	if !errors.As(err, &lerr) {
		return w.fail(observe.Transient, err)
	}
	if lerr.Code == libvirt.ERR_NO_DOMAIN {
		return w.fail(observe.Transient, observe.ErrNoDomain)
	}
	return w.fail(classify(w.op, lerr.Code, lerr.Domain, alive), errors.New(describe(lerr)))
}

func isNoDomain(err error) bool { return errors.Is(err, observe.ErrNoDomain) }

// fail is wrap for a call on k; it also reports a link that turns out lost.
func (k *link) fail(w what, err error) error {
	var known *observe.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	err = w.wrap(err, k.alive())
	if observe.ClassOf(err) == observe.Disconnected {
		k.report(err.Error())
	}
	return err
}

// classify says how to retry an error of op, by its numbers only: texts are
// translated, and change. The meaning of a number depends on the call.
func classify(o op, code libvirt.ErrorNumber, domain libvirt.ErrorDomain, alive bool) observe.Class {
	if isDisconnect(code, domain, alive) {
		return observe.Disconnected
	}
	switch o {
	case opDefine, opCreate:
		if code == libvirt.ERR_OPERATION_FAILED || code == libvirt.ERR_DOM_EXIST {
			return observe.Clash
		}
	case opClaims:
		if isNoAnswer(code) {
			return observe.Unavailable
		}
	}
	if isPermanent(code) {
		return observe.Permanent
	}
	return observe.Transient
}

// isDisconnect tells whether the link is down. With a dead link libvirt gives
// INTERNAL_ERROR or SYSTEM_ERROR from the RPC or REMOTE code, or no error
// number at all to a call whose connection was closed by another thread.
func isDisconnect(code libvirt.ErrorNumber, domain libvirt.ErrorDomain, alive bool) bool {
	if code == libvirt.ERR_INVALID_CONN || code == libvirt.ERR_OK && !alive {
		return true
	}
	if alive {
		// The daemon passes on what it met itself, with the same numbers: its
		// link to virtlogd or virtnetworkd may be down, ours is not.
		return false
	}
	if domain != libvirt.FROM_RPC && domain != libvirt.FROM_REMOTE {
		return false
	}
	switch code {
	case libvirt.ERR_OK, libvirt.ERR_INTERNAL_ERROR, libvirt.ERR_NO_CONNECT,
		libvirt.ERR_SYSTEM_ERROR, libvirt.ERR_RPC:
		return true
	}
	return false
}

// isNoAnswer tells whether a source of addresses has none now: the domain is
// off, the agent not connected, slow, or not allowed to answer.
func isNoAnswer(code libvirt.ErrorNumber) bool {
	switch code {
	case libvirt.ERR_INTERNAL_ERROR, libvirt.ERR_OPERATION_INVALID,
		libvirt.ERR_AGENT_UNRESPONSIVE, libvirt.ERR_AGENT_UNSYNCED,
		libvirt.ERR_AGENT_COMMAND_TIMEOUT, libvirt.ERR_AGENT_COMMAND_FAILED:
		return true
	}
	return false
}

// isPermanent tells whether only another spec, configuration or host makes the
// call work. A number not named anywhere is transient: retried, ever slower.
func isPermanent(code libvirt.ErrorNumber) bool {
	switch code {
	case libvirt.ERR_NO_SUPPORT, libvirt.ERR_INVALID_ARG, libvirt.ERR_ARGUMENT_UNSUPPORTED,
		libvirt.ERR_OPERATION_DENIED, libvirt.ERR_ACCESS_DENIED,
		libvirt.ERR_AUTH_FAILED, libvirt.ERR_AUTH_UNAVAILABLE, libvirt.ERR_AUTH_CANCELLED,
		libvirt.ERR_XML_ERROR, libvirt.ERR_XML_DETAIL, libvirt.ERR_XML_INVALID_SCHEMA,
		libvirt.ERR_OS_TYPE, libvirt.ERR_NO_NAME, libvirt.ERR_NO_OS, libvirt.ERR_NO_DEVICE,
		libvirt.ERR_NO_ROOT, libvirt.ERR_NO_SOURCE, libvirt.ERR_NO_TARGET, libvirt.ERR_INVALID_MAC,
		libvirt.ERR_CONFIG_UNSUPPORTED, libvirt.ERR_CPU_INCOMPATIBLE, libvirt.ERR_HOOK_SCRIPT_FAILED:
		return true
	}
	return false
}

// textMax bounds what is kept of libvirt's text, which may quote a guest.
const textMax = 500 // runes

// describe gives libvirt's text for people, bounded and without control
// characters, and the numbers to look it up.
func describe(err error) string {
	var lerr libvirt.Error
	if !errors.As(err, &lerr) {
		return err.Error()
	}
	text := []rune(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, lerr.Message))
	if len(text) > textMax {
		text = append(text[:textMax], '…')
	}
	return fmt.Sprintf("%s (libvirt error %d, domain %d)", string(text), lerr.Code, lerr.Domain)
}
