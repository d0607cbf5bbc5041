package main

import (
	"context"
	"fmt"
	"reflect"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/egress-proxies/egress-hostagent/hostagent"
	"github.com/egress-proxies/egress-hostagent/hostagent/config"
)

// reloads reads the configuration again at each signal, until ctx ends or one
// asks for another agent, which it gives. While it works systemd is told so, as
// sd_notify(3) has it for RELOADING=1.
func (d *daemonRun) reloads(ctx context.Context, agent *hostagent.Agent, w wired) (next *config.Config) {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.reload:
		}
		d.health.reloading()
		next, name, err := d.readAgain()
		switch {
		case err != nil:
			d.refuse(err)
			agent.RefuseConfig(ctx, d.refused)
		case anew(d.cfg, next):
			d.refused = ""
			d.log.Info("configuration reloaded; it says where things are, so all is wired anew", "file", d.o.config)
			return &next // the next agent tells systemd that it is ready
		default:
			w.who.Name = name
			d.retune(ctx, agent, w, next)
		}
		d.health.notify(daemon.SdNotifyReady)
	}
}

// readAgain reads the configuration. A file that was there and is not any more
// is an error: it may be on its way. name is what the host is called by it.
func (d *daemonRun) readAgain() (next config.Config, name string, err error) {
	next, err = loadConfig(d.o)
	if err == nil && next.Path == "" && d.cfg.Path != "" {
		err = fmt.Errorf("%s is not there any more", d.cfg.Path)
	}
	if err != nil {
		return next, "", err
	}
	who, err := whoAmI(next)
	return next, who.Name, err
}

// refuse notes why a configuration does not count, and goes on.
func (d *daemonRun) refuse(err error) {
	d.refused = err.Error()
	d.log.Error("configuration rejected; the one read before stands", "file", d.o.config, "error", err)
}

// retune makes what can change under a running agent count. Settings come
// before the specs that were decoded with them.
func (d *daemonRun) retune(ctx context.Context, agent *hostagent.Agent, w wired, next config.Config) {
	same := reflect.DeepEqual(d.cfg, next)
	d.cfg, d.refused = next, ""
	d.lookUpAdmins() // a user may have come by now
	w.tree.SetReserve(uint64(next.Limits.DiskReserve))
	agent.Retune(ctx, tuning(next, w.who))
	if same {
		d.log.Info("configuration read again; nothing in it has changed", "file", d.o.config)
		return
	}
	w.dir.Redecode(decoder(next))
	if w.pull != nil {
		w.pull.Judge(manifestRules(next, w.who))
	}
	d.log.Info("configuration reloaded", "file", d.o.config)
}

// anew tells whether what differs between two configurations can be had only
// by making the agent anew: who it is, and where things are.
func anew(old, next config.Config) bool {
	if next.Manifest.URL == "" { // else a manifest is for a host of that name
		next.Host.Name = old.Host.Name
	}
	next.Manifest.Policy = old.Manifest.Policy
	next.Control.Admins = old.Control.Admins
	next.Catalog, next.Policy, next.Probe, next.Limits = old.Catalog, old.Policy, old.Probe, old.Limits
	return !reflect.DeepEqual(old, next)
}
