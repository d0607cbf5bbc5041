// Package doc owns the mechanics of reading a document strictly: TOML or
// JSON text to plain maps with a position for every key, and a walker with
// typed accessors that collects every problem of the document instead of
// stopping at the first.
//
// It knows nothing of what keys mean; the packages that own a document's
// schema (spec, config) ask for the keys they know, and what was never asked
// for is reported as unknown. The walker takes any map[string]any with a
// Locator, whatever the text was.
package doc
