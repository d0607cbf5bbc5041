package web

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Access is one line of nginx's access log.
type Access struct {
	Client string // the distinguished name in its certificate
	Serial string // of its certificate, in upper-case hex digits
	Method string
	Path   string
	Status int
	ETag   string // that it sent back; "-" if none
}

// Accesses is what nginx was asked so far, oldest first.
func (n *Nginx) Accesses() []Access {
	text, err := os.ReadFile(filepath.Join(n.dir, "access.log"))
	if err != nil {
		return nil
	}
	var out []Access
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 6 {
			continue // being written
		}
		code, _ := strconv.Atoi(f[4])
		out = append(out, Access{Client: f[0], Serial: f[1], Method: f[2], Path: f[3], Status: code, ETag: f[5]})
	}
	return out
}
