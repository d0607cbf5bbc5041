package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
)

func (d *draft) resolveImage(t *doc.Table, images map[string]Image) Image {
	image, ok := images[d.image]
	switch {
	case ok:
	case d.image != "":
		t.Fail("image", "there is no image %q; %s", d.image, known(d.image, images, "[images.KEY]"))
	case !t.Has("image"):
		t.Fail("image", "is missing and the config has no default; %s", known("", images, "[images.KEY]"))
	}
	return image
}

func (d *draft) resolveMachine(t *doc.Table, types map[string]MachineType) (int, Size) {
	const either = "give machine_type, or cpus and memory"
	if t.Has("machine_type") && (t.Has("cpus") || t.Has("memory")) {
		t.Fail("machine_type", "is given beside cpus or memory; %s", either)
	}
	if t.Has("cpus") != t.Has("memory") && !t.Has("machine_type") {
		t.Fail("", "has only one of cpus and memory; %s", either)
	}
	if t.Has("cpus") || t.Has("memory") {
		return d.cpus, d.memory
	}
	machine, ok := types[d.machineType]
	switch {
	case ok:
	case d.machineType != "":
		t.Fail("machine_type", "there is no machine type %q; %s", d.machineType, known(d.machineType, types, "[machine_types.KEY]"))
	case !t.Has("machine_type"):
		t.Fail("machine_type", "is missing and the config has no default; %s; %s", either, known("", types, "[machine_types.KEY]"))
	}
	return machine.CPUs, machine.Memory
}

// resolveCredentials gives the path of the file that the probe's credentials are
// in. Whether there is such a file is found out when the probe needs it.
func (d *draft) resolveCredentials(t *doc.Table, files map[string]string) string {
	key := d.probe.Credentials
	file, ok := files[key]
	if key != "" && !ok {
		t.Fail("credentials", "there are no credentials %q; %s", key, known(key, files, "[credentials.KEY]"))
	}
	return file
}

// known tells the user which keys of the config there are.
func known[T any](key string, entries map[string]T, table string) string {
	const most = 12
	keys := slices.Sorted(maps.Keys(entries))
	if len(keys) == 0 {
		return "the config has none: add " + table + " to it"
	}
	guess, more := "", ""
	if near, ok := doc.Nearest(key, keys); ok && key != "" {
		guess = fmt.Sprintf("did you mean %q? ", near)
	}
	if len(keys) > most {
		more = fmt.Sprintf(" and %d more", len(keys)-most)
		keys = keys[:most]
	}
	return guess + "known: " + strings.Join(keys, ", ") + more
}
