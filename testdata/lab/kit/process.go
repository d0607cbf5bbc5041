package kit

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is what the kernel says of a process now.
type Process struct {
	FDs     int
	Threads int
	RSS     int64 // bytes
}

// String is for a test's log.
func (p Process) String() string {
	return fmt.Sprintf("%d fds, %d threads, %.1f MiB", p.FDs, p.Threads, float64(p.RSS)/(1<<20))
}

// Look reads a process's figures.
func Look(pid int) (Process, error) {
	fds, err := os.ReadDir(filepath.Join(proc(pid), "fd"))
	if err != nil {
		return Process{}, err
	}
	p := Process{FDs: len(fds)}
	text, err := os.ReadFile(filepath.Join(proc(pid), "status"))
	if err != nil {
		return p, err
	}
	if p.Threads, err = strconv.Atoi(attribute(string(text), "Threads")); err != nil {
		return p, fmt.Errorf("threads of process %d: %w", pid, err)
	}
	kib, err := strconv.ParseInt(strings.TrimSuffix(attribute(string(text), "VmRSS"), " kB"), 10, 64)
	if err != nil {
		return p, fmt.Errorf("memory of process %d: %w", pid, err)
	}
	p.RSS = kib << 10
	return p, nil
}

// Stopped tells whether a process stands still by SIGSTOP, all threads of it.
func Stopped(pid int) (bool, error) {
	tasks, err := filepath.Glob(filepath.Join(proc(pid), "task/*/stat"))
	if err != nil || len(tasks) == 0 {
		return false, fmt.Errorf("process %d is not there: %v", pid, err)
	}
	for _, t := range tasks {
		stat, err := os.ReadFile(t)
		if err != nil {
			continue // the thread has ended meanwhile
		}
		// The state follows the command in parentheses, see proc(5).
		if _, rest, ok := bytes.Cut(stat, []byte(") ")); ok && rest[0] != 'T' {
			return false, nil
		}
	}
	return true, nil
}

// CPU is the processor time that a process has used, in clock ticks of 10 ms.
func CPU(pid int) (ticks int64, err error) {
	stat, err := os.ReadFile(filepath.Join(proc(pid), "stat"))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	fields := strings.Fields(string(rest))
	for _, f := range fields[11:13] { // utime, stime: fields 14 and 15 of proc(5)
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
		}
		ticks += n
	}
	return ticks, nil
}

func proc(pid int) string { return filepath.Join("/proc", strconv.Itoa(pid)) }
