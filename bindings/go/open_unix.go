//go:build !cgo && !windows

package realizar

import "github.com/ebitengine/purego"

func openLibrary(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
}

func lookUp(handle uintptr, name string) (uintptr, error) { return purego.Dlsym(handle, name) }
