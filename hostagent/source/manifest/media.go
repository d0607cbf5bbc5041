package manifest

import (
	"bytes"
	"mime"
	"strconv"
	"strings"
)

// maxBeginning bounds how much of a content that is no manifest is shown.
const maxBeginning = 64

// checkType tells whether a content is called JSON: application/json, or a type
// with the suffix +json (RFC 6839). What a portal or a login page answers with
// status 200 is not.
func checkType(name, contentType string, body []byte) error {
	media, _, err := mime.ParseMediaType(contentType)
	if err == nil && (media == "application/json" || strings.HasSuffix(media, "+json")) {
		return nil
	}
	text := "has no content type"
	if contentType != "" {
		text = "has the content type " + strconv.QuoteToASCII(clip(contentType, maxBeginning))
	}
	if start := beginning(body); start != "" {
		text += " and begins with " + start
	}
	return faultf(WrongType, "%s: the answer %s; want application/json: see whether something else answers in the server's place", name, text)
}

// beginning shows the first bytes of a content, as ASCII, for people to see what
// it is instead. Of what may be a manifest nothing is shown: it holds user-data.
func beginning(body []byte) string {
	body = bytes.TrimLeft(body, "\ufeff \t\r\n")
	if len(body) == 0 || strings.IndexByte(`{["`, body[0]) >= 0 {
		return ""
	}
	return strconv.QuoteToASCII(clip(string(body[:min(len(body), maxBeginning)]), maxBeginning))
}
