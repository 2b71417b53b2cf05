module realizar.dev/go/purego

go 1.24

require github.com/ebitengine/purego v0.10.0
