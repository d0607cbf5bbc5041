//go:build cloudinit

package seed

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSeed11_CloudInitReadsMetaDataUnchanged(t *testing.T) {
	t.Parallel()
	in := Input{InstanceID: "0123", Hostname: "on", Vars: map[string]string{
		"bool": "on", "octal": "0123", "float": "1e3", "time": "12:30", "date": "2026-08-01", "null": "~", "empty": "",
		"quotes": `"'\`, "utf8": "gr\u00f6\u00dfe \u2713 \u65e5\u672c", "lines": "a\nb\r\n\tc", "blanks": "  x  ",
		"odd": "\x00\x7f\u0085\u00a0\u2028\uFEFF", "flow": "{a: [b]}", "comment": "a # b", "template": "{{ v1 }} $HOME %d", "tag": "!!python/none x",
	}}
	want := map[string]any{"instance-id": "0123", "local-hostname": "on"}
	for key, value := range in.Vars {
		want[key] = value
	}
	got := ciSeeds(t, "", in)[0].Metadata
	delete(got, "dsmode") // the data source's own default
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("meta-data (-want +got):\n%s", diff)
	}
}

func TestSeed11_CloudInitRendersVars(t *testing.T) {
	t.Parallel()
	in := Input{InstanceID: "i", Vars: map[string]string{"upstream": "isp-\u00e4", "octal": "0123", "with-hyphen": "on"}}
	got := ciSeeds(t, "## template: jinja\n#cloud-config\na: \"{{ ds.meta_data.upstream }} {{ ds.meta_data.octal }} {{ ds.meta_data.with_hyphen }}\"\n", in)[0].Template
	if want := "#cloud-config\na: \"isp-\u00e4 0123 on\""; got != want && got != want+"\n" {
		t.Errorf("rendered %q, want %q", got, want)
	}
}

// NoCloud hands on what the image holds, byte for byte.
func TestI07_Seed03_CloudInitGetsUserDataByteIdentical(t *testing.T) {
	t.Parallel()
	docs := corpus(t)
	names := slices.Sorted(maps.Keys(docs))
	var inputs []Input
	for _, name := range names {
		inputs = append(inputs, Input{InstanceID: "i", UserData: docs[name]})
	}
	for i, guest := range ciSeeds(t, "", inputs...) {
		if want := docs[names[i]]; !bytes.Equal(guest.UserData, want) {
			t.Errorf("%s: cloud-init has %d bytes that differ from the %d put in", names[i], len(guest.UserData), len(want))
		}
	}
}

// What the check of network-config lets pass is a mapping to cloud-init's YAML
// reader or no YAML, and it refuses no mapping.
func TestSeed13_CloudInitAgreesOnMappings(t *testing.T) {
	t.Parallel()
	docs := mappingCorpus()
	var ask [][]byte
	for _, doc := range docs {
		ask = append(ask, []byte(doc))
	}
	answer, counts := cloudInit(t, map[string]any{"yaml": ask}).YAML, map[string]int{}
	for i, doc := range docs {
		problem := mappingProblem([]byte(doc))
		if kind := answer[i]; kind == "mapping" && problem != "" || kind == "other" && problem == "" {
			t.Errorf("%q is %q to PyYAML; the check says %q", doc, kind, problem)
		}
		counts[answer[i]]++
	}
	if counts["mapping"] < 100 || counts["other"] < 50 {
		t.Errorf("a corpus of %v", counts)
	}
}

// mappingCorpus puts everything that may precede content before everything that
// it may start with.
func mappingCorpus() []string {
	before := []string{"", "\n \n", "# c\n", "---\n", "%YAML 1.1\n---\n", "--- ", "--- # c\n", "&a\n", "--- &a\n", "&a # c: d\n", "\r\n"}
	start := []string{
		"version: 2\n", "version: 2", "version:\n  2\n", "version:\t2\n", "version : 2\n", "version: {a: [b]}\n", "{version: 2}\n", "{}", "{\n\t\"version\": 2}\n",
		"\"version\": 2\n", "'version': 2\n", "'it''s': 2\n", "\"a\\\"b\": 2\n", "\"a: b\" : 2\n", "? version\n: 2\n", "!!map\nversion: 2\n", "!!str version: 2\n",
		"a#b: 2\n", "http://x: 1\n", "a: 'b\n\n  c'\n", "a: |\n  - b\n", "1: 2\n", "a: 1 # c\n", "a: # c\n", "gr\u00f6\u00dfe: 2\n", "-a: 1\n", "<<: {a: 1}\n", "version: 2\r\na: b\r\n",
		"- version: 2\n", "-\n  version: 2\n", "-\tversion\n", "[version: 2]\n", "[]", "version\n", "version 2\n", "12:30\n", "192.0.2.1:80\n", "http://example.test/\n",
		"\"version: 2\"\n", "'version: 2'\n", "\"version:\n  2\"\n", "'it''s: 2'\n", "|\n  version: 2\n", ">\n  version: 2\n", "|-\n  a:\n", "version # a: b\n", "version\n  # a: b\n",
		"# version: 2\n", "", "~\n", "null\n", "!!str 2\n", "!!seq [a]\n", "true\n", "a:b\n", "<!DOCTYPE html>\n", "\tversion: 2\n", "version: [\n", "a\n  b: c\n", "@a: b\n", "`a`: b\n", "*a\n",
	}
	var docs []string
	for _, b := range before {
		for _, s := range start {
			docs = append(docs, b+s)
		}
	}
	return docs
}
