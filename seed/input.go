package seed

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// Limits of what a seed may hold. cloud-init itself has none: these keep one
// bad spec from filling a host's memory or a guest's boot with megabytes.
const (
	// MaxUserData bounds Input.UserData, in bytes.
	MaxUserData = 32 << 20
	// MaxVendorData bounds Input.VendorData, in bytes, as given and, where it
	// has to be unpacked to be composed, once more unpacked.
	MaxVendorData = 8 << 20
	// MaxNetworkConfig bounds Input.NetworkConfig, given or made of NICs, in bytes.
	MaxNetworkConfig = 1 << 20
	// MaxMetaData bounds the meta-data document made of instance-id, host name
	// and variables, in bytes.
	MaxMetaData = 64 << 10
)

// Label is the volume label by which cloud-init finds the seed. Lower case: the
// oldest releases know no other spelling.
const Label = "cidata"

// The names of a seed's files, all in the image's root directory.
const (
	UserDataFile      = "user-data"
	MetaDataFile      = "meta-data"
	VendorDataFile    = "vendor-data"
	NetworkConfigFile = "network-config"
)

// Input is all that decides a seed's content. The zero value lacks only an
// InstanceID to be valid. Its documents and variables are secrets: an Input
// prints as a summary without them.
type Input struct {
	// InstanceID tells cloud-init whether it has run for this guest before.
	// Required; 1 to 64 characters of A-Z a-z 0-9 . _ -.
	InstanceID string
	// Hostname becomes local-hostname: labels of letters, digits and inner
	// hyphens, joined by dots (RFC 1123). Empty leaves the key out, and the
	// guest keeps the image's own name.
	Hostname string
	// Vars are further meta-data keys with string values, which a jinja
	// template reads as ds.meta_data.KEY. Keys that cloud-init acts on are
	// refused.
	Vars map[string]string
	// UserData is shipped as it is, whatever it holds. nil and empty are the
	// same: the file is there and empty.
	UserData []byte
	// VendorData is the user's own vendor data. nil means none; empty but not
	// nil means a file of no bytes.
	VendorData []byte
	// NetworkConfig is shipped as it is. Empty means no file: the guest uses
	// DHCP on its first interface.
	NetworkConfig []byte
	// NICs are all of the guest's interfaces, in the order of the domain, where
	// one of them has static addresses: a network-config is made of them that
	// names them eth0, eth1, ... by MAC. Not together with NetworkConfig.
	NICs []NIC
	// GuestAgent adds the script that installs and starts the QEMU guest agent
	// to the vendor data.
	GuestAgent bool
}

// NIC is one of the guest's interfaces.
type NIC struct {
	// MAC is by what the guest finds it: six pairs of hex digits with colons. It
	// is derived from host and name, so it is not in ContentHash.
	MAC string
	// Addresses are static, each with its network's length; none means DHCP, for
	// IPv4. What routers announce for IPv6 is left to the guest.
	Addresses []netip.Prefix
	// Gateways are those of the default routes: at most one of each family in
	// all NICs together, each in the network of one of the Addresses, or
	// link-local.
	Gateways []netip.Addr
	// DNS are name servers, each of a family that Addresses have.
	DNS []netip.Addr
}

// InputError says which part of an Input can not be used and why. It is
// permanent: the same Input fails again. It never holds the part's content.
type InputError struct {
	// Field is the part's name as cloud-init knows it, such as "user-data".
	Field string
	// Problem says what is wrong and what to do about it.
	Problem string
}

// Error returns field and problem in one line.
func (e *InputError) Error() string { return e.Field + ": " + e.Problem }

// file is one file of the image, under its constant name.
type file struct {
	name string
	data []byte
}

// Validate reports everything for which Build would refuse the Input, each
// problem an *InputError. User-data is measured and nothing more. The check of
// network-config finds what can not be a YAML mapping; it does not parse YAML.
func (in Input) Validate() error {
	_, err := in.files()
	return err
}

// files checks the Input and returns the image's files in name order, which is
// the order in which the image holds them.
func (in Input) files() ([]file, error) {
	errs := append(in.checkNames(), in.checkSizes()...)
	errs = append(errs, in.checkVars()...)
	errs = append(errs, in.checkNetwork()...)
	vendor, err := in.vendorData()
	if err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	files := []file{{MetaDataFile, in.metaData()}}
	if network := in.networkConfig(); len(network) > 0 {
		files = append(files, file{NetworkConfigFile, network})
	}
	files = append(files, file{UserDataFile, in.UserData})
	if vendor != nil {
		files = append(files, file{VendorDataFile, vendor})
	}
	return files, nil
}

var instanceIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (in Input) checkNames() []error {
	var errs []error
	if !instanceIDForm.MatchString(in.InstanceID) {
		errs = append(errs, &InputError{"instance-id", fmt.Sprintf(
			"%q is not 1 to 64 characters of A-Z a-z 0-9 . _ -", clip(in.InstanceID))})
	}
	if problem := hostnameProblem(in.Hostname); problem != "" {
		errs = append(errs, &InputError{"local-hostname", fmt.Sprintf("%q %s", clip(in.Hostname), problem)})
	}
	return errs
}

func (in Input) checkSizes() []error {
	var errs []error
	for _, part := range []struct {
		name       string
		size, most int
	}{
		{UserDataFile, len(in.UserData), MaxUserData},
		{VendorDataFile, len(in.VendorData), MaxVendorData},
		{NetworkConfigFile, len(in.networkConfig()), MaxNetworkConfig},
		{MetaDataFile, len(in.metaData()), MaxMetaData},
	} {
		if part.size > part.most {
			errs = append(errs, &InputError{part.name, fmt.Sprintf(
				"is %d bytes long, the limit is %d", part.size, part.most)})
		}
	}
	return errs
}

var hostLabel = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// hostnameProblem returns why a name is no host name, or "". A dotted IPv4
// address is refused because cloud-init would make another name of it.
func hostnameProblem(name string) string {
	if name == "" {
		return ""
	}
	if len(name) > 253 {
		return "is longer than 253 characters"
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return "is an address; cloud-init would turn it into another name"
	}
	for label := range strings.SplitSeq(name, ".") {
		if !hostLabel.MatchString(label) {
			return "is no host name: use letters, digits and inner hyphens, at most 63 between two dots"
		}
	}
	return ""
}

// clip keeps an identifier short enough for an error message.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}
