package virt

import (
	"log/slog"
	"time"
)

// Options are what a Conn is made from. Zero durations take their defaults.
type Options struct {
	URI       string       // libvirt's connection URI, such as qemu:///system
	Log       *slog.Logger // nil: silent
	Namespace string       // URI of the metadata namespace to read and write

	CallTimeout  time.Duration // how long a caller waits for one call; default 30 s
	AgentTimeout time.Duration // how long libvirt waits for a guest agent, in whole seconds; default 5 s
	// Keepalive is the interval in which libvirt is asked for a sign of life;
	// the link is given up when four are missing. Default 5 s.
	Keepalive time.Duration
	// ReconnectMin and ReconnectMax bound the pause between attempts to
	// connect; it doubles with each failure. Default 250 ms and 5 s.
	ReconnectMin, ReconnectMax time.Duration
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&o.CallTimeout, 30 * time.Second},
		{&o.AgentTimeout, 5 * time.Second},
		{&o.Keepalive, 5 * time.Second},
		{&o.ReconnectMin, 250 * time.Millisecond},
		{&o.ReconnectMax, 5 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.fallback
		}
	}
	o.ReconnectMax = max(o.ReconnectMax, o.ReconnectMin)
	return o
}
