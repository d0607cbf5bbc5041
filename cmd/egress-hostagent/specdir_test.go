package main

import (
	"os"
	"testing"
	"time"
)

// TestI02_UnmountedDirectoryDeletesNotEvenTheOnlyProxy: the agent starts and
// finds, in place of its spec directory, the empty one that another file
// system was to be mounted on. TestCase127 follows: what is removed from the
// real one while the agent is down goes, once.
func TestI02_UnmountedDirectoryDeletesNotEvenTheOnlyProxy(t *testing.T) {
	h := newHall(t)
	h.start()
	h.write("p.toml", goodSpec)
	was := h.waitReady("p")
	h.stop()
	specs, away := h.dir+"/specs", h.dir+"/elsewhere"
	if err := os.Rename(specs, away); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(specs, 0o755); err != nil {
		t.Fatal(err)
	}
	h.start()
	begin := time.Now()
	h.wait("the directory has been in doubt for three times the deletion's delay", func() bool {
		for _, s := range h.agent.Status().Sources {
			if !s.LastRead.IsZero() && s.Synced {
				t.Fatalf("%+v is believed", s)
			}
		}
		return time.Since(begin) > 3*time.Second && h.proxy("p").Name != ""
	})
	if now := h.proxy("p"); now.UUID != was.UUID || now.Instance != was.Instance || now.Leaving {
		t.Errorf("%+v; it was %+v", now, was)
	}
	h.stop()
	if err := os.Remove(specs); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, specs); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(specs + "/p.toml"); err != nil {
		t.Fatal(err)
	}
	h.start()
	h.wait("it is gone", func() bool { return len(h.agent.Status().Proxies) == 0 })
}
