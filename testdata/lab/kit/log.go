package kit

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Line is one line of the agent's log, by key.
type Line map[string]string

// Action tells what step of which proxy the line is about; empty for others.
func (l Line) Action() (action, proxy string) { return l["action"], l["proxy"] }

// pair is "key=value" of log/slog's text form; the value may be quoted.
var pair = regexp.MustCompile(`([A-Za-z0-9_.]+)=("(?:[^"\\]|\\.)*"|\S*)`)

// LogSize is how long the agent's log is now, for Log.
func (a *Agent) LogSize() int64 {
	info, err := os.Stat(a.logFile())
	if err != nil {
		return 0
	}
	return info.Size()
}

// LogText is the agent's log from that offset on.
func (a *Agent) LogText(from int64) string {
	b, err := os.ReadFile(a.logFile())
	if err != nil || int64(len(b)) < from {
		return ""
	}
	return string(b[from:])
}

// Log is the agent's log from that offset on, line by line.
func (a *Agent) Log(from int64) []Line {
	var out []Line
	for text := range strings.Lines(a.LogText(from)) {
		line := Line{}
		for _, m := range pair.FindAllStringSubmatch(text, -1) {
			line[m[1]] = strings.Trim(m[2], `"`)
		}
		out = append(out, line)
	}
	return out
}

func (a *Agent) logFile() string { return filepath.Join(a.Place.Home, "agent.log") }
