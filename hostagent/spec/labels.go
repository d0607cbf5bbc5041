package spec

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"
)

var labelForm = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// labels reads the [labels] table. Label names are those of Prometheus
// (https://prometheus.io/docs/concepts/data_model/), where names that begin
// with two underscores are reserved.
func labels(t *doc.Table) map[string]string {
	keys := t.Keys()
	if len(keys) > MaxLabels {
		t.Fail("", "has %d labels; at most %d are allowed", len(keys), MaxLabels)
	}
	var out map[string]string
	for _, key := range keys {
		value, ok := doc.Text(t, key, labelValue)
		if len(key) > MaxLabelName || !labelForm.MatchString(key) || strings.HasPrefix(key, "__") {
			t.Fail(key, "is no label name; want letters, digits and \"_\", no digit first, not \"__\" first, at most %d bytes", MaxLabelName)
			ok = false
		}
		if ok && out == nil {
			out = make(map[string]string, len(keys))
		}
		if ok {
			out[key] = value
		}
	}
	return out
}

func labelValue(value string) (string, error) {
	switch {
	case len(value) > MaxLabelValue:
		return "", fmt.Errorf("is %d bytes long; at most %d are allowed", len(value), MaxLabelValue)
	case strings.ContainsFunc(value, isControl):
		return "", fmt.Errorf("has control characters; want text of one line")
	}
	return value, nil
}
