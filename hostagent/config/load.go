package config

import (
	"fmt"
	"io"
	"os"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
)

// Load reads the configuration file at path. A file that is not there is an
// error that matches fs.ErrNotExist, so that the caller may go on with Default;
// a file that is there and wrong is spec.Problems.
func Load(path string) (Config, error) {
	data, err := read(path)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	return Decode(path, data)
}

// read gives the file's bytes, at most one more than a document may have.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // nothing was written
	return io.ReadAll(io.LimitReader(f, doc.MaxSize+1))
}
