package hostagent

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// appID makes the host id this agent's own: the machine-id itself is not to
// be published (machine-id(5)). It never changes.
const appID = "egress-hostagent host id v1"

var machineID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// HostID derives the host id from a machine-id file, so that it survives a
// purge and a new installation of the agent. 32 hex digits.
func HostID(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("host id: %w; set id in [host] of the config", err)
	}
	id := strings.TrimSpace(string(b))
	if !machineID.MatchString(id) {
		return "", fmt.Errorf("host id: %s does not hold a machine-id (32 hex digits); run systemd-machine-id-setup, or set id in [host] of the config", path)
	}
	h := hmac.New(sha256.New, []byte(id))
	h.Write([]byte(appID))
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
