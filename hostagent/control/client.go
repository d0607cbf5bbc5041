package control

import (
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

	"github.com/egress-proxies/egress-hostagent/hostagent/status"
)

const (
	clientTimeout = 10 * time.Second // of one whole question
	maxAnswer     = 16 << 20         // bytes; a proxy takes some 2 KiB of it
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
	c.http = &http.Client{
		Timeout: clientTimeout,
		Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
			DisableKeepAlives: true,
		},
	}
	return c
}

// Status asks for the whole host. The error is ErrNotRunning when nothing
// answers on the socket, and fs.ErrPermission when the caller may not ask.
func (c *Client) Status(ctx context.Context) (status.Host, error) {
	var h status.Host
	if err := c.get(ctx, pathStatus, &h); err != nil {
		return status.Host{}, fmt.Errorf("ask the agent for its status: %w", err)
	}
	return h, nil
}

// Proxy asks for one proxy. Errors are those of Status, and ErrNotFound when
// no proxy has that name.
func (c *Client) Proxy(ctx context.Context, name string) (status.Proxy, error) {
	var p status.Proxy
	if err := c.get(ctx, pathProxies+url.PathEscape(name), &p); err != nil {
		return status.Proxy{}, fmt.Errorf("ask the agent for proxy %q: %w", name, err)
	}
	return p, nil
}

func (c *Client) get(ctx context.Context, path string, v any) error {
	// The host of the URL is not used: dial ignores it.
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+path, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return err
	}
	if len(body) > maxAnswer {
		return fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(resp.StatusCode, body)
	}
	if err := json.Unmarshal(body, v); err != nil {
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
	if code == http.StatusNotFound {
		return fmt.Errorf("%w: %s", ErrNotFound, f.Error)
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
