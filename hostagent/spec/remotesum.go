package spec

import "fmt"

// CheckRemoteAll says what all specs of one manifest together have too much of;
// nil when r allows it. Specs that are shadowed by a file's, or off, count too: a
// manifest is right or wrong by itself, whatever else the host has.
func CheckRemoteAll(specs []Spec, r Remote) []Refusal {
	var out []Refusal
	refuse := func(what string, have, most any) {
		out = append(out, Refusal{Message: fmt.Sprintf("the manifest has %v %s; at most %v are allowed; [manifest.policy] of the host's config decides", have, what, most)})
	}
	var memory, disk Size
	for _, s := range specs {
		memory, disk = add(memory, s.Memory), add(disk, s.Disk)
	}
	if len(specs) > r.MaxProxies {
		refuse("proxies", len(specs), r.MaxProxies)
	}
	if r.MaxMemory != 0 && memory > r.MaxMemory {
		refuse("of memory in all", memory, r.MaxMemory)
	}
	if r.MaxDisk != 0 && disk > r.MaxDisk {
		refuse("of disk in all", disk, r.MaxDisk)
	}
	return out
}

// add is a sum that stays at the largest Size instead of turning over.
func add(a, b Size) Size {
	const most = Size(1<<63 - 1)
	if b > most-a {
		return most
	}
	return a + b
}
