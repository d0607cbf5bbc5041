package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/control"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

// commander notes the orders it is given. It obeys those about edge1.
type commander struct{ given chan order.Order }

func newCommander() commander { return commander{make(chan order.Order, 100)} }

func (c commander) Status() status.Host { return sample }

func (c commander) Obey(_ context.Context, o order.Order) (string, error) {
	c.given <- o
	if o.Name != "edge1" {
		return "", errors.New("no proxy is named " + o.Name)
	}
	return "edge1 is paused", nil
}

// took gives the orders since the last call.
func (c commander) took() []order.Order {
	var all []order.Order
	for len(c.given) > 0 {
		all = append(all, <-c.given)
	}
	return all
}

// me is what the agent calls the user that the test runs as.
func me(t *testing.T) string {
	t.Helper()
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return "uid " + strconv.Itoa(os.Geteuid())
	}
	return u.Username
}

func TestOrder(t *testing.T) {
	t.Parallel()
	b := newCommander()
	c := control.Dial(start(t, b))
	text, err := c.Order(t.Context(), order.Order{Verb: order.Pause, Name: "edge1", By: "mallory"})
	if err != nil || text != "edge1 is paused" {
		t.Errorf("%q, %v", text, err)
	}
	_, err = c.Order(t.Context(), order.Order{Verb: order.Delete, Name: "edge9"})
	if !errors.Is(err, control.ErrRefused) || !strings.Contains(err.Error(), "delete edge9") || !strings.Contains(err.Error(), "no proxy is named edge9") {
		t.Errorf("error %v, want ErrRefused with the order and the agent's reason", err)
	}
	want := []order.Order{{Verb: order.Pause, Name: "edge1", By: me(t)}, {Verb: order.Delete, Name: "edge9", By: me(t)}}
	if diff := cmp.Diff(want, b.took()); diff != "" {
		t.Errorf("orders (-want +got):\n%s", diff)
	}
	if _, err := c.Order(t.Context(), order.Order{Verb: order.Delete}); err == nil || errors.Is(err, control.ErrRefused) || len(b.given) > 0 {
		t.Errorf("an order without a name: error %v, given %v", err, b.took())
	}
	if _, err := control.Dial(filepath.Join(t.TempDir(), "none.sock")).Order(t.Context(), order.Order{Verb: order.Pause, All: true}); !errors.Is(err, control.ErrNotRunning) {
		t.Errorf("error %v, want ErrNotRunning", err)
	}
}

// post sends a body as it is to the orders and gives the answer.
func post(t *testing.T, path, contentType, body string) (code int, answer map[string]string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	resp, err := client.Post("http://x/v1/orders", contentType, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Errorf("%.80q: the answer is not JSON: %v", body, err)
	}
	return resp.StatusCode, answer
}

func TestOrderOnTheWire(t *testing.T) {
	t.Parallel()
	b := newCommander()
	path := start(t, b)
	const good, js = `{"verb":"pause","name":"edge1"}`, "application/json"
	pad := func(n int) string { return good + strings.Repeat(" ", n-len(good)) }
	for _, tt := range []struct {
		name, contentType, body string
		code                    int
		says                    string
	}{
		{"good", js, good, 200, "edge1 is paused"},
		{"with a charset", "Application/JSON; charset=utf-8", good, 200, "edge1 is paused"},
		{"as long as may be", js, pad(4096), 200, "edge1 is paused"},
		{"a signature that is not its own", js, `{"verb":"pause","name":"edge1","by":"root of all evil"}`, 200, "edge1 is paused"},
		{"refused", js, `{"verb":"pause","name":"edge2"}`, 409, "no proxy is named edge2"},
		{"too long", js, pad(4097), 413, "4096"},
		{"no type", "", good, 415, "application/json"},
		{"a form", "application/x-www-form-urlencoded", "verb=pause&name=edge1", 415, "application/json"},
		{"empty", js, "", 400, "decode"},
		{"cut off", js, good[:20], 400, "decode"},
		{"a list", js, "[" + good + "]", 400, "decode"},
		{"two", js, good + good, 400, "more follows"},
		{"rubbish behind it", js, good + "x", 400, "decode"},
		{"unknown field", js, `{"verb":"pause","name":"edge1","force":true}`, 400, "force"},
		{"null", js, "null", 400, "no order"},
		{"no such verb", js, `{"verb":"explode","name":"edge1"}`, 400, "explode"},
		{"no name", js, `{"verb":"delete"}`, 400, "name"},
		{"all and a name", js, `{"verb":"pause","name":"edge1","all":true}`, 400, "or all"},
		{"not a digest", js, `{"verb":"release","digest":"*"}`, 400, "12 hex digits"},
	} {
		code, answer := post(t, path, tt.contentType, tt.body)
		if code != tt.code || !strings.Contains(answer["text"]+answer["error"], tt.says) || (answer["error"] == "") != (code == 200) {
			t.Errorf("%s: %d %v, want %d and %q", tt.name, code, answer, tt.code, tt.says)
		}
		given := b.took()
		if reached := tt.code == 200 || tt.code == 409; (len(given) == 1) != reached {
			t.Errorf("%s: the agent was given %v", tt.name, given)
		}
		for _, o := range given {
			if o.By != me(t) {
				t.Errorf("%s: given by %q, want %q", tt.name, o.By, me(t))
			}
		}
	}
}

func TestOrdersAreLogged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.sock")
	ln, err := control.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- control.Serve(ctx, ln, newCommander(), &control.Access{}, slog.New(slog.NewJSONHandler(&log, nil)))
	}()
	c := control.Dial(path)
	_, _ = c.Order(t.Context(), order.Order{Verb: order.Pause, Name: "edge1"})
	_, _ = c.Order(t.Context(), order.Order{Verb: order.Delete, Name: strings.Repeat("x", 3000)})
	cancel()
	<-ended
	var got []map[string]string
	for _, line := range bytes.Split(bytes.TrimSpace(log.Bytes()), []byte("\n")) {
		var m map[string]string
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		delete(m, "time")
		got = append(got, m)
	}
	long := "delete " + strings.Repeat("x", 93)
	want := []map[string]string{
		{"level": "INFO", "msg": "order obeyed", "order": "pause edge1", "by": me(t), "result": "edge1 is paused"},
		{"level": "INFO", "msg": "order refused", "order": long, "by": me(t), "result": "no proxy is named " + strings.Repeat("x", 3000)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
