package spec

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
)

var probeTypes = []string{ProbeTCP, ProbeHTTP, ProbeConnect, ProbeSOCKS5}

// probeKeys are the keys of [probe] besides type, each with the types that it
// means something to.
var probeKeys = []struct {
	key   string
	types []string
}{
	{"url", []string{ProbeHTTP, ProbeConnect, ProbeSOCKS5}},
	{"target", []string{ProbeConnect, ProbeSOCKS5}},
	{"expect_status", []string{ProbeHTTP, ProbeConnect, ProbeSOCKS5}},
	{"credentials", []string{ProbeHTTP, ProbeConnect, ProbeSOCKS5}},
}

// decodeProbe reads the [probe] table. Credentials is the key given, which is
// to be resolved.
func decodeProbe(t *doc.Table) Probe {
	var p Probe
	p.Type, _ = doc.Text(t, "type", probeType)
	p.URL, _ = doc.Text(t, "url", probeURL)
	p.Target, _ = doc.Text(t, "target", probeTarget)
	status, _ := t.Int("expect_status", 100, 599)
	p.ExpectStatus = int(status)
	p.Credentials, _ = doc.Text(t, "credentials", named(KindCredentials))
	return p
}

func probeType(typ string) (string, error) {
	if !slices.Contains(probeTypes, typ) {
		return "", fmt.Errorf("%q is no type of probe; want %s", clip(typ), quoted(probeTypes))
	}
	return typ, nil
}

// quoted gives words as a list: "a", "b" or "c".
func quoted(words []string) string {
	out := ""
	for i, w := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			out += " or "
		default:
			out += ", "
		}
		out += strconv.Quote(w)
	}
	return out
}

// probeURL checks what is asked for through the proxy. Its problems do not
// quote the URL, which may hold a secret.
func probeURL(text string) (string, error) {
	const allowed = `want one such as "http://connectivity.example/generate_204"`
	u, err := url.Parse(text)
	switch {
	case len(text) > MaxURL:
		return "", fmt.Errorf("is %d bytes long; at most %d are allowed", len(text), MaxURL)
	case err != nil || strings.ContainsFunc(text, isControl) || strings.Contains(text, " "):
		return "", fmt.Errorf("is no URL; %s", allowed)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("has the scheme %q; want http or https: %s", clip(u.Scheme), allowed)
	case u.Hostname() == "":
		return "", fmt.Errorf("names no host; %s", allowed)
	case !portOK(u.Port()):
		return "", fmt.Errorf("has a port that is none; %s", allowed)
	case u.User != nil:
		return "", fmt.Errorf("holds a user name or password; %s", allowed)
	}
	return text, nil
}

func portOK(port string) bool {
	n, err := strconv.Atoi(port)
	return port == "" || err == nil && n >= 1 && n <= 65535
}

// hostNameForm is what a resolver can be asked for. Underscores are no part of
// host names and are found in them all the same.
var hostNameForm = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*\.?[A-Za-z0-9_-]+)*\.?$`)

// probeTarget checks what the proxy is asked to connect to.
func probeTarget(text string) (string, error) {
	const allowed = `want HOST:PORT, such as "connectivity.example:443" or "[2001:db8::1]:443"`
	at := strings.LastIndexByte(text, ':')
	if at < 0 || len(text) > MaxTarget {
		return "", fmt.Errorf("%q is no target; %s", clip(text), allowed)
	}
	host, port := text[:at], text[at+1:]
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", fmt.Errorf("%q has a port that is none; %s", clip(text), allowed)
	}
	inner, bracketed := strings.CutPrefix(host, "[")
	if bracketed {
		a, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		if err != nil || !a.Is6() || a.Zone() != "" || !strings.HasSuffix(inner, "]") {
			return "", fmt.Errorf("%q has no IPv6 address in its brackets; %s", clip(text), allowed)
		}
		return text, nil
	}
	if strings.Contains(host, ":") {
		return "", fmt.Errorf("%q has an IPv6 address without brackets; %s", clip(text), allowed)
	}
	_, err := netip.ParseAddr(host)
	if !hostNameForm.MatchString(host) || err != nil && addressForm.MatchString(host) {
		return "", fmt.Errorf("%q names no host; %s", clip(text), allowed)
	}
	return text, nil
}

// plainHost tells whether a URL's host can stand in a request for a tunnel.
func plainHost(text string) bool {
	u, err := url.Parse(text)
	return err == nil && !strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r >= 0x7f || r <= ' ' || r == '%' })
}

// checkProbe checks how a probe's keys fit together. A probe of no type had its
// type refused.
func checkProbe(t *doc.Table, p Probe) {
	if p.Type == "" {
		return
	}
	for _, k := range probeKeys {
		if t.Has(k.key) && !slices.Contains(k.types, p.Type) {
			t.Fail(k.key, "means nothing to a probe of type %q; give type = %s with it", p.Type, quoted(k.types))
		}
	}
	tunnel := p.Type == ProbeConnect || p.Type == ProbeSOCKS5
	switch {
	case p.Type == ProbeHTTP && !t.Has("url"):
		t.Fail("url", "is missing; a probe of type %q needs the URL to ask for through the proxy", p.Type)
	case p.Type == ProbeHTTP && strings.HasPrefix(strings.ToLower(p.URL), "https:"):
		t.Fail("url", "is an https URL, for which a proxy makes a tunnel; give type = %q with it, or an http URL", ProbeConnect)
	case tunnel && !t.Has("url") && !t.Has("target"):
		t.Fail("", "has neither url nor target; a probe of type %q needs one: what to ask for, or HOST:PORT to connect to, through the proxy", p.Type)
	case tunnel && !plainHost(p.URL):
		t.Fail("url", "has a host that a proxy can not be asked to connect to; want a plain ASCII name (an international one as xn--…) or an address without a zone")
	case tunnel && t.Has("url") && t.Has("target"):
		t.Fail("target", "is given beside url; give one of them")
	case tunnel && !t.Has("url") && t.Has("expect_status"):
		t.Fail("expect_status", "means nothing without url: only the connection to the target is asked for")
	}
}
