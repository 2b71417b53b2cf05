package realizar

/*
#include <stddef.h>
#include <stdint.h>
*/
import "C"

import (
	"errors"
	"io"
	"runtime/cgo"
	"sync"
	"syscall"
	"unsafe"
)

// transfer is what a callback reads from or writes to, and the first error that it met.
type transfer struct {
	reader   io.Reader
	writer   io.Writer
	readerAt io.ReaderAt
	mu       sync.Mutex
	err      error
}

// errno notes an error and gives the number that ends the call of the library.
func (t *transfer) errno(err error) C.int32_t {
	if err == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
	number := syscall.EIO
	errors.As(err, &number)
	return C.int32_t(max(number, 1))
}

// instead returns the error of a callback in place of the library's, which knows its number only.
func (t *transfer) instead(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil && err != nil {
		return resumed(t.err)
	}
	return err
}

// progress is who is told how far a load is, and the error that ended it.
type progress struct {
	call func(done, total uint64) error
	err  error
}

//export realizarGoProgress
func realizarGoProgress(done, total C.uint64_t, user unsafe.Pointer) C.int32_t {
	p := (*cgo.Handle)(user).Value().(*progress)
	if p.err = guarded(func() error { return p.call(uint64(done), uint64(total)) }); p.err != nil {
		return 1
	}
	return 0
}

func transferOf(user unsafe.Pointer) *transfer { return (*cgo.Handle)(user).Value().(*transfer) }

//export realizarGoWrite
func realizarGoWrite(data unsafe.Pointer, n C.size_t, user unsafe.Pointer) C.int32_t {
	t := transferOf(user)
	return t.errno(guarded(func() error { return writeAll(t.writer, unsafe.Slice((*byte)(data), int(n))) }))
}

//export realizarGoRead
func realizarGoRead(out unsafe.Pointer, n C.size_t, user unsafe.Pointer) C.int32_t {
	t := transferOf(user)
	return t.errno(guarded(func() error {
		_, err := io.ReadFull(t.reader, unsafe.Slice((*byte)(out), int(n)))
		return err
	}))
}

//export realizarGoReadAt
func realizarGoReadAt(offset C.uint64_t, out unsafe.Pointer, n C.size_t, user unsafe.Pointer) C.int32_t {
	t := transferOf(user)
	return t.errno(guarded(func() error {
		read, err := t.readerAt.ReadAt(unsafe.Slice((*byte)(out), int(n)), int64(offset))
		switch {
		case read == int(n):
			return nil
		case err == nil:
			err = io.ErrUnexpectedEOF
		}
		return err
	}))
}
