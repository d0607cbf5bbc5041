package apply

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/image"
	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/plan"
)

// collect removes files of the tree that nobody refers to. It asks all domains,
// whoever owns them: an admin may have put another VM on one of our images.
func (e *Executor) collect(ctx context.Context, a plan.Action) error {
	refs, err := e.references(ctx)
	if err != nil {
		return err
	}
	removed, err := e.Tree.Collect(ctx, a.Bases, a.Strays, refs.to)
	for _, path := range removed {
		e.note("", "removed %s: %s", path, a.Reason)
	}
	return err
}

// references is what all domains say about files.
type references struct {
	texts []string
	// doubt is why not all that domains stand on could be seen. Only base images
	// are what others stand on without naming it.
	doubt error
}

// to tells whether anybody refers to a file of the tree. It looks for the
// file's name without its suffix, which nothing else has in it: a path may lead
// through links, and a snapshot is named after the overlay it stands on.
func (r *references) to(path string) (bool, error) {
	file := filepath.Base(path)
	key := strings.TrimSuffix(file, filepath.Ext(file))
	for _, text := range r.texts {
		if strings.Contains(text, key) {
			return true, nil
		}
	}
	if _, _, _, ofIncarnation := image.ParseFile(file); ofIncarnation {
		return false, nil
	}
	return false, r.doubt
}

// references asks every domain for what it runs on and what it will start with.
// One that does not answer, other than by being gone, could refer to anything.
func (e *Executor) references(ctx context.Context) (*references, error) {
	all, err := e.Hypervisor.ListDomains(ctx)
	if err != nil {
		return nil, err
	}
	refs := &references{}
	for _, d := range all {
		if err := e.addDomain(ctx, refs, d); gone(err) != nil {
			return nil, err
		}
	}
	return refs, nil
}

func (e *Executor) addDomain(ctx context.Context, refs *references, d observe.RawDomain) error {
	var disks []disk
	seen := map[source]bool{} // disks whose chain a document shows
	for _, inactive := range []bool{false, true} {
		text, err := e.Hypervisor.DomainXML(ctx, d.UUID, inactive)
		if err != nil {
			return err
		}
		doc, err := parseDocument(text)
		if err != nil {
			return fmt.Errorf("read domain %s: %w", d.Name, err)
		}
		refs.texts = append(refs.texts, doc.text)
		for _, k := range doc.Disks {
			if !k.layered() {
				continue
			}
			if disks = append(disks, k); doc.ID != "" && k.Backing != nil { // libvirt looked when it started
				seen[*k.Source] = true
			}
		}
	}
	for _, k := range disks {
		if refs.doubt == nil && !seen[*k.Source] && !e.isOverlay(k.path()) {
			refs.doubt = e.follow(ctx, refs, d, k)
		}
	}
	return nil
}

// isOverlay tells whether a path is that of an overlay of ours, of which the
// tree itself knows what it stands on.
func (e *Executor) isOverlay(path string) bool {
	name, instance, kind, ok := image.ParseFile(filepath.Base(path))
	return ok && kind == image.KindOverlay && e.Tree.Paths(name, instance).Overlay == path
}

// follow adds what a disk stands on, as its files say.
func (e *Executor) follow(ctx context.Context, refs *references, d observe.RawDomain, k disk) error {
	err := errors.New("a disk with a backing file is on a network or in a storage pool")
	if k.path() != "" {
		var paths []string
		paths, err = e.Tree.StandsOn(ctx, k.path(), k.Driver.Type)
		refs.texts = append(refs.texts, strings.Join(paths, "\n"))
	}
	if err != nil {
		return fmt.Errorf("domain %s may stand on a base image: %w", d.Name, err)
	}
	return nil
}
