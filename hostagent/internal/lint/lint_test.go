package lint

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// moduleRoot is the nearest directory upward that holds a go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("there is no go.mod upward")
		}
		dir = up
	}
}

// TestNothingDecidesByErrorText is the rule itself, over the whole module.
func TestNothingDecidesByErrorText(t *testing.T) {
	root := moduleRoot(t)
	found, files, err := Module(root)
	if err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("only %d files were read beneath %s", files, root)
	}
	for _, f := range found {
		f.Pos.Filename, _ = filepath.Rel(root, f.Pos.Filename)
		t.Error(f)
	}
}

// findings runs the rule over a file of package name with body as a function's.
func findings(t *testing.T, name, function, body string) []Finding {
	t.Helper()
	src := "package " + name + "\n" + `import ("bytes"; "errors"; "fmt"; "regexp"; "slices"; str "strings"; "libvirt.org/go/libvirt")
func ` + function + `(err error, problem error, c condition) {
` + body + "\n}\n"
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "f.go", src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return ErrorText(set, file)
}

func TestForbiddenForms(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"contains":             `_ = str.Contains(err.Error(), "not found")`,
		"contains, changed":    `_ = str.Contains(str.ToLower(err.Error()), "x")`,
		"contains, reversed":   `_ = str.Contains("a b", err.Error())`,
		"prefix":               `_ = str.HasPrefix(err.Error(), "x")`,
		"suffix":               `_ = str.HasSuffix(err.Error(), "x")`,
		"fold":                 `_ = str.EqualFold(err.Error(), "x")`,
		"index":                `_ = str.IndexByte(err.Error(), 'x')`,
		"last index":           `_ = str.LastIndex(err.Error(), "x")`,
		"cut":                  `_, _, _ = str.Cut(err.Error(), ":")`,
		"cut prefix":           `_, _ = str.CutPrefix(err.Error(), "x")`,
		"split":                `_ = str.SplitN(err.Error(), ":", 2)`,
		"fields":               `_ = str.Fields(err.Error())`,
		"bytes":                `_ = bytes.Contains([]byte(err.Error()), []byte("x"))`,
		"equal bytes":          `_ = bytes.Equal([]byte(err.Error()), x)`,
		"regexp package":       `_, _ = regexp.MatchString("x", err.Error())`,
		"regexp match":         `_ = re.MatchString(err.Error())`,
		"regexp find":          `_ = re.FindStringSubmatch(err.Error())`,
		"scan":                 `fmt.Sscanf(err.Error(), "%d", &n)`,
		"one of several":       `_ = slices.Contains(known, err.Error())`,
		"look-up":              `_ = known[err.Error()]`,
		"equal":                `_ = err.Error() == "x"`,
		"not equal":            `if "x" != err.Error() { return }`,
		"equal, a part":        `_ = err.Error()[:3] == "abc"`,
		"equal, unwrapped":     `_ = errors.Unwrap(err).Error() == "x"`,
		"two errors":           `_ = err.Error() == problem.Error()`,
		"switch":               `switch err.Error() { case "x": }`,
		"switch, initialised":  `switch s := err.Error(); s { case "x": }`,
		"case":                 `switch s { case err.Error(): }`,
		"case without tag":     `switch { case err.Error() == "x": }`,
		"sprint":               `_ = str.Contains(fmt.Sprint(err), "x")`,
		"sprintf":              `_ = fmt.Sprintf("%v", err) == "x"`,
		"sprintf, by type":     `_ = str.HasPrefix(fmt.Sprintf("%s", problem), "x")`,
		"message, by name":     `var lerr libvirt.Error; _ = str.Contains(lerr.Message, "x")`,
		"message, by type":     `var l libvirt.Error; _ = l.Message == "x"`,
		"message, asserted":    `l := err.(libvirt.Error); _ = l.Message == "x"`,
		"message, as type":     `l, _ := errors.AsType[libvirt.Error](err); _ = l.Message == "x"`,
		"by way of a name":     `s := err.Error(); _ = str.Contains(s, "x")`,
		"by way of names":      `s := err.Error(); l := str.ToLower(s); _ = l == "x"`,
		"in a function within": `f := func() bool { return err.Error() == "x" }; f()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := findings(t, "p", "f", body)
			if len(got) != 1 || got[0].Pos.Line != 4 || got[0].Why == "" {
				t.Errorf("%s\ngave %v, want one finding in line 4", body, got)
			}
		})
	}
}

func TestAllowedForms(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"kind":                   `_ = errors.Is(err, problem) && err == problem`,
		"number":                 `var l libvirt.Error; _ = errors.As(err, &l) && l.Code == libvirt.ERR_NO_DOMAIN`,
		"shown":                  `fmt.Println(err.Error(), fmt.Sprintf("%v", err))`,
		"kept":                   `c.Message = err.Error()`,
		"joined":                 `_ = "broken: " + err.Error()`,
		"bounded":                `s := err.Error(); if len(s) > 80 { s = str.ToValidUTF8(s[:80], "") }; fmt.Println(s)`,
		"line by line":           `for l := range str.Lines(err.Error()) { fmt.Println(l) }`,
		"is there any":           `if s := err.Error(); s != "" { fmt.Println(s) }`,
		"reported":               `if report(err.Error()) != nil { return }`,
		"logged":                 `log.Error("x", "cause", err.Error())`,
		"a condition's message":  `_ = c.Message != "" || c.Message == "x" || str.Contains(c.Message, "x")`,
		"a text of its own":      `s := fmt.Sprintf("%d", 3); _ = s == "3"`,
		"a number of its length": `n := len(err.Error()); _ = n == 3`,
		"a function as operand":  `_ = slices.ContainsFunc(all, func(string) bool { fmt.Println(err.Error()); return true })`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := findings(t, "p", "f", body); len(got) != 0 {
				t.Errorf("%s\ngave %v, want nothing", body, got)
			}
		})
	}
}

// TestLibvirtMessage: in package virt the message is for describe alone.
func TestLibvirtMessage(t *testing.T) {
	t.Parallel()
	const look = `fmt.Println(x.Message)`
	if got := findings(t, "virt", "classify", look); len(got) != 1 || !strings.Contains(got[0].String(), "f.go:4: looks at libvirt's message") {
		t.Errorf("in another function: %v", got)
	}
	if got := findings(t, "virt", "describe", look); len(got) != 0 {
		t.Errorf("in describe: %v", got)
	}
	if got := findings(t, "virt", "describe", `var l libvirt.Error; _ = l.Message == "x"`); len(got) != 1 {
		t.Errorf("deciding in describe: %v", got)
	}
}

func TestNestedModulesAndTestsAreLeftOut(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const bad = "package p\nfunc f(err error) bool { return err.Error() == \"x\" }\n"
	for name, text := range map[string]string{
		"go.mod": "module m", "a.go": bad, "a_test.go": bad, "testdata/prog/main.go": bad,
		"nested/go.mod": "module n", "nested/b.go": bad, ".hidden/c.go": bad, "_skipped/d.go": bad,
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	found, files, err := Module(root)
	if err != nil || files != 2 || len(found) != 2 || filepath.Base(found[0].Pos.Filename) != "a.go" || filepath.Base(found[1].Pos.Filename) != "main.go" {
		t.Errorf("%v, %d files, %v", found, files, err)
	}
}
