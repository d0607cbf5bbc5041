package doc

import "fmt"

// Tables gives the elements of key's array of tables: 1 to most of them when
// key is there. What is no table is reported and left out. It is asked once.
func (t *Table) Tables(key string, most int) []*Table {
	v, ok := t.value(key)
	if !ok {
		return nil
	}
	path := join(t.path, key)
	list := elements(v)
	switch {
	case list == nil:
		t.Fail(key, "is %s; want an array of tables: [[%s]]", typeName(v), path)
	case len(list) == 0:
		t.Fail(key, "is empty; want at least one [[%s]], or leave it out", path)
	case len(list) > most:
		t.Fail(key, "has %d elements; at most %d are allowed", len(list), most)
	}
	var out []*Table
	for i, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			t.failElement(key, i, fmt.Sprintf("is %s; want a table", typeName(e)))
			continue
		}
		out = append(out, t.doc.table(element(path, i), m))
	}
	return out
}

// Empty tells whether key is an array without elements, for who takes such a one.
func (t *Table) Empty(key string) bool {
	v, _ := t.value(key)
	list := elements(v)
	return list != nil && len(list) == 0
}

// Strings gives the elements of key's array of strings, at most most of them,
// each passed through parse.
func Strings[T any](t *Table, key string, most int, parse func(string) (T, error)) []T {
	v, ok := t.value(key)
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok || len(list) > most {
		t.Fail(key, "is %s; want an array of at most %d strings", typeName(v), most)
		return nil
	}
	var out []T
	for i, e := range list {
		s, ok := e.(string)
		if !ok {
			t.failElement(key, i, fmt.Sprintf("is %s; want a string", typeName(e)))
			continue
		}
		parsed, err := parse(s)
		if err != nil {
			t.failElement(key, i, err.Error())
			continue
		}
		out = append(out, parsed)
	}
	return out
}

// OneOrMore gives key's strings, each passed through parse: an array of at most
// most strings, or one string for an array of one.
func OneOrMore[T any](t *Table, key string, most int, parse func(string) (T, error)) []T {
	if v, _ := t.value(key); isString(v) {
		if one, ok := Text(t, key, parse); ok {
			return []T{one}
		}
		return nil
	}
	return Strings(t, key, most, parse)
}

func isString(v any) bool {
	_, ok := v.(string)
	return ok
}

func (t *Table) failElement(key string, i int, message string) {
	path := join(t.path, key)
	t.doc.problems = append(t.doc.problems, t.doc.problem(element(path, i), path, message))
}

// elements gives an array's elements, nil for what is not an array.
func elements(v any) []any {
	switch list := v.(type) {
	case []any:
		if list == nil {
			return []any{}
		}
		return list
	case []map[string]any:
		out := make([]any, len(list))
		for i, m := range list {
			out[i] = m
		}
		return out
	}
	return nil
}
