package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	maxOutput = 1 << 20 // bytes of qemu-img's stdout
	maxStderr = 2 << 10
	// qemuFD is how qemu-img reaches the file that it is handed: by the open
	// file and not by a name, under which something else could lie by then.
	qemuFD = "/proc/self/fd/3"
)

// imageInfo is what is used of qemu-img info's document.
type imageInfo struct {
	Format         string `json:"format"`
	VirtualSize    int64  `json:"virtual-size"` // bytes
	Backing        string `json:"backing-filename"`
	BackingFormat  string `json:"backing-filename-format"`
	Encrypted      bool   `json:"encrypted"`
	FormatSpecific struct {
		Data struct {
			DataFile string `json:"data-file"`
			Corrupt  bool   `json:"corrupt"`
		} `json:"data"`
	} `json:"format-specific"`
}

// info is inspect for an image that has to have content.
func (t *Tree) info(ctx context.Context, f *os.File, format string) (imageInfo, error) {
	i, err := t.inspect(ctx, f, format)
	if err == nil && i.VirtualSize <= 0 {
		return imageInfo{}, errors.New("the image has no content")
	}
	return i, err
}

// inspect examines an open image; nothing it refers to is opened. An empty
// format has qemu-img find it out. Images in use by a running guest can be
// examined.
func (t *Tree) inspect(ctx context.Context, f *os.File, format string) (imageInfo, error) {
	args := []string{"info", "--output=json", "-U"}
	if format != "" {
		args = append(args, "-f", format)
	}
	out, err := t.run(ctx, f, append(args, qemuFD)...)
	if err != nil {
		return imageInfo{}, err
	}
	var i imageInfo
	if err := json.Unmarshal(out, &i); err != nil {
		return imageInfo{}, fmt.Errorf("%s info: read its answer: %w", t.qemuImg, err)
	}
	return i, nil
}

// run runs qemu-img with f as descriptor 3, within the deadline, and gives its
// bounded output.
func (t *Tree) run(ctx context.Context, f *os.File, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, t.deadline, errDeadline)
	defer cancel()
	out, diag := &bounded{limit: maxOutput}, &bounded{limit: maxStderr}
	cmd := exec.CommandContext(ctx, t.qemuImg, args...)
	cmd.Env = []string{"LC_ALL=C"}
	cmd.ExtraFiles = []*os.File{f}
	cmd.Stdout, cmd.Stderr = out, diag
	cmd.WaitDelay = time.Second // a child of its own may hold the pipes
	err := cmd.Run()
	switch {
	case err == nil && out.over:
		return nil, fmt.Errorf("%s %s: its answer is larger than %d bytes", t.qemuImg, args[0], maxOutput)
	case err == nil:
		return out.kept.Bytes(), nil
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("%s %s: %w: install qemu-utils (Debian) or qemu-img (Fedora, openSUSE)", t.qemuImg, args[0], exec.ErrNotFound)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s %s: %w", t.qemuImg, args[0], context.Cause(ctx))
	}
	return nil, fmt.Errorf("%s %s: %w: %s", t.qemuImg, args[0], err, strings.TrimSpace(printable(diag.kept.String())))
}

var errDeadline = errors.New("it did not answer in time and was killed")

// printable replaces what could act on a terminal or break a log line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// bounded keeps the first limit bytes written to it and takes the rest, so
// that the writer is not held up. The buffer is not embedded: its ReadFrom
// would take everything.
type bounded struct {
	limit int
	kept  bytes.Buffer
	over  bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), b.limit-b.kept.Len())
	b.over = b.over || keep < len(p)
	b.kept.Write(p[:keep])
	return len(p), nil
}
