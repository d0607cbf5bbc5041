package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// width is the terminal width that output is made for, in columns.
const width = 80

// printable makes text from elsewhere safe for a terminal: control characters
// are shown, not sent.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) && r != ' ' {
			return '?'
		}
		return r
	}, s)
}

// clip shortens to n columns.
func clip(s string, n int) string {
	r := []rune(printable(s))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}

// wrap prints text in lines of at most width columns, later ones indented. A
// word longer than a line (a path) is not broken.
func wrap(out io.Writer, first, text string) {
	for _, para := range strings.Split(text, "\n") {
		line := first
		empty := true
		for _, word := range strings.Fields(printable(para)) {
			if !empty && len([]rune(line))+1+len([]rune(word)) > width {
				fmt.Fprintln(out, line)
				line, empty = "    ", true
			}
			if !empty {
				line += " "
			}
			line += word
			empty = false
		}
		fmt.Fprintln(out, line)
		first = "    "
	}
}

// short is the first part of a long identifier.
func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return id
}

// span is a duration in its largest whole unit.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	}
	return strconv.Itoa(int(d.Hours()/24)) + "d"
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
