package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// Bounds of paths, in bytes: the kernel's PATH_MAX and sun_path, each less its
// final NUL.
const (
	maxPath   = 4095
	maxSocket = 107
)

// name makes a parser of names of that kind.
func name(kind string) func(string) (string, error) {
	return func(text string) (string, error) { return text, spec.CheckName(kind, text) }
}

// oneOf makes a parser of a few words.
func oneOf(words ...string) func(string) (string, error) {
	return func(text string) (string, error) {
		if slices.Contains(words, text) {
			return text, nil
		}
		return "", fmt.Errorf("%q is not known; want one of: %s", clip(text), strings.Join(words, ", "))
	}
}

// absolute checks a file's path: absolute, and written in the one way that
// there is to write it, because paths are compared and shown.
func absolute(path string) (string, error) {
	switch {
	case path == "" || len(path) > maxPath || strings.ContainsFunc(path, notPrintable):
		return "", fmt.Errorf("%q is no path; want an absolute one of at most %d bytes", clip(path), maxPath)
	case !filepath.IsAbs(path):
		return "", fmt.Errorf("%q is not an absolute path; it would mean another file in each working directory", clip(path))
	case filepath.Clean(path) != path:
		return "", fmt.Errorf("%q is not the shortest form of the path; want %q", clip(path), clip(filepath.Clean(path)))
	}
	return path, nil
}

func directory(path string) (string, error) {
	if path == "/" {
		return "", fmt.Errorf("%q is the root directory; want one of the agent's own", path)
	}
	return absolute(path)
}

func socket(path string) (string, error) {
	if len(path) > maxSocket {
		return "", fmt.Errorf("is %d bytes long; a socket's path can have %d", len(path), maxSocket)
	}
	return directory(path)
}

// libvirtURI checks a URI of a hypervisor on this host. Disks are made on this
// host, so domains on another would not find theirs.
func libvirtURI(text string) (string, error) {
	const allowed = `want one of this host, such as "qemu:///system"`
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > spec.MaxURL || strings.ContainsFunc(text, notPrintable):
		return "", fmt.Errorf("is no URI; %s", allowed)
	case u.Host != "" || u.User != nil:
		return "", fmt.Errorf("names another host, where the disks that the agent makes here are not; %s", allowed)
	case strings.HasPrefix(u.Scheme, "qemu") && u.Path == "/session":
		return "", fmt.Errorf("%q is one user's own libvirt, whose VMs have no network of the host and end with the session; %s", clip(text), allowed)
	case !slices.Contains([]string{"qemu", "qemu+unix", "test"}, u.Scheme) || len(u.Path) < len("/x"):
		return "", fmt.Errorf("%q is no local hypervisor; %s", clip(text), allowed)
	}
	return text, nil
}

// wholeSeconds reads a duration that libvirt takes in seconds.
func wholeSeconds(text string) (time.Duration, error) {
	const allowed = `want whole seconds from "1s" to "60s"`
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is no duration; %s", clip(text), allowed)
	case d < time.Second || d > time.Minute || d%time.Second != 0:
		return 0, fmt.Errorf("%s is not possible; %s", d, allowed)
	}
	return d, nil
}

// Bounds of [limits] disk_reserve and memory_reserve.
const (
	minDiskReserve = spec.MiB
	maxReserve     = spec.TiB
)

// reserve makes a parser of a size from least to maxReserve.
func reserve(least spec.Size) func(string) (spec.Size, error) {
	return func(text string) (spec.Size, error) {
		size, err := spec.ParseSize(text)
		if err == nil && (size < least || size > maxReserve) {
			err = fmt.Errorf("%s is out of bounds; want %s to %s", size, least, maxReserve)
		}
		return size, err
	}
}

// Bounds of users: useradd(8) takes names of at most 32 bytes; the highest uid
// is the one before (uid_t)-1, which stands for no user.
const (
	maxUser = 32
	maxUID  = 1<<32 - 2
)

// userForm is the form of names that useradd(8) recommends.
var userForm = regexp.MustCompile(`^[a-z_][a-z0-9_-]*\$?$`)

// admin checks a user's name, or its number in decimal. That there is such a
// user is not asked: accounts come and go while the agent runs.
func admin(text string) (string, error) {
	uid, err := strconv.ParseUint(text, 10, 64)
	number := err == nil && uid <= maxUID && strconv.FormatUint(uid, 10) == text
	if !number && (len(text) > maxUser || !userForm.MatchString(text)) {
		return "", fmt.Errorf("%q is no user; want a name such as \"deploy\", of at most %d bytes, or a uid such as \"1000\"", clip(text), maxUser)
	}
	return text, nil
}

// cidr checks a network in its one form: no bits set beyond the prefix.
func cidr(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return p, fmt.Errorf("%q is no network; want one such as \"192.0.2.0/24\" or \"2001:db8::/32\"", clip(text))
	case p != p.Masked():
		return p, fmt.Errorf("%q is an address in a network; for the network want %q", clip(text), p.Masked())
	}
	return p, nil
}

func notPrintable(r rune) bool { return !unicode.IsPrint(r) }

// clip bounds a value that is quoted in a message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
