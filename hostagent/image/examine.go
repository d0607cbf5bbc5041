package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// Exit codes of qemu-img, from its manual page.
const (
	exitRefused = 1 // of info: the image can not be opened
	exitCorrupt = 2 // of check
	exitLeaks   = 3 // of check: clusters that nothing uses, which do no harm
)

// ImageError means that an image with the right digest can not serve as a base.
type ImageError struct {
	Reason string // and what to do
}

// Error implements error.
func (e *ImageError) Error() string { return e.Reason }

// examine refuses an image that is not what its entry says or not complete in
// itself. qemu-img finds out the format here, once; from then on everybody is
// told it.
func (t *Tree) examine(ctx context.Context, f *os.File, img spec.Image) error {
	i, err := t.info(ctx, f, "")
	if exitCode(err) == exitRefused {
		return &ImageError{Reason: fmt.Sprintf("it can not be read as an image, get a good copy: %v", err)}
	}
	if err != nil {
		return err
	}
	if wrong := unfit(i, img); wrong != "" {
		return &ImageError{Reason: wrong}
	}
	if i.Format == "raw" {
		return nil // any bytes are one
	}
	return t.check(ctx, f, i.Format)
}

// unfit says what keeps an image from serving as its entry's base, as far as its
// header tells.
func unfit(i imageInfo, img spec.Image) string {
	switch {
	case i.Format != img.Format:
		return fmt.Sprintf("it is a %s image, the configuration says %s: correct the format", clip(i.Format, maxQuoted), img.Format)
	case i.Backing != "":
		return fmt.Sprintf("it depends on a backing file, %q: flatten it with qemu-img convert", clip(i.Backing, maxQuoted))
	case i.FormatSpecific.Data.DataFile != "":
		return fmt.Sprintf("it keeps its data in another file, %q: convert it with qemu-img convert", clip(i.FormatSpecific.Data.DataFile, maxQuoted))
	case i.Encrypted:
		return "it is encrypted: convert it to a plain one"
	case i.FormatSpecific.Data.Corrupt:
		return "it is marked corrupt: get a good copy"
	}
	return ""
}

// check refuses an image whose tables lead beyond its end, as those of one that
// was cut short before its digest was taken do: QEMU would read zeros there.
// Only the tables are read.
func (t *Tree) check(ctx context.Context, f *os.File, format string) error {
	_, err := t.run(ctx, f, "check", "-q", "-U", "-f", format, qemuFD)
	switch exitCode(err) {
	case exitLeaks:
		return nil
	case exitCorrupt:
		return &ImageError{Reason: fmt.Sprintf("it is cut short or corrupt, get a good copy: %v", err)}
	}
	return err
}

// exitCode is what a program ended with by itself; -1 if it did not.
func exitCode(err error) int {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return -1
	}
	return exit.ExitCode()
}
