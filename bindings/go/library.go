package realizar

import (
	"bytes"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"unsafe"
)

// lib has the functions of the library, after Open.
var lib functions

var (
	opening sync.Mutex
	opened  string // name of the library, for messages
	ready   atomic.Bool
)

// Open loads the library from a file, once, in a program built without cgo; "": the system finds it by name. A program
// built with cgo is linked with the library, so a path is [ErrUnsupported], or [ErrInvalidArgument] after the first
// use. Open is optional: the first use calls it with "". The error names the file and the problem.
func Open(path string) error {
	if path == "" && ready.Load() {
		return nil
	}
	opening.Lock()
	defer opening.Unlock()
	if ready.Load() {
		if path == "" || path == opened {
			return nil
		}
		return wrong("cannot load the library %s: %s is loaded", path, opened)
	}
	name, loaded, err := find(path)
	if err == nil {
		err = checkLayouts(name, &loaded)
	}
	if err == nil {
		lib, opened = loaded, name
		ready.Store(true)
	}
	return err
}

// checkInterface compares the library's ABI version with header.go's.
func checkInterface(name string, version uint32) error {
	if version == rz_ABI_VERSION {
		return nil
	}
	return &Error{Code: ErrVersion, Message: fmt.Sprintf("the interface of %s is %d; it must be %d", name, version, rz_ABI_VERSION)}
}

// checkLayouts compares the struct layouts of header.go with the library's.
func checkLayouts(name string, loaded *functions) error {
	type place struct{ offset, size uintptr }
	mine := map[string]place{}
	for _, value := range structs {
		t := reflect.TypeOf(value)
		for i := range t.NumField() {
			field := t.Field(i)
			mine[t.Name()+"."+field.Name] = place{field.Offset, field.Type.Size()}
		}
	}
	layout := rz_layout{struct_size: uint32(unsafe.Sizeof(rz_layout{}))}
	for i := uint32(0); loaded.rz_layout_get(i, &layout, nil) == rz_OK; i++ {
		field := stringOf(layout.struct_name[:]) + "." + stringOf(layout.field_name[:])
		found := place{uintptr(layout.offset), uintptr(layout.size)}
		if expected, known := mine[field]; known && expected != found {
			return &Error{Code: ErrVersion, Message: fmt.Sprintf("the place of %s in %s is %d with %d bytes; it must be %d with %d",
				field, name, found.offset, found.size, expected.offset, expected.size)}
		}
		delete(mine, field)
	}
	for field := range mine {
		return &Error{Code: ErrVersion, Message: fmt.Sprintf("cannot use %s: it lacks %s", name, field)}
	}
	return nil
}

// stringOf returns a C text that ends with a NUL or with its array.
func stringOf(text []byte) string {
	text, _, _ = bytes.Cut(text, []byte{0})
	return string(text)
}

// cString returns a NUL-terminated text, for functions that read it during the call.
func cString(text string) *byte { return unsafe.SliceData(append([]byte(text), 0)) }
