package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A fetch that begins does not clear away what another one is writing.
func TestConcurrentImages(t *testing.T) {
	t.Parallel()
	needQemu(t)
	half, goOn := make(chan struct{}), make(chan struct{})
	tree := newTree(t, WithFetcher(fetcher(func(_ context.Context, w io.Writer) error {
		close(half)
		<-goOn
		_, err := io.WriteString(w, "raw")
		return err
	})))
	slow := make(chan error)
	go func() {
		_, err := tree.EnsureBase(t.Context(), remote("raw"), nil)
		slow <- err
	}()
	<-half
	published(t, tree, "raw", mib)
	close(goOn)
	if err := <-slow; err != nil {
		t.Error(err)
	}
	if got := tree.Scan().Bases; len(got) != 2 {
		t.Errorf("bases: %v", got)
	}
}

func TestConcurrentCallsFetchOnce(t *testing.T) {
	t.Parallel()
	needQemu(t)
	var fetches atomic.Int64
	tree := newTree(t, WithFetcher(fetcher(func(_ context.Context, w io.Writer) error {
		fetches.Add(1)
		_, err := io.WriteString(w, "raw")
		return err
	})))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := tree.EnsureBase(t.Context(), remote("raw"), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := fetches.Load(); got != 1 {
		t.Errorf("%d fetches", got)
	}
}

// The one whose call fetches may leave; the next one goes on, and a waiter may
// leave, too.
func TestSingleFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tree := New("/tree", testHost)
		leader, leave := context.WithCancel(t.Context())
		waiter, leaveToo := context.WithTimeout(t.Context(), time.Second)
		defer leaveToo()
		var runs int
		results := make(chan string, 4)
		call := func(ctx context.Context, name string) {
			err := tree.single(ctx, "k", func() error {
				runs++
				if name == "leader" {
					<-ctx.Done()
					return context.Cause(ctx)
				}
				return errors.New("final")
			})
			results <- fmt.Sprint(name, ": ", err)
		}
		go call(leader, "leader")
		synctest.Wait()
		go call(waiter, "waiter")
		if got, want := <-results, "waiter: context deadline exceeded"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		go call(t.Context(), "second")
		synctest.Wait()
		leave()
		got := map[string]bool{<-results: true, <-results: true}
		if diff := cmp.Diff(map[string]bool{"leader: context canceled": true, "second: final": true}, got); diff != "" || runs != 2 {
			t.Errorf("%d runs (-want +got):\n%s", runs, diff)
		}
	})
}

func TestSingleFlightSharesFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tree := New("/tree", testHost)
		go0, runs := make(chan struct{}), 0
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				err := tree.single(t.Context(), "k", func() error { runs++; <-go0; return errFinal })
				if !errors.Is(err, errFinal) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(go0)
		wg.Wait()
		if runs != 1 {
			t.Errorf("%d runs", runs)
		}
	})
}

var errFinal = errors.New("final")
