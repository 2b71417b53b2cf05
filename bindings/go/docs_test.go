// The test that every exported name has a comment.
package realizar

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
	"testing"
)

func TestEveryExportedNameHasAComment(t *testing.T) {
	for _, folder := range []string{".", "hub"} {
		packages, err := parser.ParseDir(token.NewFileSet(), folder, func(file fs.FileInfo) bool { return !strings.HasSuffix(file.Name(), "_test.go") }, parser.ParseComments)
		must(t, err)
		for _, one := range packages {
			for _, file := range one.Files {
				for _, declared := range file.Decls {
					for _, name := range undocumented(declared) {
						t.Errorf("%s: %s has no comment", folder, name)
					}
				}
			}
		}
	}
}

// undocumented gives the exported names of a declaration that neither it nor a comment at the name explains. Fields
// that explain themselves need none.
func undocumented(declared ast.Decl) (names []string) {
	switch d := declared.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || ast.IsExported(receiverOf(d.Recv.List[0].Type))) {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					names = append(names, s.Names[0].Name)
				}
			}
		}
	}
	return names
}

func receiverOf(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return receiverOf(e.X)
	case *ast.IndexExpr:
		return receiverOf(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
