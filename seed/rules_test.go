package seed

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// Nothing looks at user-data but for its size, so nothing that a format could
// forbid is refused.
func TestSeed04_UserDataIsOnlyMeasured(t *testing.T) {
	t.Parallel()
	docs := documents(t)
	docs["broken YAML"] = []byte("#cloud-config\na: [\n\t- }\n")
	docs["broken MIME"] = []byte("MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n\xff")
	docs["broken gzip"] = zip(t, "#cloud-config\n")[:12]
	for name, doc := range docs {
		if err := (Input{InstanceID: "i", UserData: doc}).Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The library that writes images lets a name escape its staging directory, and
// links local files: what it is given are files named by constants.
func TestSeed05_OnlyConstantNamesReachTheLibrary(t *testing.T) {
	t.Parallel()
	names := []string{"UserDataFile", "MetaDataFile", "VendorDataFile", "NetworkConfigFile"}
	literals := 0
	for _, f := range sources(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if strings.HasPrefix(n.Sel.Name, "AddLocal") {
					t.Errorf("%s is used", n.Sel.Name)
				}
			case *ast.CompositeLit:
				if id, ok := n.Type.(*ast.Ident); ok && id.Name == "file" {
					literals += checkFile(t, n, names)
				}
				if list, ok := n.Type.(*ast.ArrayType); ok && isIdent(list.Elt, "file") {
					for _, e := range n.Elts {
						literals += checkFile(t, e.(*ast.CompositeLit), names)
					}
				}
			}
			return true
		})
	}
	if literals != len(names) {
		t.Errorf("%d files are made, want %d", literals, len(names))
	}
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// checkFile wants a file's name to be one of the constants; it returns 1.
func checkFile(t *testing.T, lit *ast.CompositeLit, names []string) int {
	t.Helper()
	if id, ok := lit.Elts[0].(*ast.Ident); !ok || !slices.Contains(names, id.Name) {
		t.Errorf("a file is named by %v, which is not one of %v", lit.Elts[0], names)
	}
	return 1
}

// sources are this package's own files, without tests.
func sources(t *testing.T) []*ast.File {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") {
			f, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
	}
	return files
}

func TestSeed07_LengthIsAMultipleOf64KiB(t *testing.T) {
	t.Parallel()
	for n := 0; n < 200<<10; n += 2048 {
		if size := len(mustBuild(t, Input{InstanceID: "i", UserData: noise(n)}).Bytes); size%(64<<10) != 0 || size < n {
			t.Errorf("user-data of %d bytes: the image has %d", n, size)
		}
	}
}
