package domxml

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/google/uuid"
)

// uuidSpace is the name space of every host's own name space. It never
// changes: a domain is found again by a UUID derived from it.
var uuidSpace = uuid.MustParse("5b0f0a1e-6f0c-5f7b-9d43-2f6d6f0f9c11")

// DomainPrefix starts the name of every domain this agent defines.
const DomainPrefix = "egress-"

// DomainName is the libvirt domain name of a proxy.
func DomainName(proxy string) string { return DomainPrefix + proxy }

// Identity is what a proxy's domain is known by besides the host: its name and,
// once VMs of that name were abandoned, how many. No name has a tilde in it.
func Identity(proxy string, generation int) string {
	if generation == 0 {
		return proxy
	}
	return proxy + "~" + strconv.Itoa(generation)
}

// DomainUUID is the UUID of a proxy's domain on this host: version 5 (RFC
// 4122) of the proxy's Identity in the host's own name space. It stays the
// same over every recreate.
func DomainUUID(hostID, identity string) string {
	host := uuid.NewSHA1(uuidSpace, []byte(hostID))
	return uuid.NewSHA1(host, []byte(identity)).String()
}

// MAC is the address of a proxy's NIC number nic: the octet 56, which marks it
// as unicast and locally administered (IEEE 802), then 40 bits of a hash over
// host, Identity and number.
func MAC(hostID, identity string, nic int) string {
	h := sha256.New()
	for _, s := range []string{hostID, identity} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	h.Write([]byte{byte(nic)})
	b := h.Sum(nil)
	return fmt.Sprintf("56:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4])
}
