package hostagent_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// inCasesDoc tells whether docs/cases.md has a place for a case: those of user-data
// to disks, of reboots of the host, of the two sources, of service and package.
func inCasesDoc(n int) bool {
	return n <= 77 || n == 87 || n == 94 || n == 109 || n >= 117 && n <= 147 || n >= 155 && n <= 170
}

// testNames gives the names of all tests of the module, those behind build tags
// included.
func testNames(t *testing.T, root string) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(data), -1) {
			names[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// casesOf gives the numbers of the cases that a test is named after.
func casesOf(test string) (out []int) {
	named := regexp.MustCompile(`^Test(?:I\d\d_)*Cases?_?((?:\d{2,3}_?)+)`).FindStringSubmatch(test)
	if named == nil {
		return nil
	}
	for _, text := range strings.FieldsFunc(named[1], func(r rune) bool { return r == '_' }) {
		if n, err := strconv.Atoi(text); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// documented gives for each case of docs/cases.md the tests its row names.
func documented(t *testing.T, root string) map[int][]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs", "cases.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[int][]string{}
	quoted := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	for line := range strings.Lines(string(data)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(cells[1]))
		if err != nil {
			continue // a head
		}
		if _, twice := rows[n]; twice {
			t.Errorf("case %d has two rows", n)
		}
		rows[n] = []string{}
		for _, m := range quoted.FindAllStringSubmatch(cells[3], -1) {
			rows[n] = append(rows[n], m[1])
		}
	}
	return rows
}

// docs/cases.md names tests that exist, and all that are named after its cases.
func TestDocumentedCasesHaveTheirTests(t *testing.T) {
	t.Parallel()
	names, rows := testNames(t, ".."), documented(t, "..")
	if len(names) < 300 || len(rows) < 50 {
		t.Fatalf("%d tests and %d rows found", len(names), len(rows))
	}
	for _, n := range slices.Sorted(maps.Keys(rows)) {
		if len(rows[n]) == 0 || !inCasesDoc(n) {
			t.Errorf("case %d: its row names no test, or it has no place there", n)
		}
		for _, test := range rows[n] {
			if !names[test] {
				t.Errorf("case %d: there is no %s", n, test)
			}
		}
	}
	for _, test := range slices.Sorted(maps.Keys(names)) {
		for _, n := range casesOf(test) {
			if inCasesDoc(n) && !slices.Contains(rows[n], test) {
				t.Errorf("%s is missing in the row of case %d", test, n)
			}
		}
	}
}

func TestCaseNumbersInTestNames(t *testing.T) {
	t.Parallel()
	for test, want := range map[string][]int{
		"TestCase047_X": {47}, "TestCase047X": {47}, "TestCases047_075_093": {47, 75, 93}, "TestI16_Case062TreeComesBack": {62},
		"TestI01_X": nil, "TestCase57_Only": {57}, "TestCaseOf": nil, "TestCase047_2Leases": {47},
	} {
		if got := casesOf(test); !slices.Equal(got, want) {
			t.Errorf("%s: %v", test, got)
		}
	}
}
