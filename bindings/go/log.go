package realizar

/*
#include <stddef.h>
#include <stdint.h>
*/
import "C"

import (
	"runtime/cgo"
	"unsafe"
)

//export realizarGoLog
func realizarGoLog(level C.int32_t, message *C.char, length C.size_t, user unsafe.Pointer) {
	log := (*cgo.Handle)(user).Value().(func(LogLevel, string))
	defer func() { _ = recover() }() // there may be no goroutine to go on in
	log(LogLevel(level), C.GoStringN(message, C.int(length)))
}
