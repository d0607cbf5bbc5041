package image

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/observe"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// Kinds of files, as ParseFile gives them.
const (
	KindOverlay = "overlay"
	KindRecord  = "record"
	KindSeed    = "seed"
	KindConsole = "console"
)

// Directories and special files beneath the root.
const (
	markerFile = ".egress-tree"
	baseDir    = "base"
	diskDir    = "disk"
	seedDir    = "seed"
	consoleDir = "console"
)

// subdirs gives the directories of a tree.
func subdirs() []string { return []string{baseDir, diskDir, seedDir, consoleDir} }

const (
	overlaySuffix  = ".qcow2"
	recordSuffix   = ".json"
	seedSuffix     = ".iso"
	consoleSuffix  = ".log"
	partSuffix     = ".part"
	instancePrefix = "i-"
	instanceLen    = len(instancePrefix) + 16
	digestLen      = 64
)

// Paths are where the files of one incarnation are; all absolute.
type Paths struct {
	Overlay string
	Seed    string
	Record  string
	Console string // of the name (or its identity: NAME~1), not of the incarnation
}

// Paths gives the paths for a valid name and instance-id. It does no I/O.
func (t *Tree) Paths(name, instance string) Paths {
	id := name + "." + instance
	return Paths{
		Overlay: filepath.Join(t.root, diskDir, id+overlaySuffix),
		Seed:    filepath.Join(t.root, seedDir, id+seedSuffix),
		Record:  filepath.Join(t.root, diskDir, id+recordSuffix),
		Console: filepath.Join(t.root, consoleDir, name+consoleSuffix),
	}
}

// base gives the base image of a digest, whether it is there or not.
func (t *Tree) base(sha256, format string) observe.Base {
	return observe.Base{
		SHA256: sha256,
		Path:   filepath.Join(t.root, baseDir, sha256+"."+format),
		Format: format,
	}
}

// ParseFile is the inverse of Paths for the last element of a path: the name,
// the instance-id (empty for a console log) and the kind of file. ok is false
// for everything that Paths never gives.
func ParseFile(base string) (name, instance, kind string, ok bool) {
	kinds := [...]struct{ suffix, kind string }{
		{overlaySuffix, KindOverlay}, {recordSuffix, KindRecord}, {seedSuffix, KindSeed},
	}
	for _, k := range kinds {
		id, found := strings.CutSuffix(base, k.suffix)
		if !found {
			continue
		}
		cut := len(id) - instanceLen - 1
		if cut < 1 || id[cut] != '.' || !validName(id[:cut]) || !validInstance(id[cut+1:]) {
			return "", "", "", false
		}
		return id[:cut], id[cut+1:], k.kind, true
	}
	if id, found := strings.CutSuffix(base, consoleSuffix); found && checkIdentity(id) == nil {
		return id, "", KindConsole, true
	}
	return "", "", "", false
}

// parseBase reads the file name of a base image.
func parseBase(file string) (sha256, format string, ok bool) {
	sha256, format, _ = strings.Cut(file, ".")
	return sha256, format, validDigest(sha256) && validFormat(format)
}

// partName is the temporary name of a file that is being written. Names that
// are published never start with a dot.
func partName(final string) string { return "." + final + partSuffix }

// parsePart is the inverse of partName.
func parsePart(file string) (final string, ok bool) {
	final, ok = strings.CutPrefix(file, ".")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(final, partSuffix)
}

// validName holds names to the rule that specs are held to, once more before
// they become file names.
func validName(s string) bool { return spec.CheckName(spec.KindProxy, s) == nil }

func validInstance(s string) bool {
	rest, ok := strings.CutPrefix(s, instancePrefix)
	return ok && len(s) == instanceLen && isHex(rest)
}

func validDigest(s string) bool { return len(s) == digestLen && isHex(s) }

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// formats gives the formats of base images.
func formats() []string { return []string{"qcow2", "raw"} }

func validFormat(s string) bool { return slices.Contains(formats(), s) }

// checkIdentity holds a proxy's identity to what may become a file name: a name,
// or a name, a tilde and the number of a generation.
func checkIdentity(id string) error {
	name, generation, later := strings.Cut(id, "~")
	if n, err := strconv.Atoi(generation); later && (err != nil || n < 1 || strconv.Itoa(n) != generation) {
		return fmt.Errorf("%q is no identity of a proxy: after the tilde comes a number from 1", clip(id, maxQuoted))
	}
	return spec.CheckName(spec.KindProxy, name)
}

// checkIDs refuses what must not become a file name.
func checkIDs(name, instance string) error {
	if err := spec.CheckName(spec.KindProxy, name); err != nil {
		return err
	}
	if !validInstance(instance) {
		return fmt.Errorf("%q is no instance-id (i- and 16 lower-case hex digits), files named after it could land outside the tree", clip(instance, maxQuoted))
	}
	return nil
}

// What is repeated of foreign text, in bytes.
const (
	maxQuoted  = 80
	maxProblem = 600
)

// clip bounds what an error repeats.
func clip(s string, n int) string { return s[:min(len(s), n)] }

// dirOf gives the directory that files of a kind are in.
func dirOf(kind string) string {
	switch kind {
	case KindSeed:
		return seedDir
	case KindConsole:
		return consoleDir
	}
	return diskDir
}
