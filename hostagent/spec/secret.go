package spec

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// Secret is content that must not reach a log, a status or an error: every
// way of printing it gives "***". Its bytes are reached by conversion only.
type Secret []byte

const redacted = "***"

// String implements fmt.Stringer.
func (Secret) String() string { return redacted }

// Format implements fmt.Formatter, so that no verb (%d, %x, %#v) shows bytes.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON implements json.Marshaler.
func (Secret) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) }
