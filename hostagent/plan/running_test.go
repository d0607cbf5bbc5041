package plan

import "testing"

// TestAStartCountsOnce, also when libvirt tells that the domain runs before the
// agent's own start has ended. One by somebody else counts as the first.
func TestAStartCountsOnce(t *testing.T) {
	w := settledWorld(t)
	w.Observed.Busy = map[string]Kind{"p": Start}
	w.make()
	w.Observed.Busy = nil
	w.Memory.Proxies["p"] = w.Memory.Proxies["p"].done(Action{Kind: Start, Name: "p"}, nil, t0)
	if got := w.make().Proxies[0].Starts; got != 1 {
		t.Errorf("our own start counts %d times", got)
	}
	w = settledWorld(t)
	w.make()
	if got := w.make().Proxies[0].Starts; got != 1 {
		t.Errorf("another's start counts %d times", got)
	}
}
