package lint

import (
	"go/ast"
	"strings"
)

// learnErrors notes the names that are declared as errors: of type error or of
// one whose name ends in Error.
func (r *reader) learnErrors(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.Field:
		r.noteErrors(n.Names, n.Type)
	case *ast.ValueSpec:
		r.noteErrors(n.Names, n.Type)
	case *ast.AssignStmt:
		if to, ok := n.Lhs[0].(*ast.Ident); ok {
			r.noteErrors([]*ast.Ident{to}, asserted(n.Rhs[0]))
		}
	}
	return true
}

func (r *reader) noteErrors(names []*ast.Ident, typ ast.Expr) {
	if !isErrorType(typ) {
		return
	}
	for _, id := range names {
		r.errs[id.Name] = true
	}
}

// asserted gives T of err.(T) and errors.AsType[T](err), else nil.
func asserted(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.TypeAssertExpr:
		return e.Type
	case *ast.CallExpr:
		if i, ok := e.Fun.(*ast.IndexExpr); ok {
			if s, ok := i.X.(*ast.SelectorExpr); ok && s.Sel.Name == "AsType" {
				return i.Index
			}
		}
	}
	return nil
}

func isErrorType(typ ast.Expr) bool {
	switch t := typ.(type) {
	case *ast.Ident:
		return t.Name == "error" || strings.HasSuffix(t.Name, "Error")
	case *ast.StarExpr:
		return isErrorType(t.X)
	case *ast.SelectorExpr:
		return strings.HasSuffix(t.Sel.Name, "Error")
	}
	return false
}

// learnTexts notes the names that an error's text is assigned to.
func (r *reader) learnTexts(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if len(n.Lhs) == len(n.Rhs) {
			for i, to := range n.Lhs {
				r.noteText(to, n.Rhs[i])
			}
		}
	case *ast.ValueSpec:
		if len(n.Names) == len(n.Values) {
			for i, to := range n.Names {
				r.noteText(to, n.Values[i])
			}
		}
	}
	return true
}

func (r *reader) noteText(to, from ast.Expr) {
	if id, ok := to.(*ast.Ident); ok && id.Name != "_" && r.isText(from) {
		r.texts[id.Name] = true
	}
}

// holdsText tells whether an error's text is anywhere in e, but for the bodies
// of functions that e makes.
func (r *reader) holdsText(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		if x, ok := n.(ast.Expr); ok && r.isSource(x) {
			found = true
		}
		return !found
	})
	return found
}

// isText tells whether e's value is an error's text, whole or in part: a
// source, or one that is converted, cut, joined or changed by a function of
// strings, bytes or fmt.
func (r *reader) isText(e ast.Expr) bool {
	if r.isSource(e) {
		return true
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return r.isText(e.X)
	case *ast.SliceExpr:
		return r.isText(e.X)
	case *ast.BinaryExpr:
		return e.Op.String() == "+" && (r.isText(e.X) || r.isText(e.Y))
	case *ast.CallExpr:
		return r.keepsText(e) && len(e.Args) > 0 && r.isText(e.Args[0])
	}
	return false
}

// keepsText tells whether a call gives its first argument's text back: a
// conversion to string or bytes, or such as strings.ToLower.
func (r *reader) keepsText(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.ArrayType:
		return true
	case *ast.Ident:
		return f.Name == "string"
	case *ast.SelectorExpr:
		path, _ := r.packageOf(f)
		return (path == "strings" || path == "bytes") && !r.searches(call)
	}
	return false
}

// isSource tells whether e itself is where an error's text comes from.
func (r *reader) isSource(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return r.texts[e.Name]
	case *ast.SelectorExpr:
		return e.Sel.Name == "Message" && r.isError(e.X)
	case *ast.CallExpr:
		s, ok := e.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		if path, ok := r.packageOf(s); ok {
			return path == "fmt" && (strings.HasPrefix(s.Sel.Name, "Sprint") || strings.HasPrefix(s.Sel.Name, "Append")) && r.anyError(e.Args)
		}
		return s.Sel.Name == "Error" && len(e.Args) == 0
	}
	return false
}

func (r *reader) anyError(args []ast.Expr) bool {
	for _, a := range args {
		if r.isError(a) {
			return true
		}
	}
	return false
}

// isError tells whether e is an error, by its declaration or its name.
func (r *reader) isError(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return r.isError(e.X)
	case *ast.StarExpr:
		return r.isError(e.X)
	case *ast.SelectorExpr:
		return errorName(e.Sel.Name)
	case *ast.Ident:
		return r.errs[e.Name] || errorName(e.Name)
	}
	return false
}

func errorName(name string) bool {
	return strings.HasSuffix(name, "err") || strings.HasSuffix(name, "Err")
}
