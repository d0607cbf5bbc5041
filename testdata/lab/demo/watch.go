package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// patience bounds the wait for the proxy: an emulated guest that installs its
// packages needs two to three minutes.
const patience = 12 * time.Minute

// milestone is one step of a proxy's way up.
type milestone struct {
	what string
	seen func(status.Host, status.Proxy) bool
	show func(status.Proxy) string
}

func isTrue(typ string) func(status.Host, status.Proxy) bool {
	return func(_ status.Host, p status.Proxy) bool {
		c, _ := p.Condition(typ)
		return c.Status == status.True
	}
}

func detail(typ string) func(status.Proxy) string {
	return func(p status.Proxy) string {
		c, _ := p.Condition(typ)
		return strings.TrimSpace(c.Reason + " " + c.Message)
	}
}

var milestones = []milestone{
	{"base image ready", func(h status.Host, _ status.Proxy) bool {
		return len(h.Images) > 0 && h.Images[0].State == "ready"
	}, nil},
	{"domain defined", func(_ status.Host, p status.Proxy) bool { return p.Instance != "" },
		func(p status.Proxy) string { return p.Instance }},
	{"started", isTrue(status.Running), nil},
	{"addressed", isTrue(status.Addressed), detail(status.Addressed)},
	{"guest agent connected", func(_ status.Host, p status.Proxy) bool {
		return len(p.Addresses) > 0 && p.Addresses[0].Source == "agent"
	}, nil},
	{"reachable", isTrue(status.Reachable), detail(status.Reachable)},
}

// watch prints each milestone when it is reached, and now and then that it
// still waits.
func (d *demo) watch(ctx context.Context) error {
	var waiting []milestone
	for _, m := range milestones {
		if d.real || m.what != "reachable" {
			waiting = append(waiting, m)
		}
	}
	began, said := time.Now(), time.Now()
	for len(waiting) > 0 {
		h, p := d.look()
		left := waiting[:0]
		for _, m := range waiting {
			if !m.seen(h, p) {
				left = append(left, m)
				continue
			}
			line := m.what
			if m.show != nil {
				line += ": " + m.show(p)
			}
			d.say("%s", line)
			said = time.Now()
		}
		waiting = left
		if len(waiting) == 0 {
			return nil
		}
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			d.say("... waiting: %s", waiting[0].what)
		}
		if time.Since(began) > patience {
			return fmt.Errorf("not %s within %s: %+v", waiting[0].what, patience, p.Conditions)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) look() (status.Host, status.Proxy) {
	h, err := d.agent.Status()
	if err != nil || len(h.Proxies) == 0 {
		return h, status.Proxy{}
	}
	return h, h.Proxies[0]
}

// show prints what an operator and a client see.
func (d *demo) show(ctx context.Context) error {
	out, err := d.agent.CLI("status", "squid")
	fmt.Printf("\n$ egress-hostagent status squid\n%s\n", out)
	if err != nil {
		return err
	}
	out, err = d.agent.CLI("list")
	fmt.Printf("$ egress-hostagent list\n%s\n", out)
	if err != nil || !d.real {
		return err
	}
	proxy := strings.TrimSpace(out)
	url := "http://" + d.place.Gateway + ":8204/generate_204"
	out, err = d.place.Output(ctx, "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20", "-x", proxy, url)
	fmt.Printf("$ curl -x %s %s\n%s\n\n", proxy, url, out)
	if err == nil && out != "204" {
		err = fmt.Errorf("the answer through the proxy was %s, not 204", out)
	}
	return err
}

// gone waits until nothing of the proxy is left.
func (d *demo) gone(ctx context.Context) error {
	began, said := time.Now(), time.Now()
	for {
		h, p := d.look()
		if h.Host != "" && len(h.Proxies) == 0 {
			break
		}
		if time.Since(began) > 2*time.Minute {
			return fmt.Errorf("the proxy is still there: %+v", p)
		}
		if time.Since(said) > 5*time.Second {
			said = time.Now()
			d.say("... %s", p.Next)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	files, err := d.place.Output(ctx, "find", d.place.Tree, "-mindepth", "2", "-type", "f", "-not", "-path", "*/base/*")
	if err != nil {
		return err
	}
	if files != "" {
		return errors.New("files left in the image tree:\n" + files)
	}
	d.say("gone: no domain, overlay, seed or record is left")
	if d.real {
		list, err := d.place.Output(ctx, "virsh", "-q", "-c", d.place.URI, "list", "--all", "--name")
		if err != nil {
			return err
		}
		if strings.Contains(list, "egress-squid") {
			return errors.New("the domain is still defined: " + list)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
