package realizar

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// c is the loaded library.
var (
	c      functions
	opened string
	mutex  sync.Mutex
)

// Open loads the library from a file, once; "" has the system look for it under the name that it is installed with.
// Without a call [Load] does so. The error names the file and what is wrong with it.
func Open(path string) error {
	mutex.Lock()
	defer mutex.Unlock()
	if path == "" {
		path = map[string]string{"darwin": "librealizar.1.dylib", "ios": "librealizar.1.dylib", "windows": "realizar.dll"}[runtime.GOOS]
		if path == "" {
			path = "librealizar.so.1"
		}
		if opened != "" {
			return nil
		}
	}
	if opened == path {
		return nil
	} else if opened != "" {
		return fmt.Errorf("realizar: the library %s cannot be loaded beside %s", path, opened)
	}
	handle, err := openLibrary(path)
	if err != nil {
		return fmt.Errorf("realizar: the library %s cannot be loaded: %w", path, err)
	}
	var loaded functions
	table := reflect.ValueOf(&loaded).Elem()
	for i := range table.NumField() {
		name := table.Type().Field(i).Name
		symbol, err := lookUp(handle, name)
		if err != nil {
			return fmt.Errorf("realizar: the library %s has no function %s", path, name)
		}
		purego.RegisterFunc(reflect.NewAt(table.Field(i).Type(), table.Field(i).Addr().UnsafePointer()).Interface(), symbol)
		if name == "rz_abi_version" && loaded.rz_abi_version() != rz_ABI_VERSION {
			return fmt.Errorf("realizar: the library %s has the interface %d, %d is needed", path, loaded.rz_abi_version(), rz_ABI_VERSION)
		}
	}
	if err := checkLayouts(&loaded); err != nil {
		return fmt.Errorf("realizar: the library %s %w", path, err)
	}
	c, opened = loaded, path
	return nil
}

// checkLayouts compares the structs of header.go with those of the library.
func checkLayouts(loaded *functions) error {
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
	for i := uint32(0); loaded.rz_layout_get(i, &layout, nil) == 0; i++ {
		name := text(layout.struct_name[:]) + "." + text(layout.field_name[:])
		found := place{uintptr(layout.offset), uintptr(layout.size)}
		if expected, known := mine[name]; known && expected != found {
			return fmt.Errorf("has %s at %d with %d bytes, expected at %d with %d",
				name, found.offset, found.size, expected.offset, expected.size)
		}
		delete(mine, name)
	}
	for name := range mine {
		return fmt.Errorf("lacks %s", name)
	}
	return nil
}

// text is a text of C that ends with a NUL, or with its array.
func text(bytes []byte) string {
	for i, b := range bytes {
		if b == 0 {
			return string(bytes[:i])
		}
	}
	return string(bytes)
}
