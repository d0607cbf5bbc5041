package spec

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
	"github.com/egress-proxies/egress-hostagent/seed"
)

// StoredVersion is the version of the document that Encode writes. Any change
// of its keys or of what they mean gets a new version.
const StoredVersion = 1

// MaxStored bounds what Encode gives and DecodeStored takes, in bytes: the most
// user-data there may be, in base64, and room for the rest.
const MaxStored = (seed.MaxUserData+2)/3*4 + 256<<10

// storedName is what problems call the document.
const storedName = "stored spec"

// stored is the document: the keys of a spec file where there are such, and
// what they resolved to. User-data is in it as it is, in base64.
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
}

type storedNetwork struct {
	Network string `json:"network,omitempty"`
	Bridge  string `json:"bridge,omitempty"`
}

type storedProbe struct {
	Type         string `json:"type"`
	URL          string `json:"url,omitempty"`
	ExpectStatus int    `json:"expect_status,omitempty"`
}

// Encode gives a spec as a JSON object from which DecodeStored makes an equal
// one, for the state directory: it holds the user-data, so it is as secret as
// that. It is an error when a spec that no decoder made can not be read back.
func Encode(s Spec) ([]byte, error) {
	if len(s.Labels) == 0 {
		s.Labels = nil // as decoders have it
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
		Port: s.Port, GuestAgent: s.GuestAgent, Probe: storedProbe{s.Probe.Type, s.Probe.URL, s.Probe.ExpectStatus}, Labels: s.Labels,
		OnChange: onChange.word(s.Hold), Power: power.word(s.Off), Drain: s.Drain.String(), SkipCleanup: s.SkipCleanup,
	}
	for _, n := range s.Networks {
		out.Networks = append(out.Networks, storedNetwork{Network: n.Network.Network, Bridge: n.Bridge})
	}
	if s.UserData != nil {
		packed := base64.StdEncoding.EncodeToString(s.UserData)
		out.UserData = &packed
	}
	return out
}

// DecodeStored reads what Encode wrote. What comes from a disk is believed no
// more than what comes from a person: keys match exactly, each has to be there,
// and values have the bounds that they have in a spec file. The error says what
// is wrong without quoting user-data; it is Problems when the document is JSON.
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
