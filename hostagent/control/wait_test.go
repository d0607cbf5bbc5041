package control

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/egress-proxies/egress-hostagent/hostagent/order"
)

// rooted is a server of b on pipes, where everybody passes for root.
func rooted(b Backend) (*server, *pipes) {
	s := newServer(b, &Access{}, discard())
	s.peer = func(net.Conn) peer { return peer{} }
	return s, newPipes()
}

var pauseAll = order.Order{Verb: order.Pause, All: true}

// An order may wait for longer than a question may take to be sent or answered.
func TestAnOrderHasTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, ln := rooted(obeyFunc(func(ctx context.Context, _ order.Order) (string, error) {
			select {
			case <-time.After(orderTimeout - time.Millisecond):
				return "paused", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}))
		serveOn(t, s, ln)
		if text, err := clientOf(ln.dial).Order(t.Context(), pauseAll); text != "paused" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
	})
}

func TestI15_OrdersAreBounded(t *testing.T) {
	t.Parallel()
	untilEnd := func(ctx context.Context, _ order.Order) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	for _, tt := range []struct {
		name  string
		obey  obeyFunc
		after time.Duration
		says  string
	}{
		{"the backend waits", untilEnd, orderTimeout, "504"},
		{"a refusal about a time-out of its own", func(context.Context, order.Order) (string, error) {
			return "", context.DeadlineExceeded
		}, 0, ErrRefused.Error()},
		{"a refusal at the last moment", func(ctx context.Context, _ order.Order) (string, error) {
			<-ctx.Done()
			return "", errors.New("not now")
		}, orderTimeout, ErrRefused.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, ln := rooted(tt.obey)
				serveOn(t, s, ln)
				begin := time.Now()
				_, err := clientOf(ln.dial).Order(t.Context(), pauseAll)
				if err == nil || !strings.Contains(err.Error(), tt.says) || time.Since(begin) != tt.after {
					t.Errorf("after %s: %v; want %q after %s", time.Since(begin), err, tt.says, tt.after)
				}
			})
		})
	}
	t.Run("a backend that does not heed its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			free := make(chan struct{})
			s, ln := rooted(obeyFunc(func(context.Context, order.Order) (string, error) {
				<-free
				return "", nil
			}))
			serveOn(t, s, ln)
			begin := time.Now()
			_, err := clientOf(ln.dial).Order(t.Context(), pauseAll)
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "did not answer within") || time.Since(begin) != giveTimeout {
				t.Errorf("after %s: %v", time.Since(begin), err)
			}
			close(free)
		})
	})
}

func TestAnOrderEndsWithTheAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waits := make(chan struct{})
		s, ln := rooted(obeyFunc(func(ctx context.Context, _ order.Order) (string, error) {
			close(waits)
			<-ctx.Done()
			return "", ctx.Err()
		}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.run(ctx, ln) }()
		go func() {
			<-waits
			cancel()
		}()
		_, err := clientOf(ln.dial).Order(t.Context(), pauseAll)
		if err == nil || errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "stopping") {
			t.Errorf("error %v, want one that says that the agent is stopping", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
}
