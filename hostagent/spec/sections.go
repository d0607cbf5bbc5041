package spec

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
)

// networks reads the [[network]] tables.
func networks(t *doc.Table) []NIC {
	var out []NIC
	for _, n := range t.Tables("network", MaxNetworks) {
		if nic, ok := DecodeNetwork(n); ok {
			out = append(out, NIC{Network: nic})
			continue
		}
		if !n.Has("network") && !n.Has("bridge") {
			n.Fail("", "names nothing to connect to; give network or bridge")
		}
	}
	return out
}

// DecodeNetwork reads the keys network and bridge of a table, which may hold
// one of them. It gives ok = false when it holds none, or what it reported.
func DecodeNetwork(t *doc.Table) (n Network, ok bool) {
	network, isNetwork := doc.Text(t, "network", named(KindNetwork))
	bridge, isBridge := doc.Text(t, "bridge", named(KindBridge))
	if t.Has("network") && t.Has("bridge") {
		t.Fail("bridge", "is given beside network; give one of them")
		return Network{}, false
	}
	return Network{Network: network, Bridge: bridge}, isNetwork || isBridge
}

// decodeProbe reads the [probe] table.
func decodeProbe(t *doc.Table) Probe {
	var p Probe
	p.Type, _ = doc.Text(t, "type", probeType)
	p.URL, _ = doc.Text(t, "url", probeURL)
	status, _ := t.Int("expect_status", 100, 599)
	p.ExpectStatus = int(status)
	return p
}

func probeType(typ string) (string, error) {
	switch typ {
	case ProbeTCP, ProbeHTTP:
		return typ, nil
	case ProbeConnect, ProbeSOCKS5:
		return "", fmt.Errorf("%q is not supported yet; want %q or %q", typ, ProbeTCP, ProbeHTTP)
	}
	return "", fmt.Errorf("%q is no type of probe; want %q or %q", clip(typ), ProbeTCP, ProbeHTTP)
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
	case u.Scheme != "http":
		return "", fmt.Errorf("has the scheme %q; only http can be probed: %s", clip(u.Scheme), allowed)
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

// checkProbe checks how a probe's keys fit together.
func checkProbe(t *doc.Table, p Probe) {
	if p.Type == ProbeHTTP {
		if !t.Has("url") {
			t.Fail("url", "is missing; a probe of type %q needs the URL to ask for through the proxy", ProbeHTTP)
		}
		return
	}
	for _, key := range []string{"url", "expect_status"} {
		if t.Has(key) && p.Type == ProbeTCP {
			t.Fail(key, "means nothing to a probe of type %q; give type = %q with it", ProbeTCP, ProbeHTTP)
		}
	}
}

var labelForm = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// labels reads the [labels] table. Label names are those of Prometheus
// (https://prometheus.io/docs/concepts/data_model/), where names that begin
// with two underscores are reserved.
func labels(t *doc.Table) map[string]string {
	keys := t.Keys()
	if len(keys) > MaxLabels {
		t.Fail("", "has %d labels; at most %d are allowed", len(keys), MaxLabels)
	}
	var out map[string]string
	for _, key := range keys {
		value, ok := doc.Text(t, key, labelValue)
		if len(key) > MaxLabelName || !labelForm.MatchString(key) || strings.HasPrefix(key, "__") {
			t.Fail(key, "is no label name; want letters, digits and \"_\", no digit first, not \"__\" first, at most %d bytes", MaxLabelName)
			ok = false
		}
		if ok && out == nil {
			out = make(map[string]string, len(keys))
		}
		if ok {
			out[key] = value
		}
	}
	return out
}

func labelValue(value string) (string, error) {
	switch {
	case len(value) > MaxLabelValue:
		return "", fmt.Errorf("is %d bytes long; at most %d are allowed", len(value), MaxLabelValue)
	case strings.ContainsFunc(value, isControl):
		return "", fmt.Errorf("has control characters; want text of one line")
	}
	return value, nil
}
