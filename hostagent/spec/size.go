package spec

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes.
type Size int64

// Units of Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

// units in the order in which String prefers them.
var units = [...]struct {
	name string
	size Size
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}}

// ParseSize reads a whole number directly followed by KiB, MiB, GiB or TiB,
// such as "2GiB". Nothing else is a size: a bare number has no unit, and "GB"
// means 1000s to some and 1024s to others.
func ParseSize(text string) (Size, error) {
	digits := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	unit, known := unitOf(text[len(digits):])
	if digits == "" || !known {
		return 0, fmt.Errorf("%q is not a size; %s", clip(text), sizeHint(digits, text[len(digits):]))
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/int64(unit) {
		return 0, fmt.Errorf("%q is more bytes than a size can hold", clip(text))
	}
	return Size(n) * unit, nil
}

func unitOf(name string) (Size, bool) {
	for _, u := range units {
		if u.name == name {
			return u.size, true
		}
	}
	return 0, false
}

// sizeHint says what to write instead of a number and a unit that are no size.
func sizeHint(digits, rest string) string {
	if digits == "" {
		return `want a whole number and its unit, such as "2GiB"`
	}
	if len(digits) > 18 {
		digits = "1"
	}
	if rest == "" {
		return fmt.Sprintf(`it has no unit; want "%sMiB" or "%sGiB", say`, digits, digits)
	}
	letter := strings.ToUpper(strings.TrimSpace(rest) + " ")[:1]
	if _, ok := unitOf(letter + "iB"); ok {
		return fmt.Sprintf(`units are KiB, MiB, GiB and TiB; want "%s%siB"`, digits, letter)
	}
	return `want a whole number and one of KiB, MiB, GiB, TiB, such as "1536MiB"`
}

// String gives the size in the largest unit that it is a whole number of:
// "2GiB", "1536MiB". ParseSize reads it back unless it ends in a plain "B".
func (s Size) String() string {
	for _, u := range units {
		if s%u.size == 0 && s != 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	if s == 0 {
		return "0GiB"
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// clip bounds a value that is quoted in a message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
