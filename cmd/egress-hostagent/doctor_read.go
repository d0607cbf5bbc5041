package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/config"
)

// checkHost says what libvirt's daemons and the host's security modules mean
// for the agent, its files and its hooks. reached tells whether libvirt can be
// asked.
func checkHost(ctx context.Context, root fs.FS, cfg config.Config, w wired, reached bool) []finding {
	if strings.HasPrefix(cfg.Libvirt.URI, "test:") {
		return []finding{{"libvirt daemon and confinement", warn, "not checked: libvirt's test driver has no daemon and runs no guests", ""}}
	}
	daemon := readDaemons(root, cfg.Libvirt.URI).finding()
	return append([]finding{daemon}, checkConfinement(ctx, root, cfg, w, reached)...)
}

// reading is what a file of the host says. Neither a file that is not there
// nor one that this user can not read is a failure: both are told.
type reading struct {
	found   bool
	text    string // without the space around it
	problem string // why it could not be read
}

// readFile reads a file beneath root, the host's / but in tests.
func readFile(root fs.FS, name string) reading {
	b, err := fs.ReadFile(root, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return reading{}
	case err != nil:
		return reading{problem: cause(err)}
	}
	return reading{found: true, text: strings.TrimSpace(string(b))}
}

// entries gives the names in a directory beneath root; none when it is not
// there.
func entries(root fs.FS, dir string) (names []string, problem string) {
	list, err := fs.ReadDir(root, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, cause(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names, ""
}

// cause is an error without the operation and the path, which the finding
// names itself.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return err.Error()
}

// beneath tells whether a clean path is dir or in it.
func beneath(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}
