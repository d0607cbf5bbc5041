package spec

import (
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
)

// Opener reads a file that a spec names by a relative path. It decides what
// may be read (nothing outside the spec's own directory, no link out of it)
// and bounds what it returns.
type Opener func(rel string) ([]byte, error)

// DecodeTOML reads the spec of the proxy called name from a TOML document;
// file is the document's name for people. open reads what user_data_file,
// vendor_data_file and network_config_file name; nil means that no file may be named.
//
// An error is Problems: everything wrong with the document at once. The
// document is decoded, completed by cat's defaults and validated against cat,
// in three steps that share no state but the draft.
func DecodeTOML(name, file string, data []byte, cat Catalog, open Opener) (Spec, error) {
	d, err := doc.ParseTOML(file, data)
	if err != nil {
		return Spec{}, err
	}
	root := d.Root()
	root.Refuse("name", "the file's stem is the proxy's name")
	s := decodeTable(name, root, cat, shelf{open: open})
	if err := d.Err(); err != nil {
		return Spec{}, err
	}
	return s, nil
}

// decodeTable reads a spec from a table of any document. An error is left in the
// document.
func decodeTable(name string, t *doc.Table, cat Catalog, from shelf) Spec {
	if err := CheckName(KindProxy, name); err != nil {
		t.Fail("", "%v", err)
	}
	d := decode(t, from)
	own := d.own(t)
	d.complete(t, cat.Defaults)
	s := d.validate(t, name, cat)
	s.Own = own
	return s
}

// draft is a spec as it was written: what is absent is zero, references are
// keys.
type draft struct {
	image, machineType string
	cpus               int
	memory, disk       Size
	port               int
	userData           Secret
	vendorData         Secret
	networkConf        Secret
	vars               map[string]Secret
	guestAgent         bool
	networks           []NIC
	probe              Probe
	labels             map[string]string

	hold, off, skipCleanup bool
	drain                  time.Duration
}

// decode reads every key the document may have. It reports what is wrong with
// a value by itself; how values fit together is validate's.
func decode(t *doc.Table, from shelf) draft {
	var d draft
	d.image, _ = doc.Text(t, "image", named(KindImage))
	d.machineType, _ = doc.Text(t, "machine_type", named(KindMachineType))
	cpus, _ := t.Int("cpus", 1, MaxCPUs)
	d.cpus = int(cpus)
	d.memory, _ = doc.Text(t, "memory", ParseMemory)
	d.disk, _ = doc.Text(t, "disk", ParseDisk)
	port, _ := t.Int("port", 1, 65535)
	d.port = int(port)
	d.userData = userDataBlob.read(t, from)
	d.vendorData = vendorDataBlob.read(t, from)
	if conf := networkConfBlob.read(t, from); len(conf) > 0 {
		d.networkConf = conf
	}
	d.vars = decodeVars(t.Table("vars"))
	d.guestAgent, _ = t.Bool("install_guest_agent")
	d.networks = networks(t)
	d.probe = decodeProbe(t.Table("probe"))
	d.labels = labels(t.Table("labels"))
	d.hold, _ = doc.Text(t, "on_change", onChange.parse)
	d.off, _ = doc.Text(t, "power", power.parse)
	d.drain, _ = t.Duration("drain", 0, MaxDrain)
	d.skipCleanup, _ = t.Bool("skip_cleanup")
	return d
}

// named makes a parser of names of that kind.
func named(kind string) func(string) (string, error) {
	return func(name string) (string, error) { return name, CheckName(kind, name) }
}

// complete fills in what the document is silent about.
func (d *draft) complete(t *doc.Table, def Defaults) {
	if !t.Has("image") {
		d.image = def.Image
	}
	if !t.Has("machine_type") && !t.Has("cpus") && !t.Has("memory") {
		d.machineType = def.MachineType
	}
	if !t.Has("disk") {
		d.disk = def.Disk
	}
	if !t.Has("port") {
		d.port = orElse(def.Port, DefaultPort)
	}
	if !t.Has("install_guest_agent") {
		d.guestAgent = true
	}
	if !t.Has("network") {
		d.networks = []NIC{{Network: orElse(def.Network, Network{Network: DefaultNetwork})}}
	}
	if probe := t.Table("probe"); !probe.Has("type") {
		d.probe.Type = ProbeTCP
	}
	if d.probe.URL != "" {
		d.probe.ExpectStatus = orElse(d.probe.ExpectStatus, DefaultStatus)
	}
}

func orElse[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// validate checks how the values fit together and with cat, and resolves the
// references to cat.
func (d *draft) validate(t *doc.Table, name string, cat Catalog) Spec {
	checkProbe(t.Table("probe"), d.probe)
	if len(d.networkConf) > 0 && d.spec().Static() {
		t.Fail(keyOf(t, networkConfBlob), "is given beside the address of a network, of which a network-config is made; give one of them")
	}
	s := d.spec()
	s.Name = name
	s.Image = d.resolveImage(t, cat.Images)
	s.CPUs, s.Memory = d.resolveMachine(t, cat.MachineTypes)
	s.Probe.Credentials = d.resolveCredentials(t.Table("probe"), cat.Credentials)
	if !t.Failed() {
		checkSeed(t, s)
	}
	return s
}

// spec gives the part of a spec that needs no catalog.
func (d *draft) spec() Spec {
	return Spec{
		MachineType: d.machineType,
		Disk:        d.disk,
		Port:        d.port,
		UserData:    d.userData,
		VendorData:  d.vendorData,
		NetworkConf: d.networkConf,
		Vars:        d.vars,
		GuestAgent:  d.guestAgent,
		Networks:    d.networks,
		Probe:       d.probe,
		Labels:      d.labels,
		Hold:        d.hold,
		Off:         d.off,
		Drain:       d.drain,
		SkipCleanup: d.skipCleanup,
	}
}
