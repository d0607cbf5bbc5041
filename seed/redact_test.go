package seed

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestI12_PrintsNoContent(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	in := Input{InstanceID: "i-1", UserData: []byte(secret), VendorData: []byte(secret),
		NetworkConfig: []byte("k: " + secret), Vars: map[string]string{"k": secret}}
	img := mustBuild(t, in)
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "in", in, "img", img)
	texts := []string{logged.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		texts = append(texts, fmt.Sprintf(verb, in), fmt.Sprintf(verb, &in), fmt.Sprintf(verb, img), fmt.Sprintf(verb, &img))
	}
	for _, text := range texts {
		if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) || len(text) > 500 {
			t.Errorf("content in %.200q", text)
		}
	}
	if want := "seed input i-1: user-data 7 bytes"; !strings.HasPrefix(texts[1], want) {
		t.Errorf("summary %q, want %q first", texts[1], want)
	}
}
