//go:build libvirtd

package link

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// hook is libvirt's hook for domains (https://libvirt.org/hooks.html): called
// as "qemu DOMAIN OPERATION ..." in the middle of an operation, it stops
// libvirtd there, once, when the file of that operation asks for it.
const hook = `#!/bin/sh
if mv "/run/freeze-at-$2" "/run/frozen-at-$2" 2>/dev/null; then
	kill -STOP "$(cat /run/libvirtd.pid)"
fi
`

// installHook puts the hook in place; libvirtd looks for hooks when it starts.
func installHook(ctx context.Context, p *kit.Place) error {
	if err := os.WriteFile(filepath.Join(p.Home, "hook"), []byte(hook), 0o755); err != nil {
		return err
	}
	if _, err := p.Output(ctx, "install", "-m", "0755", filepath.Join(p.Inside, "hook"), "/etc/libvirt/hooks/qemu"); err != nil {
		return err
	}
	if err := p.Down("TERM"); err != nil {
		return err
	}
	return p.Up()
}

// freezeAt makes libvirtd stop in the middle of its next operation of that
// name ("start", "started", "stopped").
func (l *lane) freezeAt(operation string) {
	l.Helper()
	l.inside("touch", "/run/freeze-at-"+operation)
}

// frozen waits until libvirtd stands still.
func (l *lane) frozen() {
	l.Helper()
	pid, err := l.place.PID(kit.Libvirtd)
	if err != nil {
		l.Fatal(err)
	}
	l.await(30*time.Second, "libvirtd stands still", func() bool {
		stopped, err := kit.Stopped(pid)
		return err == nil && stopped
	})
}

const cont = syscall.SIGCONT

func (l *lane) freeze() { l.Helper(); l.signal(syscall.SIGSTOP) }
func (l *lane) thaw()   { l.Helper(); l.signal(cont) }

func (l *lane) signal(sig syscall.Signal) {
	l.Helper()
	if err := l.place.Signal(kit.Libvirtd, sig); err != nil {
		l.Fatal(err)
	}
}
