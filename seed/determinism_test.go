package seed

import (
	"bytes"
	"maps"
	"testing"
	"time"
)

// goldenDigest is the digest of the sample input's image without the guest
// agent. A change of the layout or of the library may change it, if that is
// meant; time, process and place do not.
const goldenDigest = "86c82299300b666da6003f55496494bcb9006bd4d824f3717bd1e13b74d739cd"

func TestSeed06_ImageIsDeterministic(t *testing.T) {
	t.Parallel()
	bare := sample()
	bare.GuestAgent = false
	if got := mustBuild(t, bare).SHA256; got != goldenDigest {
		t.Errorf("sha256 %s, want %s", got, goldenDigest)
	}
	first := mustBuild(t, sample())
	for range 20 {
		in := sample()
		in.Vars = maps.Clone(in.Vars) // another order of iteration
		if !bytes.Equal(mustBuild(t, in).Bytes, first.Bytes) {
			t.Fatal("two builds differ")
		}
	}
}

func TestSeed06_ImageIsDeterministicAcrossProcesses(t *testing.T) {
	t.Parallel()
	want := mustBuild(t, sample()).SHA256
	for _, zone := range []string{"UTC", "Asia/Tokyo", "America/St_Johns", "<+13>-13"} {
		got, err := child(t, "digest", "TZ="+zone, "TMPDIR="+t.TempDir(), "LC_ALL=C").Output()
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("TZ=%s: sha256 %q, want %s", zone, got, want)
		}
	}
}

// The dates are checked byte by byte too: two builds in one second could agree
// by chance.
func TestSeed06_DatesArePinned(t *testing.T) {
	t.Parallel()
	raw := mustBuild(t, sample()).Bytes
	pvd := raw[16*2048 : 17*2048]
	for _, at := range []int{813, 830, 864} {
		if got := string(pvd[at : at+17]); got != "2000010100000000\x00" {
			t.Errorf("volume date at %d: %q", at, got)
		}
	}
	if year := []byte(time.Now().UTC().Format("2006")); bytes.Contains(pvd, year) {
		t.Errorf("the year %s is in the volume descriptor", year)
	}
	record := []byte{100, 1, 1, 0, 0, 0, 0}
	if got := pvd[156+18 : 156+25]; !bytes.Equal(got, record) {
		t.Errorf("root record's date in the descriptor: % x", got)
	}
	dir, n := raw[18*2048:19*2048], 0
	for at := 0; dir[at] != 0; at += int(dir[at]) {
		if got := dir[at+18 : at+25]; !bytes.Equal(got, record) {
			t.Errorf("date of record %d: % x", n, got)
		}
		n++
	}
	if n != 6 {
		t.Errorf("%d records in the root directory, want 2 + 4", n)
	}
}

func TestI08_Seed12_Case020_InstanceIDIsAllThatDiffers(t *testing.T) {
	t.Parallel()
	in := sample()
	a := mustInspect(t, mustBuild(t, in)).Files
	in.InstanceID = "egress-scraper-eu-1.01JABCDEG"
	b := mustInspect(t, mustBuild(t, in)).Files
	for name := range a {
		if same := bytes.Equal(a[name], b[name]); same != (name != MetaDataFile) {
			t.Errorf("%s: same %t", name, same)
		}
	}
}
