package source

import (
	"fmt"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

const suffix = ".toml"

// proxyName gives the name of the proxy whose spec is in file. It is empty
// when the file is no spec; problem then says why, unless nobody could have
// meant it as one.
//
// Two rules leave out what editors and package managers put beside the files
// they handle: what starts with a dot (".x.toml.swp", ".#x.toml", "..data")
// and what does not end in ".toml" ("x.toml~", "#x.toml#", "4913",
// "x.toml.dpkg-new", "x.toml.rpmsave").
func proxyName(file string) (name, problem string) {
	if strings.HasPrefix(file, ".") {
		return "", ""
	}
	name, ok := strings.CutSuffix(file, suffix)
	if !ok {
		if strings.HasSuffix(strings.ToLower(file), suffix) {
			return "", fmt.Sprintf("%.200q: only files whose name ends in lower-case %q are read: rename it", file, suffix)
		}
		return "", ""
	}
	if err := spec.CheckName(spec.KindProxy, name); err != nil {
		return "", fmt.Sprintf("%.200q: the file's name without %q is the proxy's name: %v: rename the file", file, suffix, err)
	}
	return name, ""
}
