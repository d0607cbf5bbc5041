package main

import (
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

func TestCheckInterface(t *testing.T) {
	t.Parallel()
	sys := host("br0/bridge/bridge_id=x", "br0/operstate=down", "eth0/operstate=up\n", "eth1/operstate=down\n", "tun0/operstate=unknown\n",
		"eth2/operstate=up\n", "eth2/brport/port_id=x", "br0/ifindex=1")
	for _, c := range []struct {
		net  spec.Network
		want want
	}{
		{spec.Network{Bridge: "br0"}, want{"bridge br0", ok, []string{"exists", "!probed"}}},
		{spec.Network{Bridge: "br1"}, want{"bridge br1", fail, []string{"no interface of that name", "ip link"}}},
		{spec.Network{Bridge: "eth2"}, want{"bridge eth2", fail, []string{"port of a bridge", `direct = "eth2"`}}},
		{spec.Network{Bridge: "eth0"}, want{"bridge eth0", warn, []string{"no Linux bridge", `direct = "eth0"`}}},
		{spec.Network{Direct: "eth0"}, want{"direct interface eth0", ok, []string{"not probed"}}},
		{spec.Network{Direct: "tun0"}, want{"direct interface tun0", ok, nil}},
		{spec.Network{Direct: "eth1"}, want{"direct interface eth1", warn, []string{"is down", "ip link set eth1 up"}}},
		{spec.Network{Direct: "eth9"}, want{"direct interface eth9", fail, []string{"no interface of that name"}}},
	} {
		compare(t, []finding{checkInterface(c.net, sys)}, []want{c.want})
	}
}
