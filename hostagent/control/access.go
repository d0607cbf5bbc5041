package control

import (
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strconv"
	"sync/atomic"
)

// Access says who may give orders, besides root and the user that the agent
// runs as. The zero value adds nobody.
type Access struct{ uids atomic.Pointer[[]uint32] }

// Set replaces who may, while orders come in.
func (a *Access) Set(uids []uint32) { a.uids.Store(&uids) }

// allows tells whether uid may order an agent that runs as self.
func (a *Access) allows(uid, self uint32) bool {
	if uid == 0 || uid == self {
		return true
	}
	named := a.uids.Load()
	return named != nil && slices.Contains(*named, uid)
}

// Uids that are nobody's. The kernel shows the first for each user that has no
// number in the agent's user namespace (user_namespaces(7)), and the second
// when it knows of no user at all.
const (
	overflowUID uint32 = 65534
	noUID       uint32 = 1<<32 - 1
)

// LookupUIDs gives the numbers of users, each named or given as a number. The
// error has a line for each that is no user of this host; the others are given
// all the same.
func LookupUIDs(names []string) ([]uint32, error) {
	var uids []uint32
	var problems []error
	for _, name := range names {
		uid, err := lookupUID(name)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		uids = append(uids, uid)
	}
	return uids, errors.Join(problems...)
}

func lookupUID(name string) (uint32, error) {
	number := name
	if _, err := strconv.ParseUint(name, 10, 32); err != nil {
		u, err := user.Lookup(name)
		var unknown user.UnknownUserError
		switch {
		case errors.As(err, &unknown):
			return 0, fmt.Errorf("there is no user %.200q on this host: correct admins in [control] of the config, or make the user and reload the agent", name)
		case err != nil:
			return 0, fmt.Errorf("look up user %.200q: %w", name, err)
		}
		number = u.Uid
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("user %.200q has the uid %.20q, which is no number of 32 bits", name, number)
	}
	if uid := uint32(n); uid != overflowUID && uid != noUID {
		return uid, nil
	}
	return 0, fmt.Errorf("user %.200q can not be an admin: uid %s stands for everybody whom the kernel has no number for", name, number)
}
