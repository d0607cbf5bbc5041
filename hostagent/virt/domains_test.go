package virt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"libvirt.org/go/libvirt"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/virttest"
)

const small = `<domain type='test'><name>%s</name><uuid>%s</uuid><memory>1024</memory><os><type>hvm</type></os></domain>`

func TestForeignDomainsAreListed(t *testing.T) {
	t.Parallel()
	f := open(t)
	all, err := f.ListDomains(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]observe.Power{}
	for _, d := range all {
		got[d.Name] = d.Power
	}
	for _, want := range virttest.ForeignDomains() {
		if got[want.Name] != want.Power {
			t.Errorf("%s: power %q, want %q", want.Name, got[want.Name], want.Power)
		}
	}
}

// Domains come and go while lists are made: no list fails, none lacks a domain
// that was there all the time.
func TestI01_AListIsNeverShort(t *testing.T) {
	t.Parallel()
	f := open(t)
	ctx, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	for n := range 3 {
		busy.Go(func() {
			uuid := fmt.Sprintf("a0000000-0000-4000-8000-%012d", n)
			xml := fmt.Sprintf(small, fmt.Sprint("busy-", n), uuid)
			for ctx.Err() == nil {
				err := errors.Join(
					f.Define(t.Context(), xml, false), f.Start(t.Context(), uuid),
					f.Undefine(t.Context(), uuid), f.Destroy(t.Context(), uuid))
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 200 {
		all, err := f.ListDomains(t.Context())
		if err != nil {
			t.Errorf("list: %v", err)
			break
		}
		seen := map[string]bool{}
		for _, d := range all {
			seen[d.UUID] = true
		}
		for _, want := range virttest.ForeignDomains() {
			if !seen[want.UUID] {
				t.Fatalf("%s is not in the list", want.Name)
			}
		}
	}
	stop()
	busy.Wait()
}

func TestUndefineTakesSnapshotsAlongAndLearnsItsFlags(t *testing.T) {
	t.Parallel()
	f := open(t)
	uuid := virttest.ForeignDomains()[2].UUID
	d, err := f.raw().LookupDomainByUUIDString(uuid)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := d.CreateSnapshotXML("<domainsnapshot/>", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(snapshot.Free(), d.Free()); err != nil {
		t.Fatal(err)
	}
	if err := f.Undefine(t.Context(), uuid); err != nil {
		t.Errorf("undefine: %v", err)
	}
	if _, err := f.LookupDomain(t.Context(), uuid); !errors.Is(err, observe.ErrNoDomain) {
		t.Errorf("after undefine: %v", err)
	}
	// The test driver knows neither NVRAM nor checkpoints.
	if got := f.session.Load().lanes[reads].now.Load().link.undefine.Load(); got != uint32(undefineAlways) {
		t.Errorf("flags learnt: %#x, want %#x", got, undefineAlways)
	}
}

func TestUndefineNeverDropsSavedStateFlags(t *testing.T) {
	t.Parallel()
	for _, flags := range undefineTries {
		if flags&undefineAlways != undefineAlways {
			t.Errorf("try with flags %#x", flags)
		}
	}
	if undefineAlways&libvirt.DOMAIN_UNDEFINE_MANAGED_SAVE == 0 || undefineAlways&libvirt.DOMAIN_UNDEFINE_SNAPSHOTS_METADATA == 0 {
		t.Errorf("always: %#x", undefineAlways)
	}
}

func TestErrorsNameTheDomain(t *testing.T) {
	t.Parallel()
	f := open(t)
	var e *observe.Error
	err := f.Define(t.Context(), fmt.Sprintf(small, "foreign-off", "a0000000-0000-4000-8000-000000000001"), false)
	if !errors.As(err, &e) || e.Object != "foreign-off" || e.Class != observe.Clash {
		t.Errorf("clash: %#v", err)
	}
	err = f.Start(t.Context(), "no UUID")
	if !errors.As(err, &e) || e.Object != "no UUID" || errors.Is(err, observe.ErrNoDomain) {
		t.Errorf("malformed UUID: %v", err)
	}
}

// Between two lists a domain may become transient or persistent, start or stop.
func TestAListedDomainThatChangedIsReadAgain(t *testing.T) {
	t.Parallel()
	f := open(t)
	uuid := "a0000000-0000-4000-8000-000000000001"
	if err := f.CreateTransient(t.Context(), fmt.Sprintf(small, "passing", uuid)); err != nil {
		t.Fatal(err)
	}
	foreign := virttest.ForeignDomains()
	for _, test := range []struct {
		name, uuid string
		listed     traits
		want       observe.RawDomain
	}{
		{"was persistent", uuid, traits{},
			observe.RawDomain{Name: "passing", Power: observe.PowerRunning}},
		{"transient has no autostart", uuid, traits{transient: map[string]bool{uuid: true}},
			observe.RawDomain{Name: "passing", Power: observe.PowerRunning}},
		{"was transient, now off", foreign[2].UUID, traits{transient: map[string]bool{foreign[2].UUID: true}, noAutostart: map[string]bool{foreign[2].UUID: true}},
			observe.RawDomain{Name: foreign[2].Name, Power: observe.PowerOff, Persistent: true}},
		{"was paused, runs again", foreign[0].UUID, traits{unusual: map[string]bool{foreign[0].UUID: true}, noAutostart: map[string]bool{foreign[0].UUID: true}},
			observe.RawDomain{Name: foreign[0].Name, Power: observe.PowerRunning, Persistent: true}},
	} {
		d, err := f.raw().LookupDomainByUUIDString(test.uuid)
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.readListed(d, test.listed)
		test.want.UUID = test.uuid
		if err != nil || got != test.want {
			t.Errorf("%s: got %+v, %v; want %+v", test.name, got, err, test.want)
		}
		if err := d.Free(); err != nil {
			t.Error(err)
		}
	}
}

// What libvirt would silently ignore is an error when the document is validated.
func TestDefineValidates(t *testing.T) {
	t.Parallel()
	f := open(t)
	text := strings.Replace(fmt.Sprintf(small, "v", "a0000000-0000-4000-8000-0000000000ff"), "<memory", "<memroy/><memory", 1)
	err := f.Define(t.Context(), text, true)
	if observe.ClassOf(err) != observe.Permanent {
		t.Errorf("with validation: %v, class %s", err, observe.ClassOf(err))
	}
	if err := f.Define(t.Context(), text, false); err != nil {
		t.Errorf("without: %v", err)
	}
}
