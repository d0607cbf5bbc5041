package kit

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Notify stands in for systemd's end of sd_notify(3): it takes what the agent
// says and notes when the watchdog was fed.
type Notify struct {
	conn *net.UnixConn
	done chan struct{}

	mu  sync.Mutex
	fed []time.Time
}

// Notify opens the socket and puts it into the environment of the agent's
// next start, with a watchdog of that interval.
func (a *Agent) Notify(watchdog time.Duration) (*Notify, error) {
	const name = "notify.sock"
	path := filepath.Join(a.Place.Home, name)
	if err := os.RemoveAll(path); err != nil {
		return nil, err
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o666); err != nil { // the agent is another user
		return nil, errors.Join(err, conn.Close())
	}
	a.Env = append(a.Env, "NOTIFY_SOCKET="+filepath.Join(a.Place.Inside, name),
		fmt.Sprintf("WATCHDOG_USEC=%d", watchdog.Microseconds()))
	n := &Notify{conn: conn, done: make(chan struct{})}
	go n.listen()
	return n, nil
}

func (n *Notify) listen() {
	defer close(n.done)
	buf := make([]byte, 4096)
	for {
		size, err := n.conn.Read(buf)
		if err != nil {
			return // closed
		}
		if strings.Contains(string(buf[:size]), "WATCHDOG=1") {
			n.mu.Lock()
			n.fed = append(n.fed, time.Now())
			n.mu.Unlock()
		}
	}
}

// Since tells how often the watchdog was fed between then and now, and the
// longest time in which it was not.
func (n *Notify) Since(then time.Time) (times int, gap time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last := then
	for _, t := range n.fed {
		if t.Before(then) {
			continue
		}
		times++
		gap, last = max(gap, t.Sub(last)), t
	}
	return times, max(gap, time.Since(last))
}

// Close ends it.
func (n *Notify) Close() error {
	err := n.conn.Close()
	<-n.done
	return err
}
