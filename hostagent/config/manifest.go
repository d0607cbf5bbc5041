package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// hostMark is what of [manifest] url stands for the host's name.
const hostMark = "{host}"

// Manifest is the document with this host's proxies that is pulled, besides the
// watched directory.
type Manifest struct {
	URL      string        // with "{host}" for the host's name; empty: nothing is pulled
	Interval time.Duration // between two fetches
	// Wait is how long a server that can is asked to hold its answer until there
	// is something new; 0: it is not asked.
	Wait         time.Duration
	InsecureHTTP bool        // URL may be an http one
	Policy       spec.Remote // [manifest.policy] as it is written; what counts is Config.Remote
}

// For gives the URL for the host of that name.
func (m Manifest) For(host string) string {
	return strings.ReplaceAll(m.URL, hostMark, url.PathEscape(host))
}

// TLS has what the agent shows and believes upstream: paths, each absolute or
// empty. The files are read when they are needed first, never here.
type TLS struct {
	CA    string // certificates that are believed instead of the system's, PEM
	Cert  string // the client's certificate with its chain, PEM
	Key   string // the key of Cert, PEM; set when Cert is
	Token string // a bearer token
}

// Bounds and defaults of [manifest].
const (
	minInterval = 5 * time.Second
	maxInterval = 24 * time.Hour
	maxWait     = 5 * time.Minute

	maxProxies = 1000
	maxListed  = 256
	maxSum     = 1024 * spec.TiB
)

// remoteDefault allows what does no harm: few proxies, of the catalog's images.
func remoteDefault() spec.Remote { return spec.Remote{MaxProxies: 64} }

func (c *Config) decodeManifest(root *doc.Table) {
	t := root.Table("manifest")
	set(&c.Manifest.InsecureHTTP)(t.Bool("insecure_http"))
	set(&c.Manifest.URL)(doc.Text(t, "url", c.Manifest.url))
	set(&c.Manifest.Interval)(t.Duration("interval", minInterval, maxInterval))
	set(&c.Manifest.Wait)(t.Duration("wait", 0, maxWait))
	c.decodeRemote(t.Table("policy"))

	t = root.Table("tls")
	set(&c.TLS.CA)(doc.Text(t, "ca_file", absolute))
	set(&c.TLS.Cert)(doc.Text(t, "cert_file", absolute))
	set(&c.TLS.Key)(doc.Text(t, "key_file", absolute))
	set(&c.TLS.Token)(doc.Text(t, "token_file", absolute))
}

// decodeRemote reads [manifest.policy].
func (c *Config) decodeRemote(t *doc.Table) {
	r := &c.Manifest.Policy
	r.Images = listed(t, "images", name(spec.KindImage))
	r.MachineTypes = listed(t, "machine_types", name(spec.KindMachineType))
	for _, n := range listed(t, "networks", name(spec.KindNetwork)) {
		r.Networks = append(r.Networks, spec.Network{Network: n})
	}
	for _, n := range listed(t, "bridges", name(spec.KindBridge)) {
		r.Networks = append(r.Networks, spec.Network{Bridge: n})
	}
	for _, n := range listed(t, "direct", name(spec.KindInterface)) {
		r.Networks = append(r.Networks, spec.Network{Direct: n})
	}
	set(&r.VLAN)(t.Bool("vlan"))
	r.Addresses = doc.Strings(t, "addresses", maxCIDRs, cidr)
	r.ProbeHosts = doc.Strings(t, "probe_hosts", maxListed, probeHost)
	for _, key := range doc.Strings(t, "credentials", maxListed, name(spec.KindCredentials)) {
		file, ok := c.Catalog.Credentials[key]
		if !ok {
			t.Fail("credentials", "there is no [credentials.%s]; add it, or name another", key)
			continue
		}
		if r.Credentials == nil {
			r.Credentials = map[string]string{}
		}
		r.Credentials[key] = file
	}
	set(&r.SkipCleanup)(t.Bool("skip_cleanup"))
	most, ok := t.Int("max_proxies", 1, maxProxies)
	set(&r.MaxProxies)(int(most), ok)
	set(&r.MaxMemory)(doc.Text(t, "max_memory", sum))
	set(&r.MaxDisk)(doc.Text(t, "max_disk", sum))
}

// listed gives key's names: nil only when it is not there, because an empty
// list allows nothing.
func listed(t *doc.Table, key string, parse func(string) (string, error)) []string {
	names := doc.Strings(t, key, maxListed, parse)
	if names == nil && t.Has(key) {
		return []string{}
	}
	return names
}

func (c *Config) validateManifest(root *doc.Table) {
	t, r := root.Table("manifest").Table("policy"), &c.Manifest.Policy
	for _, key := range r.Images {
		if !root.Table("images").Has(key) {
			t.Fail("images", "there is no [images.%s]; add it, or name another", key)
		}
	}
	for _, key := range r.MachineTypes {
		if !root.Table("machine_types").Has(key) {
			t.Fail("machine_types", "there is no [machine_types.%s]; add it, or name another", key)
		}
	}
	t = root.Table("tls")
	if t.Has("cert_file") != t.Has("key_file") {
		t.Fail("", "has only one of cert_file and key_file; a client certificate needs both")
	}
	if c.TLS.Token != "" && strings.HasPrefix(c.Manifest.URL, "http:") {
		t.Fail("token_file", "is given with an http URL in [manifest]: anyone on the way could read the token; want an https URL")
	}
}

// Remote gives what specs of the manifest may use: [manifest.policy], and what a
// NIC is attached to by default, which is the operator's own choice.
func (c Config) Remote() spec.Remote {
	n := c.Catalog.Defaults.Network
	if n == (spec.Network{}) {
		n.Network = spec.DefaultNetwork
	}
	r := c.Manifest.Policy
	if !slices.Contains(r.Networks, n) {
		r.Networks = append(slices.Clone(r.Networks), n)
	}
	return r
}

// url checks where the manifest is. Its problems do not quote it.
func (m Manifest) url(text string) (string, error) {
	const allowed = `want one such as "https://fleet.example/hosts/{host}.json"`
	u, err := url.Parse(strings.ReplaceAll(text, hostMark, "host"))
	switch {
	case err != nil || len(text) > spec.MaxURL || strings.ContainsFunc(text, notPrintable) || strings.ContainsAny(text, ` \`):
		return "", fmt.Errorf("is no URL; %s", allowed)
	case u.Scheme == "http" && !m.InsecureHTTP:
		return "", fmt.Errorf("is an http URL, by which anyone on the way can make VMs on this host; %s, or set insecure_http = true", allowed)
	case u.Scheme != "https" && u.Scheme != "http":
		return "", fmt.Errorf("has the scheme %q; %s", clip(u.Scheme), allowed)
	case u.Hostname() == "":
		return "", fmt.Errorf("names no host; %s", allowed)
	case u.User != nil:
		return "", fmt.Errorf("holds a user name or password, which this file must not; give token_file in [tls]; %s", allowed)
	case strings.ContainsAny(text, "?#"):
		return "", fmt.Errorf("has a query or fragment, and the URL is shown in status and logs; give token_file in [tls] for a secret; %s", allowed)
	case !bracesInPath(text):
		return "", fmt.Errorf("has braces elsewhere than as {host} in its path; %s", allowed)
	}
	return text, nil
}

// bracesInPath tells whether braces are those of hostMark, and behind the URL's
// host: which server is asked does not hang on a host's name.
func bracesInPath(text string) bool {
	_, rest, _ := strings.Cut(text, "://")
	server, _, _ := strings.Cut(rest, "/")
	return !strings.ContainsAny(strings.ReplaceAll(text, hostMark, ""), "{}") && !strings.Contains(server, "{")
}

// probeHost checks a host that a probe may ask for: a name without its final
// dot, or an address without brackets.
func probeHost(text string) (string, error) {
	_, err := netip.ParseAddr(text)
	if err != nil && (text == "" || len(text) > 253 || strings.HasSuffix(text, ".") || strings.ContainsAny(text, `:/@[]*\ `) || strings.ContainsFunc(text, notPrintable)) {
		return "", fmt.Errorf("%q is no host; want a name such as \"connectivity.example\", or an address without brackets and port", clip(text))
	}
	return text, nil
}

// sum reads the size that all specs of a manifest may have together; 0: no bound.
func sum(text string) (spec.Size, error) {
	size, err := spec.ParseSize(text)
	if err == nil && size > maxSum {
		err = fmt.Errorf("%s is out of bounds; want 0GiB, for no bound, to %s", size, maxSum)
	}
	return size, err
}
