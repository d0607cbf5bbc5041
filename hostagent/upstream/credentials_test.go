package upstream

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTokenFiles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, data string
		want       string // empty: an error
	}{
		{"plain", "hush-1~+/._=", "hush-1~+/._="},
		{"line end", "hush\n", "hush"},
		{"line end of another system", "hush\r\n", "hush"},
		{"two line ends", "hush\n\n", ""},
		{"empty", "", ""},
		{"only a line end", "\n", ""},
		{"with the scheme", "Bearer hush", ""},
		{"a second header", "hush\r\nX-Admin: 1", ""},
		{"byte order mark", "\xef\xbb\xbfhush", ""},
		{"zero byte", "hush\x00", ""},
	}
	for _, tt := range tests {
		got, err := parseToken([]byte(tt.data))
		if got.reveal() != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q, %v", tt.name, got.reveal(), err)
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: the error holds the token: %v", tt.name, err)
		}
	}
}

func TestCAFiles(t *testing.T) {
	t.Parallel()
	one, two := newAuthority(t, "one").pem(), newAuthority(t, "two").pem()
	_, key := newAuthority(t, "three").issue("x", time.Hour)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	tests := []struct {
		name string
		data []byte
		ok   bool
	}{
		{"one", one, true},
		{"two with words between", join(one, []byte("# the new one\n"), two), true},
		{"with a key", join(one, key), true},
		{"empty", nil, false},
		{"a key only", key, false},
		{"no PEM", []byte("hello"), false},
		{"second cut off", join(one, two[:len(two)/2]), false},
		{"no certificate in it", encode(pemCertificate, []byte("hello")), false},
	}
	for _, tt := range tests {
		if _, err := parseCA(tt.data); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// What can be wrong with a file has a class, a file's name and advice.
func TestUnusableFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := syscall.Mkfifo(in("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, in("large"), make([]byte, maxTokenFile+1))
	put(t, in("broken"), []byte("two words"))
	put(t, in("good"), []byte("hush"))
	tests := []struct {
		path string
		want Class
		is   error
	}{
		{in("missing"), Transient, fs.ErrNotExist},
		{in("good") + "/beneath", Transient, syscall.ENOTDIR},
		{in("pipe"), Permanent, nil},
		{dir, Permanent, nil},
		{in("large"), Permanent, nil},
		{in("broken"), Permanent, nil},
	}
	for _, tt := range tests {
		k := &keyring{files: Files{Token: tt.path}, now: time.Now}
		_, err := k.current()
		var c *CredentialError
		if !errors.As(err, &c) || c.Class != tt.want || c.Path != tt.path || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: %v", tt.path, err)
		}
	}
}

func TestUnreadableFileNamesTheUser(t *testing.T) {
	t.Parallel()
	err := advice(&fs.PathError{Op: "open", Path: "/secret", Err: syscall.EACCES})
	if !errors.Is(err, fs.ErrPermission) || strings.Count(err.Error(), "/secret") != 0 {
		t.Error(err)
	}
}

// summary is a FileState without its time and words.
type summary struct {
	Role             string
	Bad, Kept, Warns bool
}

func summaries(states []FileState) (out []summary) {
	for _, s := range states {
		out = append(out, summary{s.Role, s.Err != nil, s.Kept, s.Warning != ""})
	}
	return out
}

// Each file has a state of its own; a missing one heals when it appears, and
// what was good stays while what comes after it is not.
func TestFilesHealAndGoodOnesStay(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	cert, key := ca.issue("host-1", time.Hour)
	otherCert, otherKey := ca.issue("host-2", time.Hour)
	f := filesIn(t)
	k := &keyring{files: f, now: time.Now}
	if k.states() != nil {
		t.Error("files were read at construction")
	}
	var links, changes int
	step := func(name string, ok bool, newLink, change bool, want ...summary) {
		t.Helper()
		s, err := k.current()
		if (err == nil) != ok || (s.links != links) != newLink || (s.changes != changes) != change {
			t.Errorf("%s: %v; links %d to %d, changes %d to %d", name, err, links, s.links, changes, s.changes)
		}
		links, changes = s.links, s.changes
		if diff := cmp.Diff(want, summaries(k.states())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	good := func(role string) summary { return summary{Role: role} }
	bad := func(role string) summary { return summary{Role: role, Bad: true} }
	kept := func(role string) summary { return summary{Role: role, Bad: true, Kept: true} }

	step("nothing there", false, false, true, bad(RoleCA), bad(RoleCert), bad(RoleKey), bad(RoleToken))
	put(t, f.CA, ca.pem())
	put(t, f.Cert, cert)
	put(t, f.Token, []byte("hush-1"))
	step("no key yet", false, true, true, good(RoleCA), good(RoleCert), bad(RoleKey), good(RoleToken))
	put(t, f.Key, key)
	step("all there", true, true, true, good(RoleCA), good(RoleCert), good(RoleKey), good(RoleToken))
	step("nothing new", true, false, false, good(RoleCA), good(RoleCert), good(RoleKey), good(RoleToken))
	put(t, f.Cert, otherCert)
	step("certificate before its key", true, false, true, good(RoleCA), kept(RoleCert), kept(RoleKey), good(RoleToken))
	put(t, f.Key, otherKey)
	step("both", true, true, true, good(RoleCA), good(RoleCert), good(RoleKey), good(RoleToken))
	put(t, f.CA, ca.pem()[:100])
	put(t, f.Token, nil)
	step("half written", true, false, true, kept(RoleCA), good(RoleCert), good(RoleKey), kept(RoleToken))
	if err := os.Remove(f.Token); err != nil {
		t.Fatal(err)
	}
	put(t, f.CA, ca.pem())
	step("the same again, and one removed", true, false, true, good(RoleCA), good(RoleCert), good(RoleKey), kept(RoleToken))
	if s, _ := k.current(); s.token.reveal() != "hush-1" {
		t.Errorf("token %q in use", s.token.reveal())
	}
}

func TestWarningsAboutFiles(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	cert, key := ca.issue("host-1", -time.Hour)
	f := filesIn(t)
	for path, data := range map[string][]byte{f.CA: ca.pem(), f.Cert: cert, f.Key: key, f.Token: []byte("hush")} {
		if err := os.Chmod(put(t, path, data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k := &keyring{files: f, now: time.Now}
	_, got := k.look()
	want := []summary{{Role: RoleCA}, {Role: RoleCert, Warns: true}, {Role: RoleKey, Warns: true}, {Role: RoleToken, Warns: true}}
	if diff := cmp.Diff(want, summaries(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !got[1].NotAfter.Before(time.Now()) || got[1].NotAfter.IsZero() || !got[3].NotAfter.IsZero() {
		t.Errorf("ends on %v, %v", got[1].NotAfter, got[3].NotAfter)
	}
	if diff := cmp.Diff(summaries(got), summaries(k.states())); diff != "" {
		t.Errorf("states differs (-look +states):\n%s", diff)
	}
}
