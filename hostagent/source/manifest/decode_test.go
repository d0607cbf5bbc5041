package manifest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// head opens a document up to its proxies.
const head = `{"version": 1, "host": "h1", "revision": 7, "issued_at": "2026-01-31T12:00:00Z"`

func TestDecode(t *testing.T) {
	t.Parallel()
	const body = head + `, "expires_at": "2026-02-28T12:00:00+01:00", "templates": {"squid": {"user_data": "#cloud-config\n"}},
 "proxies": [{"name": "b", "user_data_template": "squid", "port": 8080}, {"name": "a", "user_data_base64": "IyEvYmluL3NoCg=="}]}`
	m, err := Decode([]byte(body), rules())
	if err != nil {
		t.Fatal(err)
	}
	if m.Host != "h1" || m.Revision != 7 || m.Digest != digestOf([]byte(body)) || m.AllowEmpty ||
		!m.IssuedAt.Equal(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)) || !m.ExpiresAt.Equal(time.Date(2026, 2, 28, 11, 0, 0, 0, time.UTC)) {
		t.Errorf("%+v", m)
	}
	if len(m.Specs) != 2 {
		t.Fatalf("%d specs", len(m.Specs))
	}
	b, a := m.Specs[0], m.Specs[1]
	if b.Name != "b" || b.Port != 8080 || string(b.UserData) != "#cloud-config\n" || a.Name != "a" || string(a.UserData) != "#!/bin/sh\n" {
		t.Errorf("%+v, %+v", b, a)
	}
	same, err := spec.DecodeTOML("b", "b.toml", []byte("port = 8080\nuser_data = \"#cloud-config\\n\"\n"), rules().Catalog, nil)
	if err != nil || same.Hash() != b.Hash() || same.Own != b.Own {
		t.Errorf("a spec file that says the same has another hash or digest: %v", err)
	}
	if m, err := Decode([]byte(text(1)), rules()); err != nil || len(m.Specs) != 0 || !m.AllowEmpty {
		t.Errorf("empty by word: %+v, %v", m, err)
	}
}

// wantFault compares an error with a reason and a text, which may end in "…"
// where the rest does not matter.
func wantFault(t *testing.T, what string, err error, reason Reason, text string) {
	t.Helper()
	f, ok := errors.AsType[*Fault](err)
	if !ok || f.Reason != reason {
		t.Errorf("%s: %v; want reason %s", what, err, reason)
		return
	}
	got := f.Text
	if head, open := strings.CutSuffix(text, "…"); open && strings.HasPrefix(got, head) {
		return
	}
	if diff := cmp.Diff(text, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestDecodeFaults(t *testing.T) {
	t.Parallel()
	const u = testURL
	one := `, "proxies": [{"name": "a"}]}`
	for _, tt := range []struct {
		body   string
		reason Reason
		want   string
	}{
		{head + one[:len(one)-1], Malformed, u + ":1:107: not JSON: unexpected end of JSON input"},
		{head + one + ` {}`, Malformed, u + ":1:110: not JSON: invalid character '{' after top-level value"},
		{head + `, "host": "h1"` + one, Malformed, u + ":1:82: host: is given twice in one object, first in line 1"},
		{`[` + head + one + `]`, Malformed, u + ":1:1: is not a JSON object: { … }"},
		{head + `, "Proxies": []` + one, Invalid, u + `:1:82: Proxies: unknown key; did you mean "proxies"?`},
		{head + `, "comment": "x"` + one, Invalid, u + `:1:82: comment: unknown key; allowed: allow_empty, expires_at, host, issued_at, proxies, revision, templates, version`},
		{`{"version": 1, "host": "h1"}`, Invalid, u + ":1:1: revision: is missing; " + u + ":1:1: issued_at: is missing; " + u + ":1:1: proxies: is missing"},
		{head + `, "proxies": null}`, Invalid, u + ":1:82: proxies: is null; want an array of tables: [[proxies]]"},
		{head + `, "proxies": [null]}`, Invalid, u + ":1:94: proxies[0]: is null; want a table"},
		{head + `, "proxies": [{}]}`, Invalid, u + ":1:94: proxies[0].name: is missing"},
		{head + `, "proxies": [{"name": "../x"}]}`, Invalid, u + `:1:94: proxies[0]: proxy name "../x": a name becomes a file name…`},
		{head + `, "proxies": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}`, Invalid, u + `:1:125: proxies[2].name: the proxy "a" is listed twice, first as number 1 of the list`},
		{head + `, "proxies": [{"name": "a", "image": "debian-12"}]}`, Invalid, u + `:1:108: proxies[0].image: there is no image "debian-12"; did you mean "debian-13"? known: debian-13`},
		{head + `, "proxies": [{"name": "a", "user_data_file": "/etc/shadow"}]}`, Invalid, u + `:1:108: proxies[0].user_data_file: unknown key; no file of the host can be named here; give user_data or user_data_base64`},
		{head + `, "proxies": [{"name": "a", "user_data_template": "x"}]}`, Invalid, u + `:1:108: proxies[0].user_data_template: there is no template "x"; the document has none: add it to templates`},
		{head + `, "allow_empty": "yes"` + one, Invalid, u + ":1:82: allow_empty: is a string; want true or false"},
		{head + `, "expires_at": "2026-01-31T12:00:00Z"` + one, Invalid, u + ":1:82: expires_at: is not after issued_at"},
		{head + `, "expires_at": "tomorrow"` + one, Invalid, u + `:1:82: expires_at: "tomorrow" is no time; want one such as "2026-01-31T12:00:00Z"`},
		{strings.Replace(head, "7", "7.0", 1) + one, Invalid, u + ":1:30: revision: is the number 7.0; want an integer from 1 to 9223372036854775807"},
		{strings.Replace(head, "7", "0", 1) + one, Invalid, u + ":1:30: revision: 0 is out of bounds; want an integer from 1 to 9223372036854775807"},
		{strings.Replace(head, "7", "9223372036854775808", 1) + one, Invalid, u + ":1:30: revision: is the number 9223372036854775808; want an integer from 1 to 9223372036854775807"},
		{strings.Replace(head, "1", "2", 1) + `, "new": 1}`, UnknownForm, u + ": version: 2 is not known; this agent reads version 1"},
		{strings.Replace(head, "h1", "h2", 1) + `, "x": 1}`, WrongHost, u + `: host: the manifest is for host "h2", and this is "h1"; see manifest.url and the [host] name of the config`},
		{strings.Replace(head, "h1", "H1", 1) + one, WrongHost, u + `: host: the manifest is for host "H1"…`},
		{head + `, "proxies": []}`, EmptyRefused, u + `: proxies: is empty; if all proxies of this host are to go, add "allow_empty": true`},
		{head + `, "allow_empty": false, "proxies": []}`, EmptyRefused, u + `: proxies: is empty…`},
	} {
		_, err := Decode([]byte(tt.body), rules())
		wantFault(t, tt.body, err, tt.reason, tt.want)
	}
}

// What the host's owner does not allow refuses the whole, at its place.
func TestDecodePolicy(t *testing.T) {
	t.Parallel()
	r := rules()
	r.Remote.MaxProxies = 2
	const policy = "; [manifest.policy] of the host's config decides"
	_, err := Decode([]byte(head+`, "proxies": [{"name": "a"}, {"name": "b", "skip_cleanup": true}, {"name": "c", "network": [{"bridge": "br9"}]}]}`), r)
	wantFault(t, "policy", err, PolicyRefused, testURL+":1:82: proxies: the manifest has 3 proxies; at most 2 are allowed"+policy+"; "+
		testURL+":1:123: proxies[1].skip_cleanup: true is not allowed from a manifest; give false"+policy+"; "+
		testURL+":1:173: proxies[2].network[0].bridge: \"br9\" is not allowed…")
	if _, err := Decode([]byte(text(1, "a", "b")), r); err != nil {
		t.Error(err)
	}
	r.Remote = spec.Remote{}
	_, err = Decode([]byte(text(1, "a")), r)
	wantFault(t, "the zero policy", err, PolicyRefused, testURL+":1:82: proxies: the manifest has 1 proxies; at most 0 are allowed…")
}

func TestI15_DocumentsAreBounded(t *testing.T) {
	t.Parallel()
	many := make([]string, MaxProxies+1)
	for i := range many {
		many[i] = fmt.Sprintf(`{"name": "p%d"}`, i)
	}
	list := func(n int) string { return head + `, "proxies": [` + strings.Join(many[:n], ",") + `]}` }
	if m, err := Decode([]byte(list(MaxProxies)), rules()); err != nil || len(m.Specs) != MaxProxies {
		t.Errorf("the most proxies: %d, %v", len(m.Specs), err)
	}
	_, err := Decode([]byte(list(MaxProxies+1)), rules())
	wantFault(t, "too many", err, Invalid, testURL+":1:82: proxies: has 1001 elements; at most 1000 are allowed")
	_, err = Decode(make([]byte, MaxBody+1), rules())
	wantFault(t, "too long", err, Malformed, testURL+":1:1: 16777217 bytes long; at most 16777216 are read…")
	var users []string
	for i := range 300 {
		users = append(users, fmt.Sprintf(`{"name": "p%d", "user_data_template": "t"}`, i))
	}
	bomb := head + `, "templates": {"t": {"user_data": "#` + strings.Repeat("x", 1<<20) + `"}}, "proxies": [` + strings.Join(users, ",") + `]}`
	_, err = Decode([]byte(bomb), rules())
	wantFault(t, "bomb", err, Invalid, testURL+": proxies: have more than 268435456 bytes of user-data together")
	bad := `, "proxies": [{` + strings.Repeat(`"`+strings.Repeat("k", 300)+`": 1, `, 1) + `"name": "a"}`
	for i := range 60 {
		bad += fmt.Sprintf(`, {"name": "a%d", "%s": 1}`, i, strings.Repeat("k", 300))
	}
	_, err = Decode([]byte(head+bad+`]}`), rules())
	if f, ok := errors.AsType[*Fault](err); !ok || len(f.Text) > maxFault+len("…") {
		t.Errorf("a fault of %d bytes", len(f.Text))
	}
}

func TestCheckType(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ contentType, body, want string }{
		{"application/json", "<html>", ""},
		{"Application/JSON; charset=utf-8", "{}", ""},
		{"application/vnd.dsse+json", "{}", ""},
		{"", "{}", `the answer has no content type; want application/json: see whether something else answers in the server's place`},
		{"text/plain", `{"templates": "` + canary, `the answer has the content type "text/plain"; want application/json: see whether something else answers in the server's place`},
		{"text/html", "\ufeff <!DOCTYPE html><title>Gr\u00fc\u00df \x1b[31mGott</title>" + strings.Repeat("x", 100),
			`the answer has the content type "text/html" and begins with "<!DOCTYPE html><title>Gr\u00fc\u00df \x1b[31mGott</title>xxxxxxxxxxxxxxxxxx"; want application/json: see whether something else answers in the server's place`},
		{"text/" + strings.Repeat("\x1b", 100), "", `the answer has the content type "text/` + strings.Repeat(`\x1b`, 59) + `\u2026"; want…`},
		{"application/jsonp", "", `the answer has the content type "application/jsonp"; want…`},
	} {
		err := checkType("m", tt.contentType, []byte(tt.body))
		if tt.want == "" && err == nil {
			continue
		}
		wantFault(t, tt.contentType, err, WrongType, "m: "+tt.want)
	}
}

func TestRatchet(t *testing.T) {
	t.Parallel()
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	r := Ratchet{}.With("k1", Mark{5, a})
	r.With("k1", Mark{9, b}) // a value of its own
	for _, tt := range []struct {
		ratchet Ratchet
		key     string
		mark    Mark
		reason  Reason
		want    string
	}{
		{nil, "", Mark{1, a}, "", ""},
		{nil, "k1", Mark{1, a}, "", ""},
		{r, "k1", Mark{5, a}, "", ""},
		{r, "k1", Mark{6, b}, "", ""},
		{r, "k2", Mark{1, b}, "", ""}, // keys count for themselves
		{r, "k1", Mark{4, a}, Rollback, "m: revision: 4 is lower than 5, which was taken before; publish a higher one, or, if the publisher has lost count: egress-hostagent manifest reset"},
		{r, "k1", Mark{5, b}, Equivocation, "m: revision: 5 was taken before with another content (aaaaaaaaaaaa…, now bbbbbbbbbbbb…); publish each change with a higher revision"},
		{r, "", Mark{9, b}, Unsigned, "m: has no signature, and a signed one was taken before; if that is meant: egress-hostagent manifest reset"},
		{Ratchet{"": {5, a}}, "", Mark{5, a}, "", ""},
		{Ratchet{"": {5, a}}, "k1", Mark{1, a}, "", ""},
	} {
		err := tt.ratchet.Check("m", tt.key, tt.mark)
		if tt.reason == "" && err == nil {
			continue
		}
		wantFault(t, fmt.Sprint(tt.key, tt.mark.Revision), err, tt.reason, tt.want)
	}
}

// FuzzManifest: no document panics; a fault has a reason and a bounded text;
// what is taken is for this host, lists each name once, and is decoded again to
// the same.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(text(3, "a", "b")))
	f.Add([]byte(text(1)))
	f.Add([]byte(head + `, "templates": {"t": {"user_data": "#"}}, "proxies": [{"name": "a", "user_data_template": "t"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(data, rules())
		if err != nil {
			if f, ok := errors.AsType[*Fault](err); !ok || f.Reason == "" || f.Text == "" || len(f.Text) > maxFault+maxBeginning*10 {
				t.Fatalf("%#v", err)
			}
			return
		}
		again, err := Decode(data, rules())
		if err != nil || again.Digest != m.Digest || m.Host != "h1" || m.Revision < 1 || len(again.Specs) != len(m.Specs) || len(m.Specs) == 0 && !m.AllowEmpty {
			t.Fatalf("%+v, %v", m, err)
		}
		seen := map[string]bool{}
		for i, s := range m.Specs {
			if seen[s.Name] || spec.CheckName(spec.KindProxy, s.Name) != nil || again.Specs[i].Hash() != s.Hash() {
				t.Fatalf("spec %d, %q", i, s.Name)
			}
			seen[s.Name] = true
		}
	})
}
