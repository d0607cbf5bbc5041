// Package order owns what an operator can tell the agent to do: the verbs,
// what each of them takes, and whether an order is complete. It is spoken by
// the command line, carried by the control API and obeyed by the planner.
//
// Whether an order can be obeyed as things stand is the planner's business.
package order

import (
	"fmt"
	"regexp"
)

// Verb is what is ordered.
type Verb string

// Verbs. All but Release and ResetManifest take a proxy's name.
const (
	Recreate Verb = "recreate" // make the guest anew, on a fresh overlay
	Delete   Verb = "delete"   // remove a proxy that no source lists
	Adopt    Verb = "adopt"    // write lost ownership metadata again; with All, take on the VMs' host id
	Abandon  Verb = "abandon"  // leave the VM as it is, for good
	Pause    Verb = "pause"    // keep the hands off
	Resume   Verb = "resume"   // end a pause, a crash loop's wait or a stopped roll-out
	Release  Verb = "release"  // let a held set of changes go on
	// ResetManifest forgets which revisions of the manifest were taken.
	ResetManifest Verb = "manifest reset"
)

// Order is one order. By says who gave it, for the log.
type Order struct {
	Verb   Verb   `json:"verb"`
	Name   string `json:"name,omitempty"`   // of the proxy
	All    bool   `json:"all,omitempty"`    // Pause, Resume, Adopt: instead of a name
	Digest string `json:"digest,omitempty"` // Release: of the set as it was shown
	By     string `json:"by,omitempty"`
}

var digestForm = regexp.MustCompile(`^[0-9a-f]{12}$`)

// Check tells whether the order says all that its verb needs and nothing else.
// Whether Name is a name is not looked at: one that is none names nothing.
func (o Order) Check() error {
	switch o.Verb {
	case Recreate, Delete, Abandon:
		if o.All || o.Name == "" || o.Digest != "" {
			return fmt.Errorf("%s needs the name of one proxy", o.Verb)
		}
	case Adopt, Pause, Resume:
		if o.All == (o.Name != "") || o.Digest != "" {
			return fmt.Errorf("%s needs the name of one proxy, or all", o.Verb)
		}
	case Release:
		if o.All || o.Name != "" {
			return fmt.Errorf("release takes the digest of a held set, nothing else")
		}
		if !digestForm.MatchString(o.Digest) {
			return fmt.Errorf("release needs the digest that status shows with the held set: 12 hex digits")
		}
	case ResetManifest:
		if o.All || o.Name != "" || o.Digest != "" {
			return fmt.Errorf("%s takes nothing", o.Verb)
		}
	default:
		return fmt.Errorf("there is no order %.40q", string(o.Verb))
	}
	return nil
}

// String is the order as it is typed.
func (o Order) String() string {
	switch {
	case o.All:
		return string(o.Verb) + " --all"
	case o.Verb == ResetManifest:
		return string(o.Verb)
	case o.Verb == Release:
		return string(o.Verb) + " " + o.Digest
	}
	return string(o.Verb) + " " + o.Name
}
