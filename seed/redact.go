package seed

import (
	"fmt"
	"log/slog"
)

// Format prints an Input without its documents and variables, whatever the verb.
func (in Input) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, in.summary()) }

// LogValue logs an Input without its documents and variables.
func (in Input) LogValue() slog.Value { return slog.StringValue(in.summary()) }

func (in Input) summary() string {
	return fmt.Sprintf("seed input %s: user-data %d bytes, vendor-data %d bytes, network-config %d bytes, %d vars, guest agent %t",
		clip(in.InstanceID), len(in.UserData), len(in.VendorData), len(in.NetworkConfig), len(in.Vars), in.GuestAgent)
}

// Format prints an Image without its bytes, whatever the verb.
func (img Image) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, img.summary()) }

// LogValue logs an Image without its bytes.
func (img Image) LogValue() slog.Value { return slog.StringValue(img.summary()) }

func (img Image) summary() string {
	return fmt.Sprintf("seed image of %d bytes, sha256 %s", len(img.Bytes), img.SHA256)
}
