package spec_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
	"github.com/egress-proxies/egress-hostagent/seed"
)

const cloudConfig = `#cloud-config
# größe ✓ 日本 {% set v='1' %} {{ v1.local_hostname }} $VAR %d
write_files: [{path: /x, permissions: "0755", content: "yes"}]
version: 1.10
scalars: [on, 1e3, 0123, 12:30, ~, "a\tb", 'it''s']
tail:   	
  - x`

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestI07_UserDataBytes(t *testing.T) {
	t.Parallel()
	gz := zipped(t, cloudConfig)
	twice := base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte("x"))))
	latin1 := "#cloud-config\n# gr\xfc\xdfe\n"
	tests := []struct{ name, text, file, want string }{
		{"literal", "user_data = '''\n" + strings.ReplaceAll(cloudConfig, "'''", "") + "'''", "", strings.ReplaceAll(cloudConfig, "'''", "")},
		{"no final newline", "user_data = '#cloud-config'", "", "#cloud-config"},
		{"final newlines", "user_data = '''\n#!/bin/sh\n\n\n'''", "", "#!/bin/sh\n\n\n"},
		{"jinja and comments", "user_data = '''\n## template: jinja\n#cloud-config\n# {% x %}\n{{ y }}\n'''", "", "## template: jinja\n#cloud-config\n# {% x %}\n{{ y }}\n"},
		{"spec with CRLF", "user_data = '''\r\n#!/bin/sh\r\necho\r\n'''\r\n", "", "#!/bin/sh\r\necho\r\n"},
		{"looks like base64", "user_data = 'I2Nsb3VkLWNvbmZpZwo='", "", "I2Nsb3VkLWNvbmZpZwo="},
		{"byte order mark", "user_data = '\ufeff#cloud-config'", "", "\ufeff#cloud-config"},
		{"control characters by escape", `user_data = "a\u0000\u001b\r\n"`, "", "a\x00\x1b\r\n"},
		{"empty", "user_data = ''", "", ""},
		{"base64 of gzip: one layer", "user_data_base64 = '" + base64.StdEncoding.EncodeToString(gz) + "'", "", string(gz)},
		{"base64 of base64: one layer", "user_data_base64 = '" + twice + "'", "", "eA=="},
		{"base64 in lines", "user_data_base64 = '''\n  I2Nsb3Vk\r\n\tLWNvbmZp\n  Zwo=\n'''", "", "#cloud-config\n"},
		{"file of gzip", "user_data_file = 'u'", string(gz), string(gz)},
		{"file of latin-1", "user_data_file = 'u'", latin1, latin1},
		{"file with CRLF", "user_data_file = 'u'", "#!/bin/sh\r\n", "#!/bin/sh\r\n"},
		{"file of base64", "user_data_file = 'u'", "eA==\n", "eA==\n"},
		{"file of any bytes", "user_data_file = 'u'", "\x00\xff\r\r\n\x1a\n", "\x00\xff\r\r\n\x1a\n"},
		{"40 KiB", "user_data_file = 'u'", strings.Repeat("# plain\n", 5120), strings.Repeat("# plain\n", 5120)},
		{"at the limit", "user_data_file = 'u'", strings.Repeat("#", seed.MaxUserData), strings.Repeat("#", seed.MaxUserData)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := spec.DecodeTOML("p", "p.toml", []byte(minimal+tt.text), catalog(), func(string) ([]byte, error) { return []byte(tt.file), nil })
			if err != nil {
				t.Fatal(err)
			}
			if string(s.UserData) != tt.want {
				t.Errorf("user-data of %d bytes %.200q; want %d bytes %.200q", len(s.UserData), string(s.UserData), len(tt.want), tt.want)
			}
			if in := s.SeedInput("i-0123456789abcdef", nil); string(in.UserData) != tt.want {
				t.Error("the seed gets other bytes")
			}
		})
	}
}

func TestUserDataFile(t *testing.T) {
	t.Parallel()
	for _, rel := range []string{"", ".", "..", "../x", "a/../../x", "/etc/passwd", "./x", "a//b", "a/", "a/../b", "a\nb", "a\x00b"} {
		opened := false
		_, err := spec.DecodeTOML("p", "p.toml", []byte(minimal+"user_data_file = "+tomlString(rel)), catalog(), func(string) ([]byte, error) {
			opened = true
			return nil, nil
		})
		if err == nil || opened {
			t.Errorf("%q: opened %v, error %v", rel, opened, err)
		}
	}
	if _, err := spec.DecodeTOML("p", "p.toml", []byte(minimal+"user_data_file = 'a/b.yaml'"), catalog(), nil); err == nil {
		t.Error("a file was named where none may be")
	}
	_, _ = spec.DecodeTOML("p", "p.toml", []byte(minimal+"user_data_file = 'u'\nuser_data = 'x'"), catalog(), func(string) ([]byte, error) {
		t.Error("a file was read that is one of two")
		return nil, nil
	})
}

func TestBrokenBase64(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"eA", "eA=", "eA=x", "eB==", "e===", "eA==eA==", "e-_=", "größe", "{}"} {
		if s, err := decode(minimal+"user_data_base64 = '"+text+"'", catalog()); err == nil {
			t.Errorf("%q was taken for %q", text, string(s.UserData))
		}
	}
}

func TestUserDataOverLimit(t *testing.T) {
	t.Parallel()
	_, err := spec.DecodeTOML("p", "p.toml", []byte(minimal+"user_data_file = 'u'"), catalog(), func(string) ([]byte, error) {
		return make([]byte, seed.MaxUserData+1), nil
	})
	want := fmt.Sprintf("p.toml:3:1: user_data_file: is %d bytes long; at most %d are allowed", seed.MaxUserData+1, seed.MaxUserData)
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestI12_SpecsPrintWithoutUserData(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	s, err := decode(minimal+"user_data = '''\npassword: "+secret+"\n'''", catalog())
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("spec", "spec", s, "user_data", s.UserData)
	printed := fmt.Sprintf("%v %+v %#v %s %q %s", s, s, s, s.UserData, s.UserData, log.String()) + strings.Join(s.Warnings(), "")
	if strings.Contains(printed, secret) || strings.Contains(printed, base64.StdEncoding.EncodeToString([]byte(secret))[:8]) {
		t.Errorf("printed: %s", printed)
	}
	for _, text := range []string{
		"user_data_base64 = '" + secret + "!'", "user_data = ['" + secret + "']", "user_data = '''\n" + secret + " ''' " + secret,
		"user_data = {" + secret + " = '" + secret + "'}",
	} {
		if _, err := decode(minimal+text, catalog()); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

func TestOpenErrorIsPlaced(t *testing.T) {
	t.Parallel()
	_, err := spec.DecodeTOML("p", "p.toml", []byte(minimal+"\n  user_data_file = 'u'"), catalog(), func(string) ([]byte, error) {
		return nil, errors.New("open u: permission denied")
	})
	if diff := cmp.Diff("p.toml:4:3: user_data_file: open u: permission denied", fmt.Sprint(err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
