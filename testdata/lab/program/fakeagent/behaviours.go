package fakeagent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
)

const interfacesCommand = "guest-network-get-interfaces"

// Silent reads and never answers. libvirt gives up after 5 s.
func Silent([]byte) []byte { return nil }

// SyncOnly answers guest-sync and guest-sync-delimited, as libvirt sends them
// before a command, and then falls silent. libvirt waits without end for what
// comes after the sync, and refuses other calls to this agent after 30 s each,
// unless virDomainSetAgentResponseTimeout was called.
func SyncOnly(line []byte) []byte {
	r, err := parse(line)
	if err != nil {
		return nil
	}
	switch r.Execute {
	case "guest-sync":
		return returns(r.Arguments.ID)
	case "guest-sync-delimited":
		return append([]byte{sentinel}, returns(r.Arguments.ID)...)
	}
	return nil
}

// Honest answers as the agent of a guest with lo and one interface, eth0, with
// that MAC and those addresses. It knows guest-sync, guest-sync-delimited,
// guest-ping, guest-info and guest-network-get-interfaces; other commands it
// refuses as the real one does.
func Honest(mac string, addresses []netip.Prefix) Behaviour {
	loopback := device("lo", "00:00:00:00:00:00",
		netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("::1/128"))
	return Interfaces(loopback, device("eth0", mac, addresses...))
}

// Interface is one element of what guest-network-get-interfaces returns. Its
// strings are sent as they are, sense or not.
type Interface struct {
	Name      string    `json:"name"`
	MAC       string    `json:"hardware-address,omitempty"`
	Addresses []Address `json:"ip-addresses,omitempty"`
}

// Address is one address of an Interface. Type is "ipv4" or "ipv6" from an honest agent.
type Address struct {
	Type   string `json:"ip-address-type"`
	IP     string `json:"ip-address"`
	Prefix int    `json:"prefix"`
}

// Interfaces answers as Honest does, with these interfaces and no others.
func Interfaces(list ...Interface) Behaviour {
	return func(line []byte) []byte {
		if answer := SyncOnly(line); answer != nil {
			return answer
		}
		r, err := parse(line)
		if err != nil {
			return refuses("Invalid JSON syntax")
		}
		switch r.Execute {
		case "guest-ping":
			return returns(struct{}{})
		case "guest-info":
			return returns(info())
		case interfacesCommand:
			return returns(list)
		}
		return refuses(fmt.Sprintf("The command %s has not been found", r.Execute))
	}
}

func device(name, mac string, addresses ...netip.Prefix) Interface {
	i := Interface{Name: name, MAC: mac}
	for _, a := range addresses {
		kind := "ipv4"
		if a.Addr().Is6() {
			kind = "ipv6"
		}
		i.Addresses = append(i.Addresses, Address{Type: kind, IP: a.Addr().String(), Prefix: a.Bits()})
	}
	return i
}

func info() any {
	type command struct {
		Name            string `json:"name"`
		Enabled         bool   `json:"enabled"`
		SuccessResponse bool   `json:"success-response"`
	}
	answer := struct {
		Version  string    `json:"version"`
		Commands []command `json:"supported_commands"`
	}{Version: "7.2.0"}
	for _, name := range []string{"guest-sync", "guest-sync-delimited", "guest-ping", "guest-info", interfacesCommand} {
		answer.Commands = append(answer.Commands, command{name, true, true})
	}
	return answer
}

// returns is the answer of a command that succeeded.
func returns(value any) []byte { return line(map[string]any{"return": value}) }

// refuses is the answer of a command that failed.
func refuses(why string) []byte {
	return line(map[string]any{"error": map[string]string{"class": "GenericError", "desc": why}})
}

func line(value any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		// Nothing here holds a value that JSON has no form for.
		panic(err)
	}
	return b.Bytes()
}
