// Package lint owns rules about this module's source that neither the compiler
// nor vet knows. Its test runs them over every file of the module that is not
// a test, so a broken rule is a failing test with the place in it.
//
// There is one rule: no decision hangs on the text of an error. Texts are
// translated, and change between versions of libvirt, the kernel and Go; kinds
// and numbers (errors.Is, errors.As, an error's code) do not. The rule works on
// syntax alone and leaves types to the compiler: it knows an error by its name
// or by its declaration in the same function.
package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Finding is a place where a rule is broken.
type Finding struct {
	Pos token.Position // with the file as it was named to the parser
	Why string         // what is wrong there, in a few words
}

// String is "file:line: why".
func (f Finding) String() string { return fmt.Sprintf("%s:%d: %s", f.Pos.Filename, f.Pos.Line, f.Why) }

// Module runs the rules over the Go files of the module whose go.mod is in
// root: all but tests, nested modules, and directories that the go command
// skips by their first letter. Directories named testdata are walked, since
// programs live there. It also gives how many files it read.
func Module(root string) (found []Finding, files int, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return enter(root, path, d.Name())
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", path, err)
		}
		files++
		found = append(found, ErrorText(set, file)...)
		return nil
	})
	return found, files, err
}

// enter tells WalkDir whether a directory belongs to the module.
func enter(root, path, name string) error {
	if path == root {
		return nil
	}
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// ErrorText finds decisions by an error's text in a file: searching,
// matching, splitting, comparing, switching on or looking up what an error
// says. Comparing with "" or nil is no such decision. In package virt it also
// finds every look at libvirt's message outside the function describe, which
// makes it fit for people.
func ErrorText(set *token.FileSet, file *ast.File) []Finding {
	r := &reader{set: set, imports: imports(file), virt: file.Name.Name == "virt"}
	for _, d := range file.Decls {
		r.declaration(d)
	}
	return r.found
}

// imports gives each imported package's path by its name in the file.
func imports(file *ast.File) map[string]string {
	names := map[string]string{}
	for _, i := range file.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		names[name] = path
	}
	return names
}
