//go:build cgo

package realizar

/*
#include <stddef.h>
#include <stdint.h>

int32_t realizarGoProgress(uint64_t done, uint64_t total, uintptr_t user);
int32_t realizarGoWrite(void *data, size_t n, uintptr_t user);
int32_t realizarGoRead(void *out, size_t n, uintptr_t user);
int32_t realizarGoReadAt(uint64_t offset, void *out, size_t n, uintptr_t user);
void realizarGoLog(int32_t level, void *message, size_t n, uintptr_t user);
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// find names the library that the program is linked with.
func find(path string) (name string, linked functions, err error) {
	if path != "" {
		return "", linked, &Error{Code: ErrUnsupported, Message: fmt.Sprintf("cannot load the library %s: a program built with cgo is linked with it", path)}
	}
	name = "librealizar " + linked.rz_version()
	return name, linked, checkInterface(name, linked.rz_abi_version())
}

// The functions below are called by the library.

func progressCallback() uintptr { return uintptr(C.realizarGoProgress) }
func writeCallback() uintptr    { return uintptr(C.realizarGoWrite) }
func readCallback() uintptr     { return uintptr(C.realizarGoRead) }
func readAtCallback() uintptr   { return uintptr(C.realizarGoReadAt) }
func logCallback() uintptr      { return uintptr(C.realizarGoLog) }

//export realizarGoProgress
func realizarGoProgress(done, total C.uint64_t, user C.uintptr_t) C.int32_t {
	return C.int32_t(onProgress(uint64(done), uint64(total), uintptr(user)))
}

//export realizarGoWrite
func realizarGoWrite(data unsafe.Pointer, n C.size_t, user C.uintptr_t) C.int32_t {
	return C.int32_t(onWrite((*byte)(data), uintptr(n), uintptr(user)))
}

//export realizarGoRead
func realizarGoRead(out unsafe.Pointer, n C.size_t, user C.uintptr_t) C.int32_t {
	return C.int32_t(onRead((*byte)(out), uintptr(n), uintptr(user)))
}

//export realizarGoReadAt
func realizarGoReadAt(offset C.uint64_t, out unsafe.Pointer, n C.size_t, user C.uintptr_t) C.int32_t {
	return C.int32_t(onReadAt(uint64(offset), (*byte)(out), uintptr(n), uintptr(user)))
}

//export realizarGoLog
func realizarGoLog(level C.int32_t, message unsafe.Pointer, n C.size_t, user C.uintptr_t) {
	onLog(int32(level), (*byte)(message), uintptr(n), uintptr(user))
}
