package source

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
)

const never = 24 * time.Hour

// start runs d until the end of the test and gives its snapshots.
func start(t *testing.T, d *Dir) <-chan Snapshot {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	snaps, ended := make(chan Snapshot), make(chan error, 1)
	go func() {
		ended <- d.Run(ctx, func(s Snapshot) {
			select {
			case snaps <- s:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v, want nil", err)
		}
	})
	return snaps
}

// await reads snapshots until one is synced and says just what is wanted.
func await(t *testing.T, snaps <-chan Snapshot, want map[string]string) {
	t.Helper()
	var last Snapshot
	for limit := time.After(time.Minute); ; {
		select {
		case last = <-snaps:
			if last.Synced && cmp.Equal(want, says(last)) {
				return
			}
		case <-limit:
			t.Fatalf("last snapshot: synced %v, problem %q; entries (-want +got):\n%s", last.Synced, last.Problem, cmp.Diff(want, says(last)))
		}
	}
}

// eventsOnly are a Dir's options for tests in which only events may bring reads.
func eventsOnly() []Option {
	return []Option{WithDebounce(5 * time.Millisecond), WithPoll(never, never)}
}

// pollInDoubt are those for tests in which reads come by polls when in doubt only.
func pollInDoubt() []Option {
	return []Option{WithDebounce(5 * time.Millisecond), WithPoll(never, 10*time.Millisecond)}
}

func TestCase117_EverySaveIsNoticed(t *testing.T) {
	t.Parallel()
	const file = "edge1.toml"
	shell := func(script string) func(dir, content string) error {
		return func(dir, content string) error {
			cmd := exec.Command("sh", "-ec", script, "sh", content)
			cmd.Dir = dir
			return cmd.Run()
		}
	}
	for name, save := range map[string]func(dir, content string) error{
		"in place": func(dir, content string) error { return os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644) },
		"vim":      shell(`touch 4913; rm 4913; mv edge1.toml edge1.toml~; echo "$1" >edge1.toml; rm edge1.toml~`),
		"sed -i":   shell(`sed -i "s/.*/$1/" edge1.toml`),
		"mv":       shell(`echo "$1" >../new; mv ../new edge1.toml`),
		"cp":       shell(`echo "$1" >../new; cp ../new edge1.toml`),
		"rsync":    shell(`echo "$1" >.edge1.toml.Ab12Cd; mv .edge1.toml.Ab12Cd edge1.toml`),
		"ln -sf":   shell(`echo "$1" >"v-$1"; ln -sf "v-$1" edge1.toml`),
		"rm first": shell(`rm edge1.toml; echo "$1" >edge1.toml`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "proxies.d")
			place(t, dir, map[string]string{file: "ok 0"})
			snaps := start(t, NewDir(dir, (&decoder{}).decode, eventsOnly()...))
			await(t, snaps, map[string]string{"edge1": "0"})
			for i := range 5 {
				text := strconv.Itoa(i + 1)
				must(t, save(dir, "ok "+text))
				await(t, snaps, map[string]string{"edge1": text})
			}
		})
	}
}

func TestI14_RemovedFileIsNoticed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, dir, map[string]string{"edge1.toml": "ok one", "edge2.toml": "file squid.yaml", "squid.yaml": "two"})
	snaps := start(t, NewDir(dir, (&decoder{}).decode, eventsOnly()...))
	await(t, snaps, map[string]string{"edge1": "one", "edge2": "two"})
	must(t, os.Remove(filepath.Join(dir, "edge1.toml")))
	await(t, snaps, map[string]string{"edge2": "two"})
	place(t, dir, map[string]string{"squid.yaml": "new two"})
	await(t, snaps, map[string]string{"edge2": "new two"})
}

// What a watch on the directory can not see is found by polls at the shorter
// interval.
func TestI14_ChangeOutOfSightIsNoticed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files  map[string]string
		link   [2]string // from, to
		change string    // the file that changes
		to     string
	}{
		"spec behind a link":        {map[string]string{"sub/x": "ok one"}, [2]string{"edge1.toml", "sub/x"}, "sub/x", "ok two"},
		"named file in a directory": {map[string]string{"edge1.toml": "file sub/x", "sub/x": "one"}, [2]string{"unused", "x"}, "sub/x", "two"},
		"named file behind a link":  {map[string]string{"edge1.toml": "file x", "sub/x": "one"}, [2]string{"x", "sub/x"}, "sub/x", "two"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			place(t, dir, tt.files)
			must(t, os.Symlink(tt.link[1], filepath.Join(dir, tt.link[0])))
			snaps := start(t, NewDir(dir, (&decoder{}).decode, pollInDoubt()...))
			await(t, snaps, map[string]string{"edge1": "one"})
			place(t, dir, map[string]string{tt.change: tt.to})
			await(t, snaps, map[string]string{"edge1": "two"})
		})
	}
}

func TestCase122_DirectoryReplaced(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(t *testing.T, dir string){
		"moved away": func(t *testing.T, dir string) {
			must(t, os.Rename(dir, dir+".old"))
			place(t, dir, map[string]string{"edge1.toml": "ok one", "edge2.toml": "ok new two"})
		},
		"moved away and removed": func(t *testing.T, dir string) {
			must(t, os.Rename(dir, dir+".old"), os.RemoveAll(dir+".old"))
			place(t, dir, map[string]string{"edge1.toml": "ok one", "edge2.toml": "ok new two"})
		},
		"removed": func(t *testing.T, dir string) {
			must(t, os.RemoveAll(dir))
			place(t, dir, map[string]string{"edge1.toml": "ok one", "edge2.toml": "ok new two"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "proxies.d")
			place(t, dir, map[string]string{"edge1.toml": "ok one", "edge2.toml": "ok two"})
			snaps := start(t, NewDir(dir, (&decoder{}).decode, pollInDoubt()...))
			await(t, snaps, map[string]string{"edge1": "one", "edge2": "two"})
			replace(t, dir)
			await(t, snaps, map[string]string{"edge1": "one", "edge2": "new two"})
			// The new directory is the one watched: polls are over.
			place(t, dir, map[string]string{"edge1.toml": "ok new one"})
			await(t, snaps, map[string]string{"edge1": "new one", "edge2": "new two"})
		})
	}
}

func TestCase122_DirectoryMissingAtStart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "proxies.d")
	snaps := start(t, NewDir(dir, (&decoder{}).decode, pollInDoubt()...))
	if s := <-snaps; s.Synced || s.Problem == "" {
		t.Errorf("first snapshot: synced %v, problem %q; want a problem", s.Synced, s.Problem)
	}
	place(t, dir, map[string]string{"edge1.toml": "ok one"})
	await(t, snaps, map[string]string{"edge1": "one"})
	place(t, dir, map[string]string{"edge2.toml": "ok two"})
	await(t, snaps, map[string]string{"edge1": "one", "edge2": "two"})
}

func TestCase123_DataLinkIsSwapped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	place(t, dir, map[string]string{"..2026_01/edge1.toml": "ok one", "..2026_02/edge1.toml": "ok two"})
	must(t,
		os.Symlink("..2026_01", filepath.Join(dir, "..data")),
		os.Symlink("..data/edge1.toml", filepath.Join(dir, "edge1.toml")),
	)
	// Only events: the swap itself is to be noticed, not the next poll.
	snaps := start(t, NewDir(dir, (&decoder{}).decode, eventsOnly()...))
	await(t, snaps, map[string]string{"edge1": "one"})
	must(t,
		os.Symlink("..2026_02", filepath.Join(dir, "..data_tmp")),
		os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")),
	)
	await(t, snaps, map[string]string{"edge1": "two"})
}

func TestCase125_BurstWhileTheReaderIsBusy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	snaps := start(t, NewDir(dir, (&decoder{}).decode, eventsOnly()...))
	await(t, snaps, map[string]string{})
	place(t, dir, map[string]string{"first.toml": "ok first"})
	// Nobody takes the snapshot that follows: Run stands still during this.
	files := numbered(500)
	for range 4 {
		place(t, dir, files)
	}
	want := map[string]string{"first": "first"}
	for i := range 500 {
		want["p"+pad(i)] = strconv.Itoa(i)
	}
	await(t, snaps, want)
}

func pad(i int) string {
	s := "00" + strconv.Itoa(i)
	return s[len(s)-3:]
}

func TestCase125_LostEventsBringARead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var log logs
	made := make(chan *fsnotify.Watcher, 10)
	d := NewDir(dir, (&decoder{}).decode, append(eventsOnly(), WithLogger(log.logger()))...)
	d.newWatcher = func() (*fsnotify.Watcher, error) {
		w, err := fsnotify.NewWatcher()
		made <- w
		return w, err
	}
	snaps := start(t, d)
	await(t, snaps, map[string]string{})
	first := <-made
	first.Errors <- fsnotify.ErrEventOverflow
	await(t, snaps, map[string]string{}) // no file event can have caused this one
	if log.count("events were lost") != 1 || len(made) > 0 {
		t.Errorf("want one message and no new watcher, got %d and %d", log.count("events were lost"), len(made))
	}
	first.Errors <- errors.New("any other error")
	await(t, snaps, map[string]string{})
	if len(made) != 1 {
		t.Errorf("%d new watchers, want 1", len(made))
	}
	place(t, dir, map[string]string{"edge1.toml": "ok one"})
	await(t, snaps, map[string]string{"edge1": "one"})
}

func TestCase129_PollsWhenThereAreNoEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var log logs
	heal := make(chan struct{})
	d := NewDir(dir, (&decoder{}).decode, append(pollInDoubt(), WithLogger(log.logger()))...)
	d.newWatcher = func() (*fsnotify.Watcher, error) {
		select {
		case <-heal:
			return fsnotify.NewWatcher()
		default:
			return nil, syscall.EMFILE
		}
	}
	snaps := start(t, d)
	for i := range 5 {
		text := strconv.Itoa(i)
		place(t, dir, map[string]string{"edge1.toml": "ok " + text})
		await(t, snaps, map[string]string{"edge1": text})
	}
	if got := log.count("fs.inotify.max_user_instances"); got != 1 {
		t.Errorf("%d messages name the sysctl, want 1", got)
	}
	close(heal)
	for log.count("are back") == 0 {
		<-snaps
	}
	place(t, dir, map[string]string{"edge1.toml": "ok healed"})
	await(t, snaps, map[string]string{"edge1": "healed"})
}

// A directory that can not be watched, at first or when it is another one.
func TestCase129_PollsWhenAddingTheWatchFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var log logs
	d := NewDir(dir, (&decoder{}).decode, append(pollInDoubt(), WithLogger(log.logger()))...)
	d.newWatcher = func() (*fsnotify.Watcher, error) {
		w, err := fsnotify.NewWatcher()
		if err == nil {
			w.Close() // so that Add fails
		}
		return w, err
	}
	snaps := start(t, d)
	await(t, snaps, map[string]string{})
	place(t, dir, map[string]string{"edge1.toml": "ok one"})
	await(t, snaps, map[string]string{"edge1": "one"})
	if got := log.count("no file events"); got != 1 {
		t.Errorf("%d messages, want 1", got)
	}
}

func TestCase122_WatchFollowsThePath(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, w *watch){
		// No event tells of this one: it is the identity that does.
		"path leads to another directory": func(t *testing.T, w *watch) {
			must(t, os.Remove(w.dir), os.Symlink(t.TempDir(), w.dir))
		},
		// The identity is the same, but the watch is gone.
		"directory moved away and back": func(t *testing.T, w *watch) {
			real, err := os.Readlink(w.dir)
			must(t, err, os.Rename(real, real+".away"))
			<-w.signal
			must(t, os.Rename(real+".away", real))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link := filepath.Join(t.TempDir(), "proxies.d")
			real := filepath.Join(t.TempDir(), "real")
			must(t, os.Mkdir(real, 0o755), os.Symlink(real, link))
			w := newWatch(link, slog.New(slog.DiscardHandler), fsnotify.NewWatcher)
			defer w.close()
			for step, before := range []func(){func() {}, func() { change(t, w) }} {
				before()
				if !w.follow(nil) {
					t.Fatal("no events")
				}
				must(t, os.Mkdir(filepath.Join(link, strconv.Itoa(step)), 0o755)) // just one event
				<-w.signal
			}
		})
	}
}

func TestRemedyNamesTheSetting(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		syscall.EMFILE: "raise sysctl fs.inotify.max_user_instances, or the agent's limit of open files",
		syscall.ENOSPC: "raise sysctl fs.inotify.max_user_watches",
		syscall.ENFILE: "raise sysctl fs.file-max",
		syscall.EACCES: "see that the agent's user can read the directory",
	} {
		if got := remedy(&os.PathError{Op: "add", Path: "/x", Err: err}); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	steady := make([]time.Duration, 100)
	for i := range steady {
		steady[i] = time.Second + time.Duration(i)*100*time.Millisecond
	}
	tests := []struct {
		name   string
		events []time.Duration // when they come
		want   time.Duration
	}{
		{"no event", nil, time.Minute},
		{"one event", []time.Duration{time.Second}, time.Second + 200*time.Millisecond},
		{"two events", []time.Duration{time.Second, 1100 * time.Millisecond}, 1300 * time.Millisecond},
		{"they do not cease", steady, time.Second + maxQuiet*200*time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := NewDir("x", nil, WithDebounce(200*time.Millisecond))
				signal := make(chan struct{}, 100)
				start := time.Now()
				for _, at := range tt.events {
					time.AfterFunc(at, func() { signal <- struct{}{} })
				}
				d.wait(t.Context(), signal, time.Minute)
				if got := time.Since(start); got != tt.want {
					t.Errorf("waited %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestI15_WaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := NewDir("x", nil, WithDebounce(time.Hour))
		for _, events := range []int{0, 1} {
			signal := make(chan struct{}, 1)
			for range events {
				signal <- struct{}{}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start := time.Now()
			d.wait(ctx, signal, time.Hour)
			if got := time.Since(start); got != time.Second {
				t.Errorf("with %d events: ended after %v, want 1s", events, got)
			}
			cancel()
		}
	})
}
