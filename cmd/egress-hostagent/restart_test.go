package main

import (
	"errors"
	"os"
	"testing"

	"github.com/egress-proxies/egress-hostagent/hostagent"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// TestI03_LastGoodSpecOutlivesTheAgent: an edit that is broken while the agent
// is down costs nothing, and the VM is even started again as the last good
// spec says.
func TestI03_LastGoodSpecOutlivesTheAgent(t *testing.T) {
	h := newHall(t)
	h.start()
	h.write("p.toml", goodSpec)
	was := h.waitReady("p")
	h.stop()
	h.write("p.toml", goodSpec+"[netwrok]\n")
	if err := h.conn.Destroy(t.Context(), was.UUID); err != nil {
		t.Fatal(err)
	}
	h.start()
	h.waitReason("p", "SpecInvalid")
	h.wait("it runs as the last good spec says", func() bool {
		c, _ := h.proxy("p").Condition(status.Running)
		return c.Status == status.True && h.proxy("p").Instance == was.Instance
	})
	t.Run("and when the directory is gone", func(t *testing.T) {
		h.stop()
		if err := os.Rename(h.dir+"/specs", h.dir+"/elsewhere"); err != nil {
			t.Fatal(err)
		}
		if err := h.conn.Destroy(t.Context(), was.UUID); err != nil {
			t.Fatal(err)
		}
		h.start()
		h.wait("it runs", func() bool {
			c, _ := h.proxy("p").Condition(status.Running)
			return c.Status == status.True && h.proxy("p").Instance == was.Instance
		})
	})
}

// TestAdoptAllTakesOnTheVMsHostID: the machine's id is another one; after the
// order everything is as before, under the old id, over restarts too.
func TestAdoptAllTakesOnTheVMsHostID(t *testing.T) {
	h := newHall(t)
	h.start()
	h.write("p.toml", goodSpec)
	was := h.waitReady("p")
	h.stop()
	h.who = &identity{ID: "host-new", Own: "host-new", Name: "h"}
	h.start()
	h.waitReason("p", "HostIDChanged")
	text, err := h.agent.Obey(t.Context(), order.Order{Verb: order.Adopt, All: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(text)
	h.stop()
	if !errors.Is(h.ended, hostagent.ErrRewire) {
		t.Errorf("the agent ended with %v", h.ended)
	}
	for range 2 {
		h.start()
		if now := h.waitReady("p"); now.UUID != was.UUID || now.Instance != was.Instance {
			t.Errorf("%+v; it was %+v", now, was)
		}
		h.stop()
	}
}
