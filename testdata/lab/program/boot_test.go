//go:build libvirtd

package program

import (
	"bufio"
	"context"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestBoot runs each mode on QEMU alone, without libvirt, with devices where
// libvirt puts them, and compares the first lines of the serial port. Those
// that power off must end QEMU by themselves.
func TestBoot(t *testing.T) {
	t.Parallel()
	for m, c := range map[Mode]struct {
		want []string
		ends bool
	}{
		Idle:   {[]string{"program: idle"}, false},
		Fill:   {[]string{"program: fill", "program: filled to MiB 8", "program: filled to MiB 16"}, false},
		Agent:  {[]string{"program: agent", "program: agent open"}, false},
		Off:    {[]string{"program: off", "program: power off"}, true},
		Button: {[]string{"program: button", "program: power off"}, true},
	} {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			lines, cmd, monitor := boot(ctx, t, m)
			var got []string
			for len(got) < len(c.want) && lines.Scan() {
				got = append(got, strings.TrimRight(lines.Text(), "\r"))
				if got[len(got)-1] == "program: button" {
					press(t, monitor)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("serial port (-want +got):\n%s", diff)
			}
			if !c.ends {
				cancel()
			}
			if err := cmd.Wait(); (err == nil) != c.ends {
				t.Errorf("QEMU ended with %v, want it off by itself: %v", err, c.ends)
			}
		})
	}
}

// press presses the power button of a QEMU with that monitor.
func press(t *testing.T, monitor string) {
	t.Helper()
	c, err := net.Dial("unix", monitor)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Write([]byte("system_powerdown\n")); err != nil {
		t.Fatal(err)
	}
}

// boot starts QEMU on mode m and returns the lines of its serial port and the
// path of its monitor. It is killed when ctx ends; the caller waits for it.
func boot(ctx context.Context, t *testing.T, m Mode) (*bufio.Scanner, *exec.Cmd, string) {
	t.Helper()
	dir := t.TempDir()
	disk, err := Build(dir, m)
	if err != nil {
		t.Fatal(err)
	}
	monitor := filepath.Join(dir, "monitor.sock")
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64",
		"-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "64",
		"-display", "none", "-nodefaults", "-no-user-config", "-serial", "stdio",
		"-monitor", "unix:"+monitor+",server=on,wait=off",
		"-device", "pcie-root-port,id=r1,chassis=1,addr=2.0,multifunction=on",
		"-device", "pcie-root-port,id=r2,chassis=2,addr=2.1",
		"-drive", "if=none,id=d0,format=qcow2,file="+disk,
		"-device", "virtio-blk-pci,drive=d0,bus=r1,bootindex=1",
		"-device", "virtio-serial-pci,id=s0,bus=r2",
		"-chardev", "socket,id=c0,server=on,wait=off,path="+filepath.Join(dir, "agent.sock"),
		"-device", "virtserialport,bus=s0.0,nr=1,chardev=c0,name=org.qemu.guest_agent.0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(out), cmd, monitor
}
