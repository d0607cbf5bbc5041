package source

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// limits are the bounds of what one user namespace may have of inotify, which
// a process that is root in one can set for itself
// (https://docs.kernel.org/admin-guide/sysctl/user.html), and the sysctl that
// the agent names, which bounds a user in the same way.
var limits = map[string]string{
	"/proc/sys/user/max_inotify_instances": "fs.inotify.max_user_instances",
	"/proc/sys/user/max_inotify_watches":   "fs.inotify.max_user_watches",
}

// insideEnv names the limit, in the process that has none of it.
const insideEnv = "EGRESS_TEST_INOTIFY"

// TestCase129_InotifyIsUsedUp: with the kernel's own refusal, at the start, the
// directory is polled, the log names the sysctl, and events are back once
// there is something left of it.
func TestCase129_InotifyIsUsedUp(t *testing.T) {
	t.Parallel()
	if limit := os.Getenv(insideEnv); limit != "" {
		usedUp(t, limit)
		return
	}
	for limit := range limits {
		t.Run(limits[limit], func(t *testing.T) {
			t.Parallel()
			self, err := os.Executable()
			must(t, err)
			cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestCase129_InotifyIsUsedUp$", "-test.timeout=1m")
			cmd.Env = append(os.Environ(), insideEnv+"="+limit)
			root := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: root}
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil && os.Getenv("REQUIRE_ALL") == "" {
				t.Skipf("no user namespace can be made here: %v", err)
			}
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func usedUp(t *testing.T, limit string) {
	dir := t.TempDir()
	set := func(value string) { must(t, os.WriteFile(limit, []byte(value), 0)) }
	set("0")
	var log logs
	snaps := start(t, NewDir(dir, (&decoder{}).decode, append(pollInDoubt(), WithLogger(log.logger()))...))
	place(t, dir, map[string]string{"edge1.toml": "ok one"})
	await(t, snaps, map[string]string{"edge1": "one"})
	if got := log.count(limits[limit]); got != 1 {
		t.Errorf("%d messages name %s, want 1", got, limits[limit])
	}
	set("100")
	for log.count("are back") == 0 {
		<-snaps
	}
	place(t, dir, map[string]string{"edge1.toml": "ok healed"})
	await(t, snaps, map[string]string{"edge1": "healed"})
}
