package virt

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
)

// caseNow is when the fixtures' answers are read.
var caseNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// answerIn reads what libvirt's binding would give.
func answerIn[T any](t *testing.T, name string) (out T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func fixedLeases(t *testing.T, of string) []lease {
	return leasesOf(answerIn[map[string][]libvirt.NetworkDHCPLease](t, "leases.json")[of])
}

// A guest agent that can not be reached, is slow or may not answer leaves the
// question open, and tells nothing of the link or of the domain.
func TestCase038_TheAgentsErrorsAreNoAnswerYet(t *testing.T) {
	t.Parallel()
	for _, code := range []libvirt.ErrorNumber{libvirt.ERR_AGENT_UNRESPONSIVE, libvirt.ERR_AGENT_UNSYNCED, libvirt.ERR_AGENT_COMMAND_TIMEOUT} {
		err := what{opClaims, "u"}.wrap(libvirt.Error{Code: code, Domain: libvirt.FROM_QEMU}, true)
		if observe.ClassOf(err) != observe.Unavailable || isNoDomain(err) {
			t.Errorf("error %d: class %s", code, observe.ClassOf(err))
		}
	}
	if libvirt.ERR_AGENT_UNRESPONSIVE != 86 {
		t.Errorf("AGENT_UNRESPONSIVE is %d", libvirt.ERR_AGENT_UNRESPONSIVE)
	}
}

func TestCase040_OnlyInterfacesWithAMACClaim(t *testing.T) {
	t.Parallel()
	all := claims(answerIn[[]libvirt.DomainInterface](t, "agent.json"), observe.FromAgent)
	got := observe.Answers(all, []string{macA})
	want := fmt.Sprint([]observe.Claim{
		{MAC: macA, Addr: netip.MustParseAddr("192.0.2.10"), Source: observe.FromAgent},
		{MAC: macA, Addr: netip.MustParseAddr("2001:db8::10"), Source: observe.FromAgent},
	})
	if diff := cmp.Diff(want, fmt.Sprint(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An entry of another MAC is no lease of the domain's, whatever its host name.
func TestCase049_LeasesAreTakenByMAC(t *testing.T) {
	t.Parallel()
	if got := latest(nil, fixedLeases(t, "case 49"), caseNow); len(got) != 0 {
		t.Errorf("a domain without a lease got %v", got)
	}
	own := leaseClaims(macA, "192.0.2.20")
	if got := latest(own, fixedLeases(t, "case 49"), caseNow); fmt.Sprint(got) != fmt.Sprint(own) {
		t.Errorf("its lease became %v", got)
	}
}

func TestCase047_TheNewestOfTwoLeases(t *testing.T) {
	t.Parallel()
	got := latest(leaseClaims(macA, "192.0.2.5", macA, "192.0.2.9"), fixedLeases(t, "case 47"), caseNow)
	if fmt.Sprint(got) != fmt.Sprint(leaseClaims(macA, "192.0.2.9")) {
		t.Errorf("got %v", got)
	}
}

func TestCase050_ALeaseThatRanOutIsNone(t *testing.T) {
	t.Parallel()
	const macC = "56:00:00:00:00:0c"
	have := leaseClaims(macA, "192.0.2.5", macB, "192.0.2.6", macC, "192.0.2.7")
	want := fmt.Sprint(leaseClaims(macB, "192.0.2.6", macC, "192.0.2.7"))
	if diff := cmp.Diff(want, fmt.Sprint(latest(have, fixedLeases(t, "case 50"), caseNow))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// libvirt reads the host's neighbour table without the state of an entry; one
// that is incomplete or failed has no MAC and claims nothing.
func TestCase051_NeighboursWithoutAMACClaimNothing(t *testing.T) {
	t.Parallel()
	var got []string
	for _, c := range claims(answerIn[[]libvirt.DomainInterface](t, "arp.json"), observe.FromARP) {
		got = append(got, c.MAC+" "+c.Addr.String())
	}
	want := []string{macA + " 192.0.2.5", macA + " 192.0.2.9", macA + " 192.0.2.9"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A guest whose agent may not tell its addresses has them from a lease.
func TestCase054_ARefusalOfTheAgentIsNoAnswer(t *testing.T) {
	t.Parallel()
	err := what{opClaims, "u"}.wrap(libvirt.Error{Code: libvirt.ERR_AGENT_COMMAND_FAILED, Domain: libvirt.FROM_QEMU}, true)
	if observe.ClassOf(err) != observe.Unavailable {
		t.Errorf("class %s", observe.ClassOf(err))
	}
}
