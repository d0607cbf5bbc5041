package seed

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// hashVersion is raised only when the meaning of the content hash has to
// change: every guest then looks changed once.
const hashVersion = "1"

// ContentHash answers whether another Input would give another guest: equal
// hashes, same guest. The form is "1:" and 64 hex digits.
//
// It covers what was asked for, each part with its presence and length:
// user-data, vendor-data, network-config, the NICs' addresses, gateways and name
// servers, host name and variables, the guest agent switch, the label. It leaves
// out the instance-id, which belongs to one disk, the MACs, and everything an
// upgrade may change: the script's text, the shape of the composed document and
// of the generated network-config, the image's layout.
func (in Input) ContentHash() string {
	h := sha256.New()
	h.Write([]byte("egress-seed-content/" + hashVersion + "\n"))
	hashPart(h, UserDataFile, true, in.UserData)
	hashPart(h, VendorDataFile, in.VendorData != nil, in.VendorData)
	hashPart(h, NetworkConfigFile, len(in.NetworkConfig) > 0, in.NetworkConfig)
	in.hashNICs(h)
	hashPart(h, MetaDataFile, true, asciiJSON(in.guestKeys()))
	hashPart(h, "guest-agent", in.GuestAgent, nil)
	hashPart(h, "label", true, []byte(Label))
	return hashVersion + ":" + hex.EncodeToString(h.Sum(nil))
}

// hashPart adds one part: its name, a zero byte, presence as 0 or 1, the length
// in 8 bytes, the content.
func hashPart(h hash.Hash, name string, present bool, data []byte) {
	head := append([]byte(name), 0, 0)
	if present {
		head[len(head)-1] = 1
	}
	h.Write(binary.BigEndian.AppendUint64(head, uint64(len(data))))
	h.Write(data)
}
