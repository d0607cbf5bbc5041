package spec

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
	"github.com/egress-proxies/egress-hostagent/seed"
)

// StoredVersion is the version of the document that Encode writes. A change of
// what its keys mean gets a new version. A key of a later release is left out
// where it is not used, and optional: documents of all releases are read.
const StoredVersion = 1

// MaxStored bounds what Encode gives and DecodeStored takes, in bytes: the most
// documents for cloud-init there may be, in base64, and room for the rest.
const MaxStored = (seed.MaxUserData+seed.MaxVendorData+seed.MaxNetworkConfig+6)/3*4 + 1<<20

// storedName is what problems call the document.
const storedName = "stored spec"

// stored is the document: the keys of a spec file where there are such, and
// what they resolved to. Documents for cloud-init are in it as they are, in base64.
type stored struct {
	Version     int               `json:"version"`
	Name        string            `json:"name"`
	Own         string            `json:"own"`
	Image       string            `json:"image"`
	ImageSource string            `json:"image_source"`
	ImageSHA256 string            `json:"image_sha256"`
	ImageFormat string            `json:"image_format"`
	MachineType string            `json:"machine_type,omitempty"`
	CPUs        int               `json:"cpus"`
	Memory      string            `json:"memory"`
	Disk        string            `json:"disk"`
	Port        int               `json:"port"`
	GuestAgent  bool              `json:"install_guest_agent"`
	Networks    []storedNetwork   `json:"network"`
	Probe       storedProbe       `json:"probe"`
	Labels      map[string]string `json:"labels,omitempty"`
	OnChange    string            `json:"on_change"`
	Power       string            `json:"power"`
	Drain       string            `json:"drain"`
	SkipCleanup bool              `json:"skip_cleanup"`
	UserData    *string           `json:"user_data_base64,omitempty"`
	VendorData  *string           `json:"vendor_data_base64,omitempty"`
	NetworkConf *string           `json:"network_config_base64,omitempty"`
	Vars        map[string]string `json:"vars,omitempty"`
}

type storedNetwork struct {
	Network string `json:"network,omitempty"`
	Bridge  string `json:"bridge,omitempty"`
	Direct  string `json:"direct,omitempty"`

	VLAN         int            `json:"vlan,omitempty"`
	Isolated     bool           `json:"isolated,omitempty"`
	CleanTraffic bool           `json:"clean_traffic,omitempty"`
	Inbound      string         `json:"inbound,omitempty"`
	Outbound     string         `json:"outbound,omitempty"`
	Addresses    []netip.Prefix `json:"address,omitempty"`
	Gateways     []netip.Addr   `json:"gateway,omitempty"`
	DNS          []netip.Addr   `json:"dns,omitempty"`
}

type storedProbe struct {
	Type         string `json:"type"`
	URL          string `json:"url,omitempty"`
	ExpectStatus int    `json:"expect_status,omitempty"`
	Target       string `json:"target,omitempty"`
	Credentials  string `json:"credentials_file,omitempty"`
}

// Encode gives a spec as a JSON object from which DecodeStored makes an equal
// one, for the state directory: it holds user-data and variables, so it is as secret
// as those. It is an error when a spec that no decoder made can not be read back.
func Encode(s Spec) ([]byte, error) {
	if len(s.Labels) == 0 {
		s.Labels = nil // as decoders have it
	}
	if len(s.Vars) == 0 {
		s.Vars = nil
	}
	if len(s.NetworkConf) == 0 {
		s.NetworkConf = nil
	}
	data, err := json.Marshal(toStored(s))
	var back Spec
	if err == nil {
		back, err = DecodeStored(data)
	}
	if err == nil && !reflect.DeepEqual(back, s) {
		err = errors.New("it has values that do not survive being stored")
	}
	if err != nil {
		return nil, fmt.Errorf("encode the spec of proxy %q: %w", clip(s.Name), err)
	}
	return data, nil
}

func toStored(s Spec) stored {
	out := stored{
		Version: StoredVersion, Name: s.Name, Own: s.Own,
		Image: s.Image.Key, ImageSource: s.Image.Source, ImageSHA256: s.Image.SHA256, ImageFormat: s.Image.Format,
		MachineType: s.MachineType, CPUs: s.CPUs, Memory: s.Memory.String(), Disk: s.Disk.String(),
		Port: s.Port, GuestAgent: s.GuestAgent, Probe: toStoredProbe(s.Probe), Labels: s.Labels,
		OnChange: onChange.word(s.Hold), Power: power.word(s.Off), Drain: s.Drain.String(), SkipCleanup: s.SkipCleanup,
	}
	for _, n := range s.Networks {
		out.Networks = append(out.Networks, toStoredNetwork(n))
	}
	for key, value := range s.Vars {
		if out.Vars == nil {
			out.Vars = map[string]string{}
		}
		out.Vars[key] = string(value)
	}
	out.UserData, out.VendorData, out.NetworkConf = pack(s.UserData), pack(s.VendorData), pack(s.NetworkConf)
	return out
}

func toStoredNetwork(n NIC) storedNetwork {
	out := storedNetwork{
		Network: n.Network.Network, Bridge: n.Bridge, Direct: n.Direct,
		VLAN: n.VLAN, Isolated: n.Isolated, CleanTraffic: n.CleanTraffic,
		Addresses: n.Addresses, Gateways: n.Gateways, DNS: n.DNS,
	}
	if n.Inbound != 0 {
		out.Inbound = n.Inbound.String()
	}
	if n.Outbound != 0 {
		out.Outbound = n.Outbound.String()
	}
	return out
}

func toStoredProbe(p Probe) storedProbe {
	return storedProbe{Type: p.Type, URL: p.URL, ExpectStatus: p.ExpectStatus, Target: p.Target, Credentials: p.Credentials}
}

// pack gives a document in base64, nil for none.
func pack(data Secret) *string {
	if data == nil {
		return nil
	}
	packed := base64.StdEncoding.EncodeToString(data)
	return &packed
}

// DecodeStored reads what Encode wrote. What comes from a disk is believed no
// more than what comes from a person: keys match exactly, each has to be there,
// and values have the bounds that they have in a spec file. The error says what
// is wrong without quoting secrets; it is Problems when the document is JSON.
// Another version than StoredVersion is an error.
func DecodeStored(data []byte) (Spec, error) {
	root, err := storedObject(data)
	if err != nil {
		return Spec{}, fmt.Errorf("%s: %w", storedName, err)
	}
	d := doc.New(storedName, root, nil)
	t := d.Root()
	version, ok := t.Int("version", 1, math.MaxInt64)
	if !ok || version != StoredVersion {
		return Spec{}, Problems{{File: storedName, Key: "version", Message: fmt.Sprintf("is missing or another than %d, the one that this agent reads", StoredVersion)}}
	}
	s := readStored(t)
	if err := d.Err(); err != nil {
		return Spec{}, err
	}
	return s, nil
}
