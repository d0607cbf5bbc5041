package doc

import (
	"maps"
	"slices"
	"strings"
)

// unknown reports the keys of the table that nobody asked for.
func (t *Table) unknown() Problems {
	var out Problems
	for _, key := range t.Keys() {
		instead, known := t.known[key]
		switch {
		case instead != "":
			out = append(out, t.problem(key, "unknown key; "+instead))
		case !known:
			out = append(out, t.problem(key, "unknown key; "+t.hint(key)))
		}
	}
	return out
}

// Asked gives the paths of all values, not tables, that were asked for, sorted:
// the keys that the document may have, as far as the walk went.
func (d *Doc) Asked() []string {
	var paths []string
	for _, t := range d.tables {
		for key, instead := range t.known {
			path := join(t.path, key)
			if _, table := d.byPath[path]; !table && instead == "" {
				paths = append(paths, path)
			}
		}
	}
	slices.Sort(paths)
	return paths
}

// hint says what the user may have meant, else what is allowed.
func (t *Table) hint(key string) string {
	var allowed []string
	for _, k := range slices.Sorted(maps.Keys(t.known)) {
		if t.known[k] == "" {
			allowed = append(allowed, k)
		}
	}
	if near, ok := Nearest(key, allowed); ok {
		return `did you mean "` + near + `"?`
	}
	if len(allowed) == 0 {
		return "no key is allowed here"
	}
	return "allowed: " + strings.Join(allowed, ", ")
}

// Nearest gives the one of words that word is most likely a slip of: another
// case, a hyphen for an underscore, a letter or two wrong, or with something
// added before or after it.
func Nearest(word string, words []string) (string, bool) {
	const longest = 64
	if len(word) > longest {
		return "", false
	}
	folded := fold(word)
	best, least := "", 1+min(1, len(word)/6)+1
	for _, w := range words {
		if d := distance(folded, fold(w)); d < least {
			best, least = w, d
		}
	}
	for _, w := range words {
		if best == "" && len(w) >= 4 && strings.Contains(folded, fold(w)) {
			best = w
		}
	}
	return best, best != ""
}

func fold(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }

// distance counts the single-byte edits, a swap of neighbours being one, that
// make b of a (optimal string alignment).
func distance(a, b string) int {
	prev2, prev := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
		}
		prev2, prev = prev, row
	}
	return prev[len(b)]
}
