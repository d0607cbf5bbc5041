package fakeagent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const mac = "52:54:00:12:34:56"

// patience bounds every read of a test; none comes near it.
const patience = 10 * time.Second

func take(t *testing.T, b Behaviour) (*Fake, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.sock")
	f, err := Take(path, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f, path
}

func dial(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func send(t *testing.T, conn net.Conn, requests string) {
	t.Helper()
	if _, err := conn.Write([]byte(requests)); err != nil {
		t.Fatal(err)
	}
}

func TestHonest(t *testing.T) {
	t.Parallel()
	addresses := []netip.Prefix{netip.MustParsePrefix("192.0.2.7/24"), netip.MustParsePrefix("fe80::7/64")}
	f, path := take(t, Honest(mac, addresses))
	conn := dial(t, path)
	lines := bufio.NewReader(conn)
	for _, step := range []struct{ request, want string }{
		{`{"execute":"guest-sync","arguments":{"id":18446744073709551615}}`, `{"return":18446744073709551615}`},
		{"\xff" + `{"execute":"guest-sync-delimited","arguments":{"id":7}}`, "\xff" + `{"return":7}`},
		{`{"execute":"guest-ping"}`, `{"return":{}}`},
		{`{"execute":"guest-network-get-interfaces"}`, `{"return":[` +
			`{"name":"lo","hardware-address":"00:00:00:00:00:00","ip-addresses":[` +
			`{"ip-address-type":"ipv4","ip-address":"127.0.0.1","prefix":8},` +
			`{"ip-address-type":"ipv6","ip-address":"::1","prefix":128}]},` +
			`{"name":"eth0","hardware-address":"52:54:00:12:34:56","ip-addresses":[` +
			`{"ip-address-type":"ipv4","ip-address":"192.0.2.7","prefix":24},` +
			`{"ip-address-type":"ipv6","ip-address":"fe80::7","prefix":64}]}]}`},
		{`{"execute":"guest-exec"}`,
			`{"error":{"class":"GenericError","desc":"The command guest-exec has not been found"}}`},
		{`{]`, `{"error":{"class":"GenericError","desc":"Invalid JSON syntax"}}`},
	} {
		send(t, conn, step.request+"\n")
		got, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want+"\n", got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.request, diff)
		}
	}
	checkCounts(t, f, map[string]int{"": 6, "guest-sync": 1, "guest-sync-delimited": 1, interfacesCommand: 1})
}

func checkCounts(t *testing.T, f *Fake, want map[string]int) {
	t.Helper()
	got := make(map[string]int)
	for command := range want {
		got[command] = f.Requests(command)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestSilence has a fake that falls silent: what it does answer is followed by
// the end of the connection, and by nothing else.
func TestSilence(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		behaviour Behaviour
		want      string
	}{
		"silent":    {Silent, ""},
		"sync only": {SyncOnly, `{"return":7}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, path := take(t, c.behaviour)
			conn := dial(t, path)
			send(t, conn, `{"execute":"guest-sync","arguments":{"id":7}}`+"\n"+
				`{"execute":"guest-network-get-interfaces"}`+"\n{\n")
			if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if _, err := got.ReadFrom(conn); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.String()); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTake takes a path that another listener had; that one is left without callers.
func TestTake(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "agent.sock")
	before, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	before.(*net.UnixListener).SetUnlinkOnClose(false)
	defer func() { _ = before.Close() }()
	f, err := Take(path, SyncOnly)
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, path)
	send(t, conn, `{"execute":"guest-sync","arguments":{"id":1}}`+"\n")
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if got := f.Connections(); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close the socket is there: %v", err)
	}
	if _, err := Take(filepath.Join(path, "missing", "agent.sock"), Silent); err == nil {
		t.Error("Take in a missing directory: no error")
	}
}

// TestCloseWhileSending closes a fake whose peer does not read its answer.
func TestCloseWhileSending(t *testing.T) {
	t.Parallel()
	f, path := take(t, Huge())
	conn := dial(t, path)
	send(t, conn, `{"execute":"guest-network-get-interfaces"}`+"\n")
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- f.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("Close waits for the peer")
	}
}

// answerOf asks a behaviour for the interfaces, without a socket.
func answerOf(b Behaviour) []byte { return b([]byte(`{"execute":"guest-network-get-interfaces"}`)) }

func TestHuge(t *testing.T) {
	t.Parallel()
	b := Huge()
	if got := answerOf(b); len(got) < HugeSize || bytes.ContainsRune(got, '\n') {
		t.Errorf("%d bytes, newline %v; want %d or more without", len(got), bytes.ContainsRune(got, '\n'), HugeSize)
	}
	if got := b([]byte(`{"execute":"guest-sync","arguments":{"id":3}}`)); string(got) != "{\"return\":3}\n" {
		t.Errorf("guest-sync: %q", got)
	}
}

// TestGarbage: no kind of it is the answer that was asked for.
func TestGarbage(t *testing.T) {
	t.Parallel()
	for kind := BadJSON; kind <= Deep; kind++ {
		b, right := Garbage(kind), "{\"return\":7}\n"
		synced := string(b([]byte(`{"execute":"guest-sync","arguments":{"id":7}}`)))
		if (synced == right) == (kind == WrongID) {
			t.Errorf("kind %d answers guest-sync with %q", kind, synced)
		}
		var list struct{ Return []Interface }
		answer := answerOf(b)
		if err := json.Unmarshal(answer, &list); err == nil && kind != BadUTF8 && list.Return != nil {
			t.Errorf("kind %d answers well: %s", kind, answer)
		}
	}
}

// TestHostile: the answers are in good form, whatever they hold.
func TestHostile(t *testing.T) {
	t.Parallel()
	foreign := []netip.Prefix{netip.MustParsePrefix("192.168.122.1/24")}
	for name, c := range map[string]struct {
		behaviour             Behaviour
		interfaces, addresses int
	}{
		"hostile": {Hostile(mac, foreign), 7, 2013},
		"many":    {Many(mac, 30, 20), 30, 600},
	} {
		var list struct{ Return []Interface }
		if err := json.Unmarshal(answerOf(c.behaviour), &list); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		addresses := 0
		for _, i := range list.Return {
			addresses += len(i.Addresses)
		}
		if len(list.Return) != c.interfaces || addresses != c.addresses {
			t.Errorf("%s: %d interfaces, %d addresses, want %d, %d",
				name, len(list.Return), addresses, c.interfaces, c.addresses)
		}
	}
}
