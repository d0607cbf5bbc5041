package fakeagent

import (
	"bytes"
	"fmt"
	"net/netip"
)

// HugeSize is about how long Huge's answer is, bytes.
const HugeSize = 50 << 20

// Huge keeps step like SyncOnly, and answers guest-network-get-interfaces with
// a list of HugeSize that never ends: no newline comes. libvirt reads 10 MiB of it,
// within some 10 s, then reports a system error and drops the agent for good.
func Huge() Behaviour {
	return func(request []byte) []byte {
		if r, err := parse(request); err != nil || r.Execute != interfacesCommand {
			return SyncOnly(request)
		}
		var b bytes.Buffer
		b.Grow(HugeSize + 1024)
		b.WriteString(`{"return":[`)
		for i := 0; b.Len() < HugeSize; i++ {
			fmt.Fprintf(&b, `{"name":"eth%d","hardware-address":"52:54:00:00:00:01","ip-addresses":`+
				`[{"ip-address-type":"ipv4","ip-address":"192.0.2.1","prefix":24}]},`, i)
		}
		return b.Bytes()
	}
}

// Many keeps step like Honest, and answers guest-network-get-interfaces with a
// well-formed list of that many interfaces, each with that many addresses of
// 198.18.0.0/15. libvirt takes 2,048 of either and refuses the whole answer
// otherwise (REMOTE_DOMAIN_INTERFACE_MAX, REMOTE_DOMAIN_IP_ADDR_MAX).
func Many(mac string, interfaces, addresses int) Behaviour {
	list := make([]Interface, interfaces)
	for i := range list {
		list[i] = device(fmt.Sprintf("eth%d", i), mac, manyAddresses(addresses)...)
	}
	return Interfaces(list...)
}

// manyAddresses returns n of them, from 198.18.0.1 on.
func manyAddresses(n int) []netip.Prefix {
	all := make([]netip.Prefix, n)
	ip := netip.MustParseAddr("198.18.0.0")
	for i := range all {
		ip = ip.Next()
		all[i] = netip.PrefixFrom(ip, 15)
	}
	return all
}

// Garbled is one way for an answer to be wrong.
type Garbled int

const (
	// BadJSON is a line that is no JSON.
	BadJSON Garbled = iota
	// BadUTF8 is JSON with strings that are no UTF-8.
	BadUTF8
	// WrongID answers a guest-sync with another id; all else is answered in step.
	WrongID
	// Truncated is half an answer, with a newline.
	Truncated
	// WrongShape is JSON of another form than the command's.
	WrongShape
	// Unasked is the right answer, and then the same once more, which nobody asked for. libvirt
	// takes the first and drops the other.
	Unasked
	// Event is an answer that is no answer: a JSON object with neither return nor error.
	Event
	// Deep is JSON nested 100,000 levels. libvirt's error repeats all of it, as it does with any
	// line that it cannot parse.
	Deep
)

// Garbage answers guest-network-get-interfaces (WrongID: guest-sync) wrongly,
// in that way, and keeps step like SyncOnly, for libvirt asks nothing of an
// agent that does not.
func Garbage(kind Garbled) Behaviour {
	return func(request []byte) []byte {
		r, err := parse(request)
		if err != nil {
			return nil
		}
		if kind == WrongID {
			return returns(1)
		}
		if r.Execute != interfacesCommand {
			return SyncOnly(request)
		}
		return garbled(kind)
	}
}

func garbled(kind Garbled) []byte {
	right := returns([]Interface{device("eth0", "52:54:00:00:00:01", netip.MustParsePrefix("192.0.2.1/24"))})
	switch kind {
	case BadJSON:
		return []byte("{\"return\": [}}}, {{\x00\n")
	case BadUTF8:
		return bytes.ReplaceAll(right, []byte("eth0"), []byte("eth\xff\xfe\xc3\x28"))
	case Truncated:
		return append(right[:len(right)/2:len(right)/2], '\n')
	case WrongShape:
		return returns(map[string]any{"name": []int{7}, "ip-addresses": "none"})
	case Unasked:
		return append(right, right...)
	case Deep:
		return []byte(`{"return":` + string(bytes.Repeat([]byte("["), 100_000)) + "\n")
	default:
		return line(map[string]any{"event": "SHUTDOWN"})
	}
}

// Hostile answers in good form with what a guest may make up: interfaces that
// all claim the domain's own MAC, with each of the addresses that are not its
// own to have (the host's, another proxy's, one outside the subnet), names and
// MACs with terminal escapes, newlines and markup, strings that are no
// addresses, and at last 2,000 addresses on one interface: as much as libvirt
// passes on.
func Hostile(mac string, foreign []netip.Prefix) Behaviour {
	const escapes = "\x1b[2J\x1b]0;owned\x07\r\n<b>'\"`$(id)`\u202e"
	return Interfaces(
		device("eth0", mac, foreign...),
		device(escapes, mac, foreign...),
		device("eth1", mac+escapes, foreign...),
		Interface{Name: "eth2", MAC: mac, Addresses: noAddresses(escapes)},
		Interface{Name: "", MAC: mac},
		Interface{Name: "eth4"},
		device("eth3", mac, manyAddresses(2000)...),
	)
}

// noAddresses are of a form that libvirt passes on and no guest can be reached at.
func noAddresses(text string) []Address {
	return []Address{
		{Type: "ipv4", IP: text, Prefix: 24},
		{Type: "ipv4", IP: "", Prefix: 24},
		{Type: "ipv4", IP: "0.0.0.0", Prefix: 0},
		{Type: "ipv4", IP: "255.255.255.255", Prefix: 32},
		{Type: "ipv4", IP: "127.0.0.1", Prefix: 8},
		{Type: "ipv4", IP: "224.0.0.1", Prefix: 4},
		{Type: "ipv4", IP: "http://192.0.2.1/", Prefix: 2147483647},
		{Type: "ipv4", IP: "2001:db8::1", Prefix: -1},
		{Type: "ipv6", IP: "::ffff:192.0.2.1", Prefix: 128},
		{Type: "ipv6", IP: "fe80::1%eth0", Prefix: 64},
	}
}
