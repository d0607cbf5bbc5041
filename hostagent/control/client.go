package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

const (
	askTimeout  = 10 * time.Second             // of one whole question
	giveTimeout = orderTimeout + 5*time.Second // of one whole order: the agent knows sooner what became of it
	maxAnswer   = 16 << 20                     // bytes; a proxy takes some 2 KiB of it
)

// Client asks an agent. It is safe for use by several goroutines.
type Client struct {
	path string
	http *http.Client
}

// Dial gives a client of the agent whose socket is at path. It does no I/O:
// whether an agent runs shows with the first question.
func Dial(path string) *Client {
	c := &Client{path: path}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
		DisableKeepAlives: true,
	}}
	return c
}

// Status asks for the whole host. The error is ErrNotRunning when nothing
// answers on the socket, and fs.ErrPermission when the caller may not ask.
func (c *Client) Status(ctx context.Context) (status.Host, error) {
	var h status.Host
	if err := c.call(ctx, http.MethodGet, pathStatus, nil, &h); err != nil {
		return status.Host{}, fmt.Errorf("ask the agent for its status: %w", err)
	}
	return h, nil
}

// Proxy asks for one proxy. Errors are those of Status, and ErrNotFound when
// no proxy has that name.
func (c *Client) Proxy(ctx context.Context, name string) (status.Proxy, error) {
	var p status.Proxy
	if err := c.call(ctx, http.MethodGet, pathProxies+url.PathEscape(name), nil, &p); err != nil {
		return status.Proxy{}, fmt.Errorf("ask the agent for proxy %q: %w", name, err)
	}
	return p, nil
}

// Order gives an order and tells what the agent says happens now. Who gives it
// the agent finds out by itself, whatever o.By says. The error is ErrRefused when
// the agent does not obey, ErrNotAllowed when it takes no orders from the
// caller, ErrNotRunning and fs.ErrPermission as for Status. After any other
// error the order may or may not have reached the agent.
func (c *Client) Order(ctx context.Context, o order.Order) (text string, err error) {
	if err := o.Check(); err != nil {
		return "", err
	}
	body, err := json.Marshal(o)
	if err != nil {
		return "", fmt.Errorf("encode order %s: %w", o, err)
	}
	var done obeyed
	if err := c.call(ctx, http.MethodPost, pathOrders, body, &done); err != nil {
		return "", fmt.Errorf("%s: %w", o, err)
	}
	return done.Text, nil
}

// call makes one request, with a JSON body unless that is nil, and decodes the
// answer to it into v.
func (c *Client) call(ctx context.Context, method, path string, body []byte, v any) error {
	limit := askTimeout
	if method != http.MethodGet {
		limit = giveTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the agent did not answer within %s: %w", limit, context.DeadlineExceeded))
	defer cancel()
	// The host of the URL is not used: dial ignores it.
	req, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if body != nil {
		req.Header.Set("Content-Type", jsonType)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return err
	}
	if len(answer) > maxAnswer {
		return fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(resp.StatusCode, answer)
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return fmt.Errorf("decode the answer: %v: is the agent of another version?", err)
	}
	return nil
}

// withoutURL takes the made-up URL out of an error's text.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func refusal(code int, body []byte) error {
	var f failure
	if err := json.Unmarshal(body, &f); err != nil || f.Error == "" {
		f.Error = http.StatusText(code)
	}
	switch code {
	case http.StatusNotFound:
		return fmt.Errorf("%w: %s", ErrNotFound, f.Error)
	case http.StatusForbidden:
		return fmt.Errorf("%w: %s", ErrNotAllowed, f.Error)
	case http.StatusConflict:
		return fmt.Errorf("%w: %s", ErrRefused, f.Error)
	case http.StatusMethodNotAllowed:
		return fmt.Errorf("the agent does not know this request: it is of another version: systemctl restart egress-hostagent: %s", f.Error)
	}
	return fmt.Errorf("the agent answered %d: %s", code, f.Error)
}

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.path)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w: nothing answers on %s: start it with systemctl start egress-hostagent, or name the right socket", ErrNotRunning, c.path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s: %w: %s", c.path, fs.ErrPermission, remedy(c.path))
	default:
		return nil, err
	}
}

// remedy says who may use the socket at path. When even looking at it is
// forbidden, the directory's group is the one that counts.
func remedy(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		info, err = os.Stat(filepath.Dir(path))
	}
	if err != nil {
		return "ask as root"
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "ask as root"
	}
	gid := strconv.FormatUint(uint64(st.Gid), 10)
	g, err := user.LookupGroupId(gid)
	if err != nil {
		return "ask as root, or as a member of group " + gid
	}
	return fmt.Sprintf("ask as root, or as a member of group %s (usermod -aG %s USER, then log in again)", g.Name, g.Name)
}
