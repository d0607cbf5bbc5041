package virt

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"libvirt.org/go/libvirt"
)

// process is the process's libvirt event loop. libvirt takes one event
// implementation for a process and keeps it for good, so this state belongs to
// the process as well.
var process loop

// loop runs libvirt's default event implementation while somebody uses it.
type loop struct {
	mu         sync.Mutex
	registered bool
	timer      int // fires only to wake the loop up
	users      int
	stop, done chan struct{}

	waits   sync.Mutex
	runs    bool            // the goroutine is in the loop
	waiting []chan struct{} // for the timer
}

// acquire registers the loop with libvirt, which has to happen before the first
// connection is made, and starts it for its first user.
func (l *loop) acquire(log *slog.Logger) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.registered {
		timer, err := register(l.fired)
		if err != nil {
			return err
		}
		l.timer, l.registered = timer, true
	}
	if l.users++; l.users == 1 {
		l.stop, l.done = make(chan struct{}), make(chan struct{})
		l.setRuns(true)
		go l.run(log, l.stop, l.done)
	}
	return nil
}

// release ends the loop with its last user and waits for its goroutine.
func (l *loop) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	close(l.stop)
	// The loop sits in poll; only an event makes it look at stop.
	libvirt.EventUpdateTimeout(l.timer, 0)
	<-l.done
}

// turnMax is how long turn waits for a loop that is stuck.
const turnMax = time.Second

// turn waits until the loop has come round, if it runs: what it was dispatching
// when turn was called is over.
func (l *loop) turn() {
	l.waits.Lock()
	if !l.runs {
		l.waits.Unlock()
		return
	}
	mine := make(chan struct{})
	l.waiting = append(l.waiting, mine)
	l.waits.Unlock()
	libvirt.EventUpdateTimeout(l.timer, 0)
	timeout := time.NewTimer(turnMax)
	defer timeout.Stop()
	select {
	case <-mine:
	case <-timeout.C:
	}
}

// fired is the timer's callback. It takes the timer back before it looks at who
// waits: whoever comes later sets it again.
func (l *loop) fired(timer int) {
	libvirt.EventUpdateTimeout(timer, -1)
	l.setRuns(true)
}

// setRuns says whether the goroutine is in the loop, at a moment when it
// dispatches nothing else; so all who wait may go.
func (l *loop) setRuns(on bool) {
	l.waits.Lock()
	defer l.waits.Unlock()
	l.runs = on
	for _, w := range l.waiting {
		close(w)
	}
	l.waiting = nil
}

// loopPause keeps a loop that fails from spinning.
const loopPause = 100 * time.Millisecond

func (l *loop) run(log *slog.Logger, stop, done chan struct{}) {
	defer close(done)
	defer l.setRuns(false)
	for {
		select {
		case <-stop:
			return
		default:
		}
		if err := libvirt.EventRunDefaultImpl(); err != nil {
			log.Error("libvirt's event loop failed", "error", describe(err))
			select {
			case <-stop:
			case <-time.After(loopPause):
			}
		}
	}
}

// register hands libvirt its event implementation and adds the timer that wakes
// the loop.
func register(fired func(timer int)) (timer int, err error) {
	v, err := libvirt.GetVersion()
	if err != nil {
		return 0, libraryError(err)
	}
	if err := checkVersion("library", v); err != nil {
		return 0, err
	}
	if err := libvirt.EventRegisterDefaultImpl(); err != nil {
		return 0, libraryError(err)
	}
	timer, err = libvirt.EventAddTimeout(-1, fired)
	if err != nil {
		return 0, libraryError(err)
	}
	return timer, nil
}

func libraryError(err error) error {
	return fmt.Errorf("load the libvirt library: %s: install libvirt's client libraries "+
		"(Debian, Ubuntu: libvirt0; Fedora, RHEL, SUSE: libvirt-libs) and start again", describe(err))
}
