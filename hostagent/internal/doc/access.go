package doc

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// String gives key's string.
func (t *Table) String(key string) (string, bool) {
	return get[string](t, key, "a string")
}

// Bool gives key's boolean.
func (t *Table) Bool(key string) (bool, bool) {
	return get[bool](t, key, "true or false")
}

func get[T any](t *Table, key, want string) (T, bool) {
	var none T
	v, ok := t.value(key)
	if !ok {
		return none, false
	}
	typed, ok := v.(T)
	if !ok {
		t.Fail(key, "is %s; want %s", typeName(v), want)
	}
	return typed, ok
}

// Int gives key's integer, which has to be from least to most. A float is not
// an integer, whatever its value.
func (t *Table) Int(key string, least, most int64) (int64, bool) {
	v, ok := t.value(key)
	if !ok {
		return 0, false
	}
	n, ok := integer(v)
	switch {
	case !ok:
		t.Fail(key, "is %s; want an integer from %d to %d", numberName(v), least, most)
	case n < least || n > most:
		t.Fail(key, "%d is out of bounds; want an integer from %d to %d", n, least, most)
		ok = false
	}
	return n, ok
}

func integer(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case json.Number:
		i, err := strconv.ParseInt(n.String(), 10, 64)
		return i, err == nil
	}
	return 0, false
}

// Text gives what parse makes of key's string; parse's error becomes the
// problem's message, so it says what is wrong and what is allowed.
func Text[T any](t *Table, key string, parse func(string) (T, error)) (T, bool) {
	var none T
	s, ok := t.String(key)
	if !ok {
		return none, false
	}
	v, err := parse(s)
	if err != nil {
		t.Fail(key, "%v", err)
		return none, false
	}
	return v, true
}

// Duration gives key's duration, a string such as "30s", which has to be from
// least to most.
func (t *Table) Duration(key string, least, most time.Duration) (time.Duration, bool) {
	return Text(t, key, func(s string) (time.Duration, error) {
		d, err := time.ParseDuration(s)
		if err != nil || d < least || d > most {
			return 0, fmt.Errorf("%q is not a duration that is allowed; want a number with its unit, from %q to %q", short(s), least.String(), most.String())
		}
		return d, nil
	})
}

// Table gives key's table, the same one each time. An absent one is empty and
// told from a present one by Has of its parent only.
func (t *Table) Table(key string) *Table {
	path := join(t.path, key)
	if known, ok := t.doc.byPath[path]; ok {
		return known
	}
	m, ok := get[map[string]any](t, key, "a table")
	table := t.doc.table(path, m)
	table.broken = t.Has(key) && !ok
	return table
}

// numberName is typeName for where a number is wanted: there it is no secret.
func numberName(v any) string {
	if n, ok := v.(json.Number); ok {
		return "the number " + short(n.String())
	}
	return typeName(v)
}

// typeName is how a value's type is called in messages. It shows no value: where
// another type is wanted it may be a secret.
func typeName(v any) string {
	switch n := v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case json.Number:
		return "a number"
	case time.Time:
		return "a date or time"
	case map[string]any:
		return "a table"
	case []any:
		return fmt.Sprintf("an array of %d", len(n))
	case []map[string]any:
		return fmt.Sprintf("an array of %d tables", len(n))
	}
	return "of an unknown type"
}

// short bounds a value that is quoted in a message.
func short(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
