package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent/config"
)

// TestAtTheBounds: the bounds themselves are allowed.
func TestAtTheBounds(t *testing.T) {
	t.Parallel()
	const least = "[policy]\nmax_unavailable = 1\nrollout_wait = '10s'\n[limits]\nmemory_reserve = '0MiB'\nstart_interval = '0s'\nimage_grace = '1m'\n"
	const most = "[policy]\nmax_unavailable = 1000\nrollout_wait = '24h'\n[limits]\nmemory_reserve = '1TiB'\nstart_interval = '1m'\nimage_grace = '8760h'\n"
	for _, text := range []string{least, most} {
		if _, err := config.Decode("c", []byte(text)); err != nil {
			t.Errorf("%s%v", text, err)
		}
	}
	if c, err := config.Decode("c", []byte(least)); err != nil || c.Limits.MemoryReserve != 0 || c.Limits.StartInterval != 0 {
		t.Errorf("reserve %v, interval %v, error %v; want what the file says, not the defaults", c.Limits.MemoryReserve, c.Limits.StartInterval, err)
	}
}

func TestAdmins(t *testing.T) {
	t.Parallel()
	admins := func(user string) error {
		_, err := config.Decode("c", fmt.Appendf(nil, "control.admins = [%q]", user))
		return err
	}
	for _, user := range []string{"root", "_apt", "a", "www-data", "svc$", "x1", "a" + strings.Repeat("b", 30) + "$", "0", "1000", "4294967294"} {
		if err := admins(user); err != nil {
			t.Errorf("%q: %v", user, err)
		}
	}
	for _, user := range []string{
		"", "Root", "-a", "$", "a$b", "a b", "a.b", "größe", "a\n", "1a", "007", "+1", "-1", "1.0", "0x1", "4294967295", "18446744073709551616",
		strings.Repeat("a", 33), strings.Repeat("a", 32) + "$", strings.Repeat("a", 10000),
	} {
		if err := admins(user); err == nil {
			t.Errorf("%q was accepted", user)
		} else if len(err.Error()) > 300 || strings.Contains(err.Error(), "a\n") {
			t.Errorf("%q: problem %q is long or unescaped", user, err)
		}
	}
}
