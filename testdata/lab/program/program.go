// Package program builds small bootable disk images that stand in for a guest
// operating system where a test needs real QEMU but no Linux: a program of some
// 3 KiB, on the serial port within half a second under emulation, doing one
// thing. What it does is in the directory guest, in assembler and C, compiled
// by the machine's gcc; it runs on QEMU's q35 with SeaBIOS, on the disk and
// console devices that the agent's own domains have.
//
// Defining and starting domains is left to the test, the far end of the guest
// agent's channel to the package fakeagent beneath.
package program

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed guest
var sources embed.FS

// Size is the virtual size of every image, bytes. On disk one takes some 320 KiB.
const Size = 64 << 20

// Mode is what a program does. Each prints "program: " and its mode's name on
// the first serial port once it runs, and reasons for giving up likewise.
type Mode int

const (
	// Idle halts at once, for good: it uses no processor time and heeds no power button.
	Idle Mode = iota + 1
	// Fill writes its first writable virtio disk full from 8 MiB on, 5 MiB a second, never zeros, and
	// prints "program: filled to MiB N" for each 8 MiB. A write that failed is tried again each second.
	// At the end it prints "program: full" and halts.
	Fill
	// Agent opens all ports of the virtio console, prints "program: agent open", and never reads or
	// answers: a guest agent that is connected and silent.
	Agent
	// Off turns the machine off 3 s after its start; before that it prints "program: power off".
	Off
	// Button turns the machine off when its power button is pressed, within a tenth of a second; before
	// that it prints "program: power off".
	Button
)

// String returns the mode's name, as the program prints it.
func (m Mode) String() string {
	names := []string{Idle: "idle", Fill: "fill", Agent: "agent", Off: "off", Button: "button"}
	if m < Idle || int(m) >= len(names) {
		return fmt.Sprintf("Mode(%d)", int(m))
	}
	return names[m]
}

// Build makes a bootable image of mode m, DIR/MODE.qcow2, and returns its
// path. An image that is there already is replaced. It needs gcc for x86 with
// binutils, and qemu-img; what those say is in the error.
func Build(dir string, m Mode) (path string, err error) {
	if m < Idle || m > Button {
		return "", fmt.Errorf("build program %v: no such mode", m)
	}
	scratch, err := os.MkdirTemp(dir, "program-")
	if err != nil {
		return "", fmt.Errorf("build program %v: %w", m, err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	flat, err := compile(scratch, m)
	if err != nil {
		return "", fmt.Errorf("build program %v: %w", m, err)
	}
	// A disk is longer than what is on it; the rest takes no space.
	if err := os.Truncate(flat, Size); err != nil {
		return "", fmt.Errorf("build program %v: %w", m, err)
	}
	path = filepath.Join(dir, m.String()+".qcow2")
	if err := run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", flat, path); err != nil {
		return "", fmt.Errorf("build program %v: %w", m, err)
	}
	return path, nil
}

// compile makes the program as one flat file beneath scratch, its boot sector
// first, and returns the file's path.
func compile(scratch string, m Mode) (string, error) {
	if err := os.CopyFS(scratch, sources); err != nil {
		return "", err
	}
	guest := filepath.Join(scratch, "guest")
	units, err := filepath.Glob(filepath.Join(guest, "*.[cS]"))
	if err != nil {
		return "", err
	}
	flat := filepath.Join(scratch, "flat")
	arguments := append(compilerFlags(),
		fmt.Sprintf("-DMODE=%d", m), "-T", filepath.Join(guest, "link.ld"), "-o", flat)
	return flat, run("gcc", append(arguments, units...)...)
}

// compilerFlags make code for a bare 32-bit processor: no C library, no start
// files, no registers that need turning on first, addresses as linked. So no
// 32-bit libraries need to be installed.
func compilerFlags() []string {
	return []string{
		"-m32", "-march=i386", "-mgeneral-regs-only", "-Os", "-std=gnu11", "-Wall", "-Wextra", "-Werror",
		"-ffreestanding", "-nostdlib", "-static", "-fno-pic", "-no-pie", "-fno-stack-protector",
		"-fno-asynchronous-unwind-tables", "-fcf-protection=none",
		"-Wl,--build-id=none", "-Wl,-z,noexecstack",
	}
}

// run runs a command; what it prints becomes part of its error.
func run(name string, arguments ...string) error {
	out, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
