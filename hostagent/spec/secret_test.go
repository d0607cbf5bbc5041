package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestI12_SecretIsNeverPrinted(t *testing.T) {
	const canary = "canary-7f3a"
	s := Spec{Name: "p", UserData: Secret(canary)}
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "spec", s, "secret", s.UserData)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "spec", s, "secret", s.UserData)
	if err := json.NewEncoder(&out).Encode(s); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X"} {
		fmt.Fprintf(&out, verb+"\n", s.UserData)
		fmt.Fprintf(&out, verb+"\n", s)
	}
	hex, dec := fmt.Sprintf("%x", canary), strings.Trim(fmt.Sprint([]byte(canary)), "[]")
	for _, leak := range []string{canary, hex, strings.ToUpper(hex), dec, "Y2FuYXJ5"} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("%q leaked:\n%s", leak, &out)
		}
	}
}
