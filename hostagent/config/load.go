package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
)

// Load reads the configuration file at path. A file that is not there is an
// error that matches fs.ErrNotExist, so that the caller may go on with Default;
// a file that is there and wrong is spec.Problems.
func Load(path string) (Config, error) {
	data, err := ReadDocument(path)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return Decode(path, data)
}

// ReadDocument gives the bytes of a document, of a configuration or a spec, at
// most one more than a document may have. Anything but a regular file, or a
// link to one, is an error: a pipe would be waited for without end.
func ReadDocument(path string) ([]byte, error) {
	f, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing was written
	return io.ReadAll(io.LimitReader(f, doc.MaxSize+1))
}

// OpenRegular opens a regular file for reading.
func OpenRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		_ = f.Close()
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file (%v)", path, st.Mode().Type()))
	}
	return f, nil
}
