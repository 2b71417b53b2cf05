module realizar.dev/go

go 1.24

// For programs that are built without cgo.
require github.com/ebitengine/purego v0.10.0
