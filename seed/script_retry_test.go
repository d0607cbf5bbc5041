package seed

import (
	"slices"
	"strings"
	"testing"
)

// tries returns the calls of n tries with apt-get, ten seconds apart.
func tries(n int) []string {
	calls := installCalls["apt-get"]
	for range n - 1 {
		calls = slices.Concat(calls, []string{"sleep 10"}, installCalls["apt-get"])
	}
	return calls
}

func TestSeed26_Case055_ScriptRetries(t *testing.T) {
	inShells(t, func(t *testing.T, shell []string) {
		for _, test := range []struct {
			name, apt string
			want      []string
		}{
			{"lists locked for 20 s", aptLocked, slices.Concat(tries(3), systemdCalls)},
			{"never works", fails, tries(5)},
			{"exit code says no, the agent is there", installBody + "; exit 100", slices.Concat(tries(1), systemdCalls)},
			{"exit code says yes, it is not there", "", tries(5)},
			{"a try may begin after 300 s at most", `[ "$1" ] && set -- 140; ` + sleeps, tries(2)},
		} {
			t.Run(test.name, func(t *testing.T) {
				g := newGuest(t)
				g.systemd()
				g.stub("apt-get", test.apt)
				calls, output := g.run(shell)
				diffCalls(t, test.want, calls, output)
			})
		}
	})
}

const (
	routeHead  = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	onLink     = "eth0\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
	reject     = "*\t00000000\t00000000\t0200\t0\t0\t0\t00000000\t0\t0\t0\n"
	halfOfAll  = "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n"
	zero       = "00000000000000000000000000000000"
	ip6Reject  = zero + " 00 " + zero + " 00 " + zero + " ffffffff 00000001 00000000 00200200       lo\n"
	ip6Default = zero + " 00 " + zero + " 00 fe800000000000000000000000000001 00000400 00000001 00000000 00450003     eth0\n"
	ip6Local   = "fe800000000000000000000000000000 40 " + zero + " 00 " + zero + " 00000100 00000001 00000000 00000001     eth0\n"
)

func TestSeed26_ScriptTriesOnceWithoutADefaultRoute(t *testing.T) {
	inShells(t, func(t *testing.T, shell []string) {
		for _, test := range []struct {
			name, ip4, ip6 string
			want           int
		}{
			{"none", routeHead + onLink, ip6Local + ip6Reject, 1},
			{"IPv4", routeHead + onLink + "eth0\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n", "", 5},
			{"IPv6 only", routeHead, ip6Reject + ip6Local + ip6Default, 5},
			{"no IPv6 in the kernel", routeHead + onLink, "-", 1},
			{"only a reject route", routeHead + reject, ip6Reject, 1},
			{"half of all addresses", routeHead + halfOfAll, "", 1},
			{"kernel does not tell", "-", "-", 5},
		} {
			t.Run(test.name, func(t *testing.T) {
				g := newGuest(t)
				g.stub("apt-get", fails)
				for path, text := range map[string]string{"proc/net/route": test.ip4, "proc/net/ipv6_route": test.ip6} {
					g.write(path, text)
					if text == "-" {
						g.remove(path)
					}
				}
				calls, output := g.run(shell)
				diffCalls(t, tries(test.want), calls, output)
				if said := strings.Contains(output, "no default route"); said != (test.want == 1) {
					t.Errorf("output:\n%s", output)
				}
			})
		}
	})
}

// A route that comes up during the first try is seen before the second.
func TestSeed26_ScriptGoesOnWhenARouteAppears(t *testing.T) {
	inShells(t, func(t *testing.T, shell []string) {
		g := newGuest(t)
		g.systemd()
		up := g.read("proc/net/route")
		g.write("proc/net/route", routeHead)
		g.write("up", up)
		g.stub("apt-get", `if [ -e "$root/tried" ]; then `+installBody+`; fi; case " $* " in *" install "*) : >"$root/tried"; /bin/cp "$root/up" "$root/proc/net/route";; esac`)
		calls, output := g.run(shell)
		diffCalls(t, slices.Concat(tries(2), systemdCalls), calls, output)
	})
}
