package manifest

import (
	"fmt"
	"math"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// Decode reads a document. It is strict: a key that is unknown, given twice or
// in another case, a null, anything after the object, another host's name, and
// one proxy that a spec file could not ask for, refuse the whole. The error is a
// *Fault that names the places.
func Decode(data []byte, rules Rules) (Manifest, error) {
	d, err := doc.ParseJSON(rules.Name, data, MaxBody)
	if err != nil {
		return Manifest{}, malformed(data, err)
	}
	root := d.Root()
	if fault := addressed(root, rules); fault != nil {
		return Manifest{}, fault
	}
	m := header(root)
	m.Digest = digestOf(data)
	empty := root.Empty("proxies")
	var tables []*doc.Table
	if !empty {
		var fault *Fault
		if m.Specs, tables, fault = proxies(root, rules); fault != nil {
			return Manifest{}, fault
		}
	}
	if err := d.Err(); err != nil {
		return Manifest{}, problems(Invalid, err)
	}
	if empty && !m.AllowEmpty {
		return Manifest{}, faultf(EmptyRefused, `%s: proxies: is empty; if all proxies of this host are to go, add "allow_empty": true`, rules.Name)
	}
	rules.refuse(root, tables, m.Specs)
	if err := d.Err(); err != nil {
		return Manifest{}, problems(PolicyRefused, err)
	}
	return m, nil
}

// malformed adds the first bytes when they can not be of a manifest.
func malformed(data []byte, err error) *Fault {
	f := problems(Malformed, err)
	if start := beginning(data); start != "" {
		f.Text += "; the content begins with " + start
	}
	return f
}

// addressed tells whether the document is one of the form that is read, and
// for this host. If not, what else is wrong with it is of no interest.
func addressed(root *doc.Table, rules Rules) *Fault {
	required(root, "version", "host", "revision", "issued_at", "proxies")
	if v, ok := root.Int("version", math.MinInt64, math.MaxInt64); ok && v != Version {
		return faultf(UnknownForm, "%s: version: %d is not known; this agent reads version %d", rules.Name, v, Version)
	}
	if host, ok := root.String("host"); ok && host != rules.Host {
		return faultf(WrongHost, "%s: host: the manifest is for host %q, and this is %q; see manifest.url and the [host] name of the config",
			rules.Name, clip(host, 64), rules.Host)
	}
	return nil
}

func required(t *doc.Table, keys ...string) {
	for _, key := range keys {
		if !t.Has(key) {
			t.Fail(key, "is missing")
		}
	}
}

// header reads what is not about a proxy.
func header(root *doc.Table) (m Manifest) {
	m.Host, _ = root.String("host")
	m.Revision, _ = root.Int("revision", 1, math.MaxInt64)
	m.IssuedAt, _ = doc.Text(root, "issued_at", moment)
	m.ExpiresAt, _ = doc.Text(root, "expires_at", moment)
	if !m.ExpiresAt.IsZero() && !m.ExpiresAt.After(m.IssuedAt) {
		root.Fail("expires_at", "is not after issued_at")
	}
	m.AllowEmpty, _ = root.Bool("allow_empty")
	return m
}

// moment reads a time of RFC 3339.
func moment(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.IsZero() {
		return time.Time{}, fmt.Errorf("%q is no time; want one such as \"2026-01-31T12:00:00Z\"", clip(text, 64))
	}
	return t, nil
}

// proxies reads the specs, and gives for each the table it was read from.
func proxies(root *doc.Table, rules Rules) ([]spec.Spec, []*doc.Table, *Fault) {
	templates := spec.DecodeTemplates(root.Table("templates"))
	tables := root.Tables("proxies", MaxProxies)
	var specs []spec.Spec
	first := map[string]int{}
	expanded := 0
	for i, t := range tables {
		required(t, "name")
		name, ok := t.String("name")
		if !ok {
			name = "unnamed" // for the rest of it to be checked
		} else if at, twice := first[name]; twice {
			t.Fail("name", "the proxy %q is listed twice, first as number %d of the list", clip(name, spec.MaxName), at+1)
		} else {
			first[name] = i
		}
		s := spec.DecodeTable(name, t, rules.Catalog, templates)
		if expanded += len(s.UserData); expanded > MaxExpanded { // a template is small where it is written only
			return nil, nil, faultf(Invalid, "%s: proxies: have more than %d bytes of user-data together", rules.Name, MaxExpanded)
		}
		specs = append(specs, s)
	}
	return specs, tables, nil
}

// refuse reports what the host's owner does not allow. A manifest can not
// widen that.
func (r Rules) refuse(root *doc.Table, tables []*doc.Table, specs []spec.Spec) {
	for i, s := range specs {
		for _, refusal := range spec.CheckRemote(s, r.Remote) {
			tables[i].FailAt(refusal.Key, refusal.Message)
		}
	}
	for _, refusal := range spec.CheckRemoteAll(specs, r.Remote) {
		root.Fail("proxies", "%s", refusal.Message)
	}
}
