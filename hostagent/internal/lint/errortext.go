package lint

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// reader looks through one declaration after the other.
type reader struct {
	set     *token.FileSet
	imports map[string]string
	virt    bool
	found   []Finding

	inside string          // the function's name
	errs   map[string]bool // names of the declaration that are errors
	texts  map[string]bool // names of the declaration that hold an error's text
}

func (r *reader) add(n ast.Node, why string) {
	r.found = append(r.found, Finding{r.set.Position(n.Pos()), why})
}

func (r *reader) declaration(d ast.Decl) {
	r.inside, r.errs, r.texts = "", map[string]bool{}, map[string]bool{}
	if f, ok := d.(*ast.FuncDecl); ok {
		r.inside = f.Name.Name
	}
	ast.Inspect(d, r.learnErrors)
	for known := -1; known != len(r.texts); { // a text may be derived from a later one in a loop
		known = len(r.texts)
		ast.Inspect(d, r.learnTexts)
	}
	ast.Inspect(d, r.judge)
}

// judge adds what breaks the rule.
func (r *reader) judge(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if n.Op != token.EQL && n.Op != token.NEQ || saysNothing(n.X) || saysNothing(n.Y) {
			return true
		}
		if r.holdsText(n.X) || r.holdsText(n.Y) {
			r.add(n, "compares an error's text; compare its kind or number")
		}
	case *ast.SwitchStmt:
		if n.Tag != nil && r.holdsText(n.Tag) {
			r.add(n, "switches on an error's text; switch on its kind or number")
		}
	case *ast.CaseClause:
		if slices.ContainsFunc(n.List, r.isText) {
			r.add(n, "has an error's text for a case; use its kind or number")
		}
	case *ast.IndexExpr:
		if r.holdsText(n.Index) {
			r.add(n, "looks an error's text up; look up its kind or number")
		}
	case *ast.CallExpr:
		if r.searches(n) && slices.ContainsFunc(n.Args, r.holdsText) {
			r.add(n, "searches an error's text; ask for its kind or number")
		}
	case *ast.SelectorExpr:
		if r.virt && n.Sel.Name == "Message" && r.inside != "describe" {
			r.add(n, "looks at libvirt's message; only describe may, for people")
		}
	}
	return true
}

// saysNothing tells whether comparing with e is no look at a text.
func saysNothing(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Value == `""` || e.Value == "``"
	case *ast.Ident:
		return e.Name == "nil"
	}
	return false
}

// searching are the functions that look into a text, by package; a name that
// ends in * stands for all that begin so.
var searching = map[string][]string{
	"strings": {"Contains*", "HasPrefix", "HasSuffix", "EqualFold", "Compare", "Count", "Index*", "LastIndex*", "Cut*", "Split*", "Fields*"},
	"bytes":   {"Contains*", "HasPrefix", "HasSuffix", "Equal*", "Compare", "Count", "Index*", "LastIndex*", "Cut*", "Split*", "Fields*"},
	"slices":  {"Contains", "Index"},
	"regexp":  {"Match*"},
	"fmt":     {"Sscan*"},
}

// matching are the methods of a regular expression that look into a text.
var matching = []string{"Match*", "Find*"}

func (r *reader) searches(call *ast.CallExpr) bool {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if path, ok := r.packageOf(s); ok {
		return named(searching[path], s.Sel.Name)
	}
	return named(matching, s.Sel.Name)
}

// packageOf gives the path of the package that s selects from.
func (r *reader) packageOf(s *ast.SelectorExpr) (string, bool) {
	id, ok := s.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	path, ok := r.imports[id.Name]
	return path, ok
}

func named(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		head, open := strings.CutSuffix(p, "*")
		return name == p || open && strings.HasPrefix(name, head)
	})
}
