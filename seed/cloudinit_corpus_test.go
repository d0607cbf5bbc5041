//go:build cloudinit

package seed

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mimeOf joins bodies, headers included, with LF line ends.
func mimeOf(parts ...string) string {
	doc := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"BB\"\n\n"
	for _, p := range parts {
		doc += "--BB\n" + p + "\n"
	}
	return doc + "--BB--\n"
}

const (
	config   = "#cloud-config\nruncmd: [[echo, \"0755\"]]\n"
	shell    = "#!/bin/sh\necho \"$HOME\" > /run/x\n"
	configIn = "Content-Type: text/cloud-config\nContent-Disposition: attachment; filename=\"c.yaml\"\n\n" + config
	shellIn  = "Content-Type: text/x-shellscript\n\n" + shell
	jinja    = "## template: jinja\n#cloud-config\n# {% set v='1' %}\nhostname: {{ v1.local_hostname }}\n"
	archive  = "#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    #cloud-config\n    a: 1\n- |\n  #!/bin/sh\n  echo 1\n" +
		"- filename: named.sh\n  content: |\n    #!/bin/sh\n    echo 2\n"
	boothook = "#cloud-boothook\n#!/bin/sh\necho boot\n"
	handler  = "#part-handler\ndef list_types():\n    return ['text/x-own']\ndef handle_part(*args):\n    pass\n"
	umlauts  = "#!/bin/sh\necho 'gr\u00f6\u00dfe \u2713 \u65e5\u672c \U0001F98A'\n"
)

// plainCorpus are documents that cloud-init does not take for MIME.
func plainCorpus(t *testing.T) map[string]string {
	dir := t.TempDir()
	included := filepath.Join(dir, "included")
	if err := os.WriteFile(included, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "file://" + included
	return map[string]string{
		"config":                    config,
		"config CRLF":               strings.ReplaceAll(config, "\n", "\r\n"),
		"config BOM":                "\uFEFF" + config,
		"config leading blanks":     "\n\n  " + config,
		"config no final newline":   strings.TrimSuffix(config, "\n"),
		"config UTF-8":              "#cloud-config\n# gr\u00f6\u00dfe \u2713 \u65e5\u672c \U0001F98A\na: \u00fc\n",
		"config latin-1":            "#cloud-config\n# gr\xf6\xdfe\n",
		"config upper case":         strings.ToUpper(config),
		"config broken YAML":        "#cloud-config\na: [\n",
		"config launch-index":       "#cloud-config\nlaunch-index: 3\n",
		"config of NULs":            "#cloud-config\n\x00\x00a: 1\n",
		"config jsonp":              "#cloud-config-jsonp\n[{\"op\": \"add\", \"path\": \"/a\", \"value\": 1}]\n",
		"shell":                     shell,
		"shell CRLF":                "#!/bin/sh\r\necho\r\n",
		"shell UTF-8":               umlauts,
		"shell latin-1":             "#!/bin/sh\necho \xfc\xff\n",
		"shell trailing blanks":     "#!/bin/sh\necho   \n\n\n \t\n",
		"shell long lines":          "#!/bin/sh\n: " + strings.Repeat("x", 5000) + "\n",
		"shell boundary-like":       "#!/bin/sh\n--==egress-00==\nFrom me\n.\n--\n",
		"shell python":              "#!/usr/bin/env python3\nprint('\u00fc')\n",
		"jinja config":              jinja,
		"jinja shell":               "## template: jinja\n#!/bin/sh\necho {{ ds.meta_data.upstream }}\n",
		"archive":                   archive,
		"archive empty":             "#cloud-config-archive\n[]\n",
		"boothook":                  boothook,
		"part-handler":              handler,
		"include":                   "#include\n" + url + "\n",
		"include inline":            "#include " + url + "\n",
		"include-once":              "#include-once\n" + url + "\n# comment\n" + url + "\n",
		"unknown text":              "just text\n",
		"one byte":                  "x",
		"binary":                    "\x7fELF\x00\x01\x02\xff\xfe",
		"looks like base64":         "I2Nsb3VkLWNvbmZpZwo=",
		"4 KiB before mime-version": "#!/bin/sh\n" + strings.Repeat("#", 4096) + "\nmime-version: 1.0\n",
		"60 KiB":                    "#cloud-config\npackages:\n" + strings.Repeat("- squid\n", 7500),
		"57 bytes":                  "#!/bin/sh\n" + strings.Repeat("#", 46) + "\n",
		"58 bytes":                  "#!/bin/sh\n" + strings.Repeat("#", 47) + "\n",
		"broken gzip":               string(zip(t, config)[:20]),
		"gzip of gzip":              string(zip(t, string(zip(t, config)))),
	}
}

// mimeCorpus are documents that cloud-init reads as MIME.
func mimeCorpus(t *testing.T) map[string]string {
	zipped := base64.StdEncoding.EncodeToString(zip(t, umlauts))
	inner := "Content-Type: multipart/mixed; boundary=\"CC\"\n\n--CC\n" + configIn + "\n--CC\n" + shellIn + "\n--CC--\n"
	return map[string]string{
		"multipart":             mimeOf(configIn, shellIn),
		"multipart CRLF":        strings.ReplaceAll(mimeOf(configIn, shellIn), "\n", "\r\n"),
		"multipart of one":      mimeOf(shellIn),
		"multipart unclosed":    strings.TrimSuffix(mimeOf(configIn, shellIn), "--BB--\n"),
		"multipart no newline":  strings.TrimSuffix(mimeOf(configIn), "\n"),
		"multipart nested":      mimeOf(inner, shellIn),
		"multipart preamble":    strings.Replace(mimeOf(configIn), "--BB", "preamble\n--BB", 1),
		"multipart text/plain":  mimeOf("Content-Type: text/plain\n\n"+config, "\n"+shell),
		"multipart jinja":       mimeOf("Content-Type: text/jinja2\n\n" + jinja),
		"multipart archive":     mimeOf("Content-Type: text/cloud-config-archive\n\n" + archive),
		"multipart boothook":    mimeOf("Content-Type: text/cloud-boothook\n\n" + boothook),
		"multipart handler":     mimeOf("Content-Type: text/part-handler\n\n" + handler),
		"multipart base64":      mimeOf("Content-Type: text/x-shellscript; charset=\"utf-8\"\nContent-Transfer-Encoding: base64\n\n" + base64.StdEncoding.EncodeToString([]byte(umlauts))),
		"multipart gzip part":   mimeOf("Content-Type: application/gzip\nContent-Transfer-Encoding: base64\n\n" + zipped),
		"multipart same name":   mimeOf(configIn, configIn),
		"multipart launch":      mimeOf("Launch-Index: 2\n" + shellIn),
		"multipart order":       "Content-Type: multipart/mixed; boundary=\"BB\"\nMIME-Version: 1.0\nNumber-Attachments: 1\n\n--BB\n" + configIn + "\n--BB--\n",
		"single part config":    "MIME-Version: 1.0\n" + configIn,
		"single part shell":     "mime-VERSION: 1.0\n" + shellIn,
		"single part from mbox": "From me Sat Jan  1 00:00:00 2000\nMIME-Version: 1.0\n" + shellIn,
	}
}
