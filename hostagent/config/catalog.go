package config

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// maxEntries bounds each table of a catalog.
const maxEntries = 256

// Formats of a base image.
const (
	qcow2 = "qcow2"
	raw   = "raw"
)

func (c *Config) decodeCatalog(root *doc.Table) {
	eachEntry(root, "images", spec.KindImage, func(key string, t *doc.Table) {
		c.Catalog.Images[key] = decodeImage(key, t)
	})
	eachEntry(root, "machine_types", spec.KindMachineType, func(key string, t *doc.Table) {
		c.Catalog.MachineTypes[key] = decodeMachineType(t)
	})
	eachEntry(root, "credentials", spec.KindCredentials, func(key string, t *doc.Table) {
		c.Catalog.Credentials[key] = decodeCredentials(t)
	})
	t, def := root.Table("defaults"), &c.Catalog.Defaults
	set(&def.Image)(doc.Text(t, "image", name(spec.KindImage)))
	set(&def.MachineType)(doc.Text(t, "machine_type", name(spec.KindMachineType)))
	set(&def.Disk)(doc.Text(t, "disk", spec.ParseDisk))
	port, ok := t.Int("port", 1, 65535)
	set(&def.Port)(int(port), ok)
	set(&def.Network)(spec.DecodeNetwork(t))
}

// eachEntry visits the tables [NAME.KEY] in the order of their keys, which are
// names and checked as such.
func eachEntry(root *doc.Table, table, kind string, visit func(key string, t *doc.Table)) {
	t := root.Table(table)
	keys := t.Keys()
	if len(keys) > maxEntries {
		t.Fail("", "has %d entries; at most %d are allowed", len(keys), maxEntries)
	}
	for _, key := range keys {
		if err := spec.CheckName(kind, key); err != nil {
			t.Fail(key, "%v", err)
		}
		visit(key, t.Table(key))
	}
}

func decodeImage(key string, t *doc.Table) spec.Image {
	image := spec.Image{Key: key, Format: qcow2}
	set(&image.Source)(doc.Text(t, "source", imageSource))
	set(&image.SHA256)(doc.Text(t, "sha256", digest))
	set(&image.Format)(doc.Text(t, "format", oneOf(qcow2, raw)))
	require(t, "source", "where the image is: an absolute path, or an https URL")
	require(t, "sha256", "the digest of the image file: 64 hex digits, as sha256sum prints them")
	return image
}

// decodeCredentials gives the path of a file with credentials. It is not looked
// for: it is read when a probe needs it, so one that comes later heals.
func decodeCredentials(t *doc.Table) string {
	file, _ := doc.Text(t, "file", absolute)
	require(t, "file", `the absolute path of a file with "user:password"`)
	return file
}

func decodeMachineType(t *doc.Table) spec.MachineType {
	var m spec.MachineType
	cpus, _ := t.Int("cpus", 1, spec.MaxCPUs)
	m.CPUs = int(cpus)
	m.Memory, _ = doc.Text(t, "memory", spec.ParseMemory)
	require(t, "cpus", fmt.Sprintf("an integer from 1 to %d", spec.MaxCPUs))
	require(t, "memory", `a size such as "2GiB"`)
	return m
}

func require(t *doc.Table, key, what string) {
	if !t.Has(key) {
		t.Fail(key, "is missing; want %s", what)
	}
}

var digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

func digest(text string) (string, error) {
	if digestForm.MatchString(text) {
		return text, nil
	}
	if digestForm.MatchString(strings.ToLower(text)) {
		return "", fmt.Errorf("has upper-case digits; want %q", strings.ToLower(text))
	}
	return "", fmt.Errorf("is no SHA-256 digest (%d characters); want 64 lower-case hex digits, as sha256sum prints them", len(text))
}

// imageSource checks an absolute path or an https URL. Its problems do not
// quote a URL, which may hold a secret.
func imageSource(text string) (string, error) {
	const allowed = `want an absolute path, or a URL such as "https://images.example/debian-13.qcow2"`
	if strings.HasPrefix(text, "/") || !strings.Contains(text, "://") {
		return absolute(text)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || len(text) > spec.MaxURL || strings.ContainsFunc(text, notPrintable) || strings.Contains(text, " "):
		return "", fmt.Errorf("is no URL; %s", allowed)
	case u.Scheme == "file":
		return "", fmt.Errorf("is a file:// URL; give the path alone")
	case u.Scheme == "http":
		return "", fmt.Errorf("is an http URL, which anyone on the way can read and replace; %s", allowed)
	case u.Scheme != "https":
		return "", fmt.Errorf("has the scheme %q; %s", clip(u.Scheme), allowed)
	case u.Hostname() == "":
		return "", fmt.Errorf("names no host; %s", allowed)
	case u.User != nil:
		return "", fmt.Errorf("holds a user name or password, which this file must not; %s", allowed)
	}
	return text, nil
}
