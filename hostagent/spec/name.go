package spec

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxName bounds a name in bytes. It is the longest host name label, and keeps
// the path of a guest's agent socket, which a name is part of, within the 108
// bytes that a socket path can have.
const MaxName = 63

// MaxBridge bounds the name of a bridge or another interface of the host, in
// bytes: the kernel's interface names have
// at most 15.
const MaxBridge = 15

// Kinds of names for CheckName.
const (
	KindProxy       = "proxy"
	KindHost        = "host"
	KindHostID      = "host id"
	KindImage       = "image"
	KindMachineType = "machine type"
	KindNetwork     = "network"
	KindBridge      = "bridge"
	KindInterface   = "interface" // of the host
	KindCredentials = "credentials"
	KindTemplate    = "template"
)

const nameRule = `allowed: a letter or digit, then letters, digits, "_", "." and "-"`

var (
	nameForm        = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	incarnationForm = regexp.MustCompile(`\.i-[0-9a-f]{16}$`)
)

// CheckName tells whether name may become an identifier: a file's name, a
// domain's name, a label. Every name of proxies, hosts, images, machine types,
// networks, bridges, interfaces, credentials and templates passes it before it is used. The error says what would
// have gone wrong.
func CheckName(kind, name string) error {
	most := MaxName
	if kind == KindBridge || kind == KindInterface {
		most = MaxBridge
	}
	consequence := ""
	switch {
	case len(name) > most:
		return fmt.Errorf("%s name %q is %d bytes long: %s; at most %d are allowed", kind, clip(name), len(name), tooLong(kind), most)
	case !nameForm.MatchString(name):
		consequence = badForm(name)
	case strings.HasSuffix(name, "."):
		consequence = "a final dot gets lost in host names, and two names would become one"
	case incarnationForm.MatchString(name):
		consequence = "it ends like the file of an incarnation, and its files would be taken for another proxy's"
	default:
		return nil
	}
	return fmt.Errorf("%s name %q: %s; %s", kind, name, consequence, nameRule)
}

func tooLong(kind string) string {
	if kind == KindBridge || kind == KindInterface {
		return "no network interface can be called that"
	}
	return "it becomes part of file and socket paths, and those would get too long to be opened"
}

// badForm says what a name that is not of nameForm would have done.
func badForm(name string) string {
	switch {
	case name == "":
		return "an empty name would leave files and domains without one"
	case name == "." || name == "..":
		return "a name becomes a file name, and this one is a directory's"
	case strings.ContainsRune(name, '/'):
		return "a name becomes a file name, and this one would leave the image tree"
	case strings.HasPrefix(name, "-"):
		return "a name becomes an argument of commands, and this one would be read as an option"
	case strings.HasPrefix(name, "."):
		return "a name becomes a file name, and this one's file would be hidden"
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }):
		return "only ASCII can not be mistaken for another name that looks the same"
	}
	return "a name becomes a file name, a domain name and a label, and this one would have to be quoted there, or would break the line it is shown on"
}
