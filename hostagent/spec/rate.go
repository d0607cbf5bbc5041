package spec

import (
	"fmt"
	"strconv"
	"strings"
)

// Rate is an amount of traffic in bytes per second. libvirt counts in whole
// thousands of them.
type Rate int64

// Bounds of a rate that is set.
const (
	MinRate Rate = 1000             // 8kbit/s, libvirt's unit
	MaxRate Rate = 1e12 / bitsAByte // 1000Gbit/s
)

const bitsAByte = 8

// rateUnits in the order in which String prefers them; the thousands of network
// equipment, not those of memory.
var rateUnits = [...]struct {
	name string
	bits int64
}{{"Gbit/s", 1e9}, {"Mbit/s", 1e6}, {"kbit/s", 1e3}}

// ParseRate reads a whole number directly followed by kbit/s, Mbit/s or Gbit/s,
// such as "100Mbit/s": from 8kbit/s to 1000Gbit/s, and a whole multiple of
// 8kbit/s, because libvirt counts in kilobytes.
func ParseRate(text string) (Rate, error) {
	const allowed = `want a whole number and one of kbit/s, Mbit/s, Gbit/s, such as "100Mbit/s"`
	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	n, err := strconv.ParseInt(digits, 10, 64)
	unit := int64(0)
	for _, u := range rateUnits {
		if u.name == text[len(digits):] {
			unit = u.bits
		}
	}
	const most = int64(MaxRate) * bitsAByte
	switch {
	case digits == "" || unit == 0:
		return 0, fmt.Errorf("%q is no bandwidth; %s", clip(text), allowed)
	case err != nil || n > most/unit || n*unit < int64(MinRate)*bitsAByte:
		return 0, fmt.Errorf("%q is out of bounds; want %s to 1000Gbit/s", clip(text), MinRate)
	case n*unit%(int64(MinRate)*bitsAByte) != 0:
		return 0, fmt.Errorf("%q is not a multiple of %s, the unit in which libvirt counts", clip(text), MinRate)
	}
	return Rate(n * unit / bitsAByte), nil
}

// String gives the rate in the largest unit that it is a whole number of:
// "100Mbit/s". ParseRate reads it back when the rate is one that it accepts.
func (r Rate) String() string {
	bits := int64(r) * bitsAByte
	for _, u := range rateUnits {
		if bits%u.bits == 0 && bits != 0 {
			return strconv.FormatInt(bits/u.bits, 10) + u.name
		}
	}
	if r == 0 {
		return "0kbit/s"
	}
	return strconv.FormatInt(bits, 10) + "bit/s"
}
