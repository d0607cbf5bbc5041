package probe

import (
	"encoding/binary"
	"io"
	"net/netip"
)

// Numbers of SOCKS5: RFC 1928, sections 3 to 6, and RFC 1929, section 2.
const (
	socksVersion     = 5
	socksAuthVersion = 1

	socksNoAuth       = 0x00
	socksUserPassword = 0x02
	socksNoMethod     = 0xff

	socksConnect = 1

	socksIPv4 = 1
	socksName = 3
	socksIPv6 = 4
)

// socksReplies are the failures of RFC 1928, section 6, by their number.
var socksReplies = [...]string{
	1: "general failure", 2: "not allowed by its rules", 3: "network unreachable", 4: "host unreachable",
	5: "connection refused", 6: "TTL expired", 7: "command not supported", 8: "address type not supported",
}

// socks5 has the proxy connect to the destination, whose name it resolves
// itself. Nothing is read beyond the proxy's reply.
func (j job) socks5(conn io.ReadWriter) error {
	method, err := j.socksMethod(conn)
	if err != nil {
		return err
	}
	if method == socksUserPassword {
		if err := j.socksLogIn(conn); err != nil {
			return err
		}
	}
	if _, err := conn.Write(j.dest.socksRequest()); err != nil {
		return err
	}
	return j.socksReply(conn)
}

// socksMethod agrees on how to authenticate.
func (j job) socksMethod(conn io.ReadWriter) (byte, error) {
	greeting := []byte{socksVersion, 1, socksNoAuth}
	if j.auth != nil {
		greeting = []byte{socksVersion, 2, socksNoAuth, socksUserPassword}
	}
	if _, err := conn.Write(greeting); err != nil {
		return 0, err
	}
	var choice [2]byte
	if err := read(conn, choice[:]); err != nil {
		return 0, err
	}
	method := choice[1]
	switch {
	case choice[0] != socksVersion:
		return 0, fail(ReasonBadResponse, "the answer is not of SOCKS version 5: its first byte is %#02x", choice[0])
	case method == socksNoMethod:
		return 0, j.authRequired()
	case method == socksNoAuth, method == socksUserPassword && j.auth != nil:
		return method, nil
	}
	return 0, fail(ReasonBadResponse, "the proxy chose method %#02x, which was not offered", method)
}

// socksLogIn sends user name and password (RFC 1929).
func (j job) socksLogIn(conn io.ReadWriter) error {
	msg := []byte{socksAuthVersion, byte(len(j.auth.user))}
	msg = append(msg, j.auth.user...)
	msg = append(msg, byte(len(j.auth.password)))
	msg = append(msg, j.auth.password...)
	if _, err := conn.Write(msg); err != nil {
		return err
	}
	var verdict [2]byte
	if err := read(conn, verdict[:]); err != nil {
		return err
	}
	// The version is not looked at: proxies are known to answer with that of
	// SOCKS itself, and the status says all.
	if verdict[1] != 0 {
		return j.authRequired()
	}
	return nil
}

func (d dest) socksRequest() []byte {
	msg := []byte{socksVersion, socksConnect, 0}
	if addr, err := netip.ParseAddr(d.host); err != nil {
		msg = append(msg, socksName, byte(len(d.host)))
		msg = append(msg, d.host...)
	} else {
		kind := byte(socksIPv6)
		if addr = addr.Unmap(); addr.Is4() {
			kind = socksIPv4
		}
		msg = append(append(msg, kind), addr.AsSlice()...)
	}
	return binary.BigEndian.AppendUint16(msg, d.port)
}

// socksReply reads the proxy's reply to the request. A failure is one as soon
// as its number is there: not every proxy sends the rest.
func (j job) socksReply(conn io.Reader) error {
	var head [2]byte
	if err := read(conn, head[:]); err != nil {
		return err
	}
	if head[0] != socksVersion {
		return fail(ReasonBadResponse, "the reply is not of SOCKS version 5: its first byte is %#02x", head[0])
	}
	if n := int(head[1]); n != 0 {
		why := "unknown failure"
		if n < len(socksReplies) {
			why = socksReplies[n]
		}
		return fail(ReasonTunnelRefused, "replied %d (%s) when asked to connect to %s", n, why, j.dest)
	}
	return skipBound(conn)
}

// skipBound reads the address that the proxy connects from, which says nothing
// that can be relied on: proxies fill it with zeros or their own.
func skipBound(conn io.Reader) error {
	var kind [2]byte // after a reserved byte
	if err := read(conn, kind[:]); err != nil {
		return err
	}
	size := 0
	switch kind[1] {
	case socksIPv4:
		size = 4
	case socksIPv6:
		size = 16
	case socksName:
		var n [1]byte
		if err := read(conn, n[:]); err != nil {
			return err
		}
		size = int(n[0])
	default:
		return fail(ReasonBadResponse, "the reply has an address of the unknown type %#02x", kind[1])
	}
	return read(conn, make([]byte, size+2)) // with the port
}

func read(conn io.Reader, b []byte) error {
	_, err := io.ReadFull(conn, b)
	return err
}
