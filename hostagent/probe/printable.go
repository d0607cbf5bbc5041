package probe

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxDetail bounds Result.Detail, in bytes.
const MaxDetail = 200

const ellipsis = "…"

// printable bounds s to MaxDetail bytes and escapes everything in it that
// does not print: control characters, bidirectional overrides, broken UTF-8.
func printable(s string) string {
	var b strings.Builder
	fits := 0 // length of b up to which an ellipsis still has room
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		b.WriteString(escape(r, s[:size]))
		if b.Len() > MaxDetail {
			return b.String()[:fits] + ellipsis
		}
		if b.Len() <= MaxDetail-len(ellipsis) {
			fits = b.Len()
		}
		s = s[size:]
	}
	return b.String()
}

func escape(r rune, raw string) string {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Sprintf(`\x%02x`, raw[0])
	case unicode.IsPrint(r):
		return raw
	default:
		q := strconv.QuoteRune(r)
		return q[1 : len(q)-1]
	}
}
