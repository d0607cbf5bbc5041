package config

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

var bounded = regexp.MustCompile("^- `([a-z0-9_]+)`: .*?`(\"?)([0-9]+)([A-Za-z]*)\"?` to `\"?([0-9]+)([A-Za-z]*)\"?`")

// number reads digits, which bounded has found.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

// TestPageBounds: what the page gives as bounds the decoder takes, and nothing a
// little beyond, but for the "0GiB" of a disk.
func TestPageBounds(t *testing.T) {
	data, err := os.ReadFile("../../docs/CONFIG.md")
	if err != nil {
		t.Fatal(err)
	}
	table, seen := "", 0
	for line := range strings.Lines(string(data)) {
		if m := headline.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			table = m[1]
		}
		m := bounded.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		seen++
		key, quote := m[1], m[2]
		for _, v := range []struct {
			n    int
			unit string
			ok   bool
		}{{number(m[3]), m[4], true}, {number(m[5]), m[6], true}, {number(m[3]) - 1, m[4], false}, {number(m[5]) + 1, m[6], false}} {
			value := fmt.Sprint(quote, v.n, v.unit, quote)
			if err := decodeOne(table, key, value); (err == nil) != v.ok && value != `"0GiB"` {
				t.Errorf("[%s] %s = %s: error %v, and the page says otherwise", table, key, value, err)
			}
		}
	}
	if seen < 20 {
		t.Errorf("the page has %d keys with bounds; is it still written as this test reads it?", seen)
	}
}

// decodeOne reads a document of one key. What is said of other keys, which are
// missing, does not count.
func decodeOne(table, key, value string) error {
	d, err := doc.ParseTOML("page", fmt.Appendf(nil, "[%s]\n%s = %s\n", table, key, value))
	if err != nil {
		return err
	}
	c := Default()
	c.decode(d.Root())
	problems, _ := errors.AsType[spec.Problems](d.Err())
	for _, p := range problems {
		if p.Key == table+"."+key {
			return p
		}
	}
	return nil
}

// TestConfigIsPlain: reflect.DeepEqual tells whether two configurations are the
// same, because no function, channel or pointer is in one.
func TestConfigIsPlain(t *testing.T) {
	plain(t, "Config", reflect.TypeFor[Config]())
	text := readPage(t).example
	first, err := Decode("c", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := Decode("c", []byte(text)); !reflect.DeepEqual(first, again) {
		t.Error("one document decoded twice differs")
	}
	if other, _ := Decode("c", []byte(strings.Replace(text, "max_proxies = 20", "max_proxies = 21", 1))); reflect.DeepEqual(first, other) {
		t.Error("two documents decode to the same")
	}
}

func plain(t *testing.T, path string, typ reflect.Type) {
	t.Helper()
	switch typ.Kind() {
	case reflect.Struct:
		for i := range typ.NumField() {
			if f := typ.Field(i); typ != reflect.TypeFor[netip.Prefix]() { // it is comparable, and holds a handle
				plain(t, path+"."+f.Name, f.Type)
			}
		}
	case reflect.Map, reflect.Slice:
		plain(t, path+"[]", typ.Elem())
	case reflect.Func, reflect.Chan, reflect.Pointer, reflect.Interface, reflect.UnsafePointer:
		t.Errorf("%s is a %v", path, typ.Kind())
	}
}
