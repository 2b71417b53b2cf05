// Package page has the web page at "/": a chat with the models. The program contains its files, which `make page`
// builds from src.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed dist
var folder embed.FS

// policy allows the page its own scripts, styles and connections, and nothing from elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src data: blob:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types dompurify"

// types are the content types of the files, by extension.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}

// File is a file of the page.
type File struct {
	kind, tag   string // content type; ETag
	plain, gzip []byte
}

// Files are the files of the page, by the pattern of their path.
var Files = read()

func read() map[string]*File {
	files := map[string]*File{}
	entries, err := folder.ReadDir("dist")
	if err != nil {
		panic(err) // impossible: the program contains the files
	}
	for _, entry := range entries {
		plain, err := folder.ReadFile(path.Join("dist", entry.Name()))
		if err != nil {
			panic(err)
		}
		var packed bytes.Buffer
		writer, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		_, _ = writer.Write(plain) // a write to a buffer never fails
		_ = writer.Close()
		sum := sha256.Sum256(plain)
		file := &File{kind: types[path.Ext(entry.Name())], tag: hex.EncodeToString(sum[:12]), plain: plain, gzip: packed.Bytes()}
		pattern := "/page/" + entry.Name()
		if entry.Name() == "index.html" {
			pattern = "/{$}"
		}
		files[pattern] = file
	}
	return files
}

// ServeHTTP answers with the file, which browsers keep until its ETag changes.
func (f *File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header, content, tag := w.Header(), f.plain, f.tag
	header.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		header.Set("Content-Encoding", "gzip")
		content, tag = f.gzip, tag+"-gzip"
	}
	header.Set("ETag", `"`+tag+`"`)
	header.Set("Cache-Control", "no-cache")
	header.Set("Content-Type", f.kind)
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}
