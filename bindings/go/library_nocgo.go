//go:build !cgo

package realizar

import (
	"fmt"
	"reflect"
	"runtime"
	"sync"

	"github.com/ebitengine/purego"
)

// find loads the library and looks its functions up.
func find(path string) (name string, loaded functions, err error) {
	if path == "" {
		path = map[string]string{"darwin": "librealizar.1.dylib", "ios": "librealizar.1.dylib", "windows": "realizar.dll"}[runtime.GOOS]
		if path == "" {
			path = "librealizar.so.1"
		}
	}
	handle, err := openLibrary(path)
	if err != nil {
		return path, loaded, &Error{Code: ErrIO, Message: fmt.Sprintf("cannot load the library %s: %v", path, err), causes: []error{err}}
	}
	table := reflect.ValueOf(&loaded).Elem()
	for i := range table.NumField() {
		function := table.Type().Field(i)
		symbol, err := lookUp(handle, function.Name)
		if err != nil {
			return path, loaded, &Error{Code: ErrVersion, Message: fmt.Sprintf("cannot load the library %s: it has no function %s", path, function.Name)}
		}
		purego.RegisterFunc(reflect.NewAt(function.Type, table.Field(i).Addr().UnsafePointer()).Interface(), symbol)
		if i == 0 { // the version of the interface, without which the rest may be anything
			if err := checkInterface(path, loaded.rz_abi_version()); err != nil {
				return path, loaded, err
			}
		}
	}
	return path, loaded, nil
}

// The functions below are called by the library. There is one of each, because such are never freed.
var (
	progressCallback = sync.OnceValue(func() uintptr {
		return purego.NewCallback(func(done, total uint64, user uintptr) uintptr { return uintptr(onProgress(done, total, user)) })
	})
	writeCallback = sync.OnceValue(func() uintptr {
		return purego.NewCallback(func(data *byte, n, user uintptr) uintptr { return uintptr(onWrite(data, n, user)) })
	})
	readCallback = sync.OnceValue(func() uintptr {
		return purego.NewCallback(func(out *byte, n, user uintptr) uintptr { return uintptr(onRead(out, n, user)) })
	})
	readAtCallback = sync.OnceValue(func() uintptr {
		return purego.NewCallback(func(offset uint64, out *byte, n, user uintptr) uintptr {
			return uintptr(onReadAt(offset, out, n, user))
		})
	})
	logCallback = sync.OnceValue(func() uintptr {
		return purego.NewCallback(func(level int32, message *byte, n, user uintptr) uintptr {
			onLog(level, message, n, user)
			return 0
		})
	})
)
