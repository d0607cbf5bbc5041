package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/control"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
	"github.com/egress-proxies/egress-hostagent/testdata/lab/kit"
)

// served is a daemon of this process on libvirt's test driver, as "run" makes
// it but for the signal.
type served struct {
	t      *testing.T
	dir    string
	image  string // source and sha256 of a base image
	hup    chan os.Signal
	client *control.Client
	told   chan string // what systemd is told
}

func serveDaemon(t *testing.T) *served {
	dir, err := os.MkdirTemp("", "reload") // short: sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, sub := range []string{"specs", "other", "tree"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	img, err := kit.EmptyImage(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(img)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	s := &served{
		t: t, dir: dir, image: fmt.Sprintf("source = %q\nsha256 = %q\n", img, hex.EncodeToString(sum[:])),
		hup: make(chan os.Signal, 1), client: control.Dial(filepath.Join(dir, "c.sock")),
	}
	s.listen()
	s.configure("")
	o := &options{config: filepath.Join(dir, "config.toml")}
	cfg, err := loadConfig(o)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	d := &daemonRun{o: o, cfg: cfg, reload: s.hup, health: &health{log: log}, log: log}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s.wait("the agent is up", func(h status.Host) bool { return h.Link.Connected })
	return s
}

// listen stands in for systemd.
func (s *served) listen() {
	path := filepath.Join(s.dir, "n.sock")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	s.t.Setenv("NOTIFY_SOCKET", path)
	s.told = make(chan string, 1000)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			if said := string(buf[:n]); said != "WATCHDOG=1" {
				s.told <- said
			}
		}
	}()
}

// configure writes a whole configuration; more goes before its tables, which
// more may replace.
func (s *served) configure(more string) {
	s.t.Helper()
	text := more
	for _, t := range []string{
		"[host]\nid = \"host-1\"\n", "[libvirt]\nuri = \"test:///default\"\n",
		fmt.Sprintf("[specs]\ndir = \"%s/specs\"\n", s.dir), fmt.Sprintf("[tree]\nroot = \"%s/tree\"\n", s.dir),
		fmt.Sprintf("[state]\ndir = \"%s/state\"\n", s.dir), fmt.Sprintf("[control]\nsocket = \"%s/c.sock\"\n", s.dir),
		"[probe]\nenabled = false\n", "[images.debian]\n" + s.image, "[machine_types.small]\ncpus = 1\nmemory = \"256MiB\"\n",
	} {
		if head, _, _ := strings.Cut(t, "\n"); !strings.Contains(more, head) {
			text += t
		}
	}
	s.write("config.toml", text)
}

func (s *served) write(file, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, file)
	if err := os.WriteFile(path+".tmp", []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		s.t.Fatal(err)
	}
}

// reload asks for one and waits until systemd is told that it is over.
func (s *served) reload() {
	s.t.Helper()
	for len(s.told) > 0 {
		<-s.told
	}
	s.hup <- syscall.SIGHUP
	begun := false
	for timeout := time.After(patience); ; {
		select {
		case said := <-s.told:
			if strings.HasPrefix(said, "RELOADING=1\nMONOTONIC_USEC=") {
				begun = true
			}
			if said == "READY=1" {
				if !begun {
					s.t.Error("READY without RELOADING")
				}
				return
			}
		case <-timeout:
			s.t.Fatal("the reload does not end")
		}
	}
}

func (s *served) wait(what string, cond func(status.Host) bool) status.Host {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		h, err := s.client.Status(s.t.Context())
		if err == nil && cond(h) {
			return h
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("not within %s: %s: %v, %+v", patience, what, err, h)
		}
	}
}

// refused waits until the host says that its configuration is rejected, with
// all of these in the message.
func (s *served) refused(parts ...string) {
	s.t.Helper()
	s.wait(fmt.Sprintf("the configuration is rejected with %q", parts), func(h status.Host) bool {
		c := configRead(h)
		return c.Status == status.False && !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(c.Message, part) })
	})
}

func configRead(h status.Host) status.Condition {
	c, _ := h.Condition(status.ConfigRead)
	return c
}

func accepted(h status.Host) bool { return configRead(h).Status == status.True }

// TestCase160_Reload: what a reload finds counts, or what counted before does;
// the process and its link to libvirt go on either way.
func TestCase160_Reload(t *testing.T) {
	s := serveDaemon(t)
	s.write("specs/p.toml", strings.ReplaceAll(goodSpec, "small", "large"))
	s.wait("p waits for its machine type", func(h status.Host) bool {
		return len(h.Proxies) == 1 && h.Proxies[0].Phase == status.PhaseBlocked
	})

	const large = "[host]\nid = \"host-1\"\nname = \"kvm-7\"\n[machine_types.large]\ncpus = 2\nmemory = \"512MiB\"\n"
	s.configure(large)
	s.reload()
	was := s.wait("p is ready", func(h status.Host) bool { return len(h.Proxies) == 1 && h.Proxies[0].IsReady() })
	if !accepted(was) || was.Host != "kvm-7" || was.Link.Connects != 1 {
		t.Errorf("%+v, connected %d times", configRead(was), was.Link.Connects)
	}

	s.configure(large + "[limits]\nresync = \"soon\"\n")
	s.reload()
	s.refused("config.toml:", "resync")
	s.tellsSystemd("ready; ", "resync")

	if err := os.Remove(filepath.Join(s.dir, "config.toml")); err != nil {
		t.Fatal(err)
	}
	s.reload()
	s.refused("config.toml: no such file or directory")

	s.configure(large + "[limits]\nactions = 3\n")
	for range 100 {
		select {
		case s.hup <- syscall.SIGHUP:
		default: // as the kernel has it, one that waits stands for all
		}
	}
	now := s.wait("the configuration is accepted again", accepted)
	if now.Link.Connects != 1 || !now.Proxies[0].IsReady() || now.Proxies[0].Instance != was.Proxies[0].Instance {
		t.Errorf("p is %+v, connected %d times; it was %+v", now.Proxies[0], now.Link.Connects, was.Proxies[0])
	}
}

// tellsSystemd waits for a STATUS line with all of these in it.
func (s *served) tellsSystemd(parts ...string) {
	s.t.Helper()
	for timeout := time.After(patience); ; {
		select {
		case said := <-s.told:
			all := strings.HasPrefix(said, "STATUS=")
			for _, part := range parts {
				all = all && strings.Contains(said, part)
			}
			if all {
				return
			}
		case <-timeout:
			s.t.Fatalf("systemd is not told of %q", parts)
		}
	}
}

// TestCase160_ReloadMovesThings: a configuration that says where things are
// makes the agent anew within its process; one that can not be used so is
// rejected like one that can not be read.
func TestCase160_ReloadMovesThings(t *testing.T) {
	s := serveDaemon(t)
	s.write("other/q.toml", goodSpec)
	s.configure(fmt.Sprintf("[specs]\ndir = \"%s/other\"\n", s.dir))
	s.reload()
	s.wait("q is ready", func(h status.Host) bool { return len(h.Proxies) == 1 && h.Proxies[0].IsReady() })

	s.configure(fmt.Sprintf("[specs]\ndir = \"%s/other\"\n[control]\nsocket = \"%[1]s/none/c.sock\"\n", s.dir))
	s.reload()
	s.refused("none/c.sock")
	s.wait("q is ready still", func(h status.Host) bool { return len(h.Proxies) == 1 && h.Proxies[0].IsReady() })
	s.configure(fmt.Sprintf("[specs]\ndir = \"%s/other\"\n", s.dir))
	s.reload()
	s.wait("the configuration is accepted again", accepted)
}

// TestI06_ReloadIsHeld: a catalog that changes most proxies meets the hold as
// it does at a start, and a reload that takes it back ends the hold.
func TestI06_ReloadIsHeld(t *testing.T) {
	s := serveDaemon(t)
	for _, name := range []string{"a", "b", "c"} {
		s.write("specs/"+name+".toml", goodSpec)
	}
	ready := func(h status.Host) bool {
		n := 0
		for _, p := range h.Proxies {
			if c, _ := p.Condition(status.Synced); p.IsReady() && c.Status == status.True {
				n++
			}
		}
		return n == 3
	}
	was := s.wait("all are ready", ready)
	s.configure("[machine_types.small]\ncpus = 1\nmemory = \"320MiB\"\n")
	s.reload()
	s.wait("the change is held", func(h status.Host) bool { return len(h.Holds) == 1 && len(h.Holds[0].Proxies) == 3 })
	s.configure("")
	s.reload()
	now := s.wait("nothing is held", func(h status.Host) bool { return len(h.Holds) == 0 && ready(h) })
	for i, p := range now.Proxies {
		if p.Instance != was.Proxies[i].Instance || p.Starts != was.Proxies[i].Starts {
			t.Errorf("%+v; it was %+v", p, was.Proxies[i])
		}
	}
}
