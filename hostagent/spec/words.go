package spec

import "fmt"

// words are the two values of a key. The first is the default, the second is
// kept as true.
type words [2]string

var (
	onChange = words{"apply", "hold"}
	power    = words{"on", "off"}
)

// parse tells whether text is the second word.
func (w words) parse(text string) (bool, error) {
	if text != w[0] && text != w[1] {
		return false, fmt.Errorf("%q is not known; want %q or %q", clip(text), w[0], w[1])
	}
	return text == w[1], nil
}

// word is the reverse of parse.
func (w words) word(second bool) string {
	if second {
		return w[1]
	}
	return w[0]
}
