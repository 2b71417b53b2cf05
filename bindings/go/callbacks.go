package realizar

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Callbacks get handles of Go values, because C must not keep Go pointers.
var (
	values sync.Map
	number atomic.Uintptr
)

// keep returns a handle of a value, valid until forget.
func keep(value any) (user uintptr, forget func()) {
	user = number.Add(1)
	values.Store(user, value)
	return user, func() { values.Delete(user) }
}

func kept[T any](user uintptr) T {
	value, _ := values.Load(user)
	return value.(T)
}

// transfer is the reader or writer of a callback, and its first error.
type transfer struct {
	reader   io.Reader
	writer   io.Writer
	readerAt io.ReaderAt
	mu       sync.Mutex
	err      error
}

// errno records an error and returns the number that ends the library's call.
func (t *transfer) errno(err error) int32 {
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
	return int32(max(number, 1))
}

// instead returns the error of a callback instead of the library's, which has only its number.
func (t *transfer) instead(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil && err != nil {
		return resumed(t.err)
	}
	return err
}

func onWrite(data *byte, n, user uintptr) int32 {
	t := kept[*transfer](user)
	return t.errno(guarded(func() error { return writeAll(t.writer, unsafe.Slice(data, n)) }))
}

func onRead(out *byte, n, user uintptr) int32 {
	t := kept[*transfer](user)
	return t.errno(guarded(func() error {
		_, err := io.ReadFull(t.reader, unsafe.Slice(out, n))
		return err
	}))
}

func onReadAt(offset uint64, out *byte, n, user uintptr) int32 {
	t := kept[*transfer](user)
	return t.errno(guarded(func() error {
		read, err := t.readerAt.ReadAt(unsafe.Slice(out, n), int64(offset))
		switch {
		case read == int(n):
			return nil
		case err == nil:
			err = io.ErrUnexpectedEOF
		}
		return err
	}))
}

// save writes an object to w; closing the object ends it.
func save[H any](of holder[H], w io.Writer, f func(handle H, write, user uintptr, cancel *rz_cancel, e *rz_error) int32) error {
	if w == nil {
		return missing("w")
	}
	object := of.held()
	cancel, stop, err := object.watch(context.Background())
	if err != nil {
		return err
	}
	defer stop()
	t := transfer{writer: w}
	user, forget := keep(&t)
	defer forget()
	return t.instead(object.ended(use(of, func(handle H, e *rz_error) int32 {
		return f(handle, writeCallback(), user, cancel, e)
	})))
}

// restored returns the object that f makes the library read from r.
func restored[T any](r io.Reader, f func(read, user uintptr) (T, error)) (made T, err error) {
	if r == nil {
		return made, missing("r")
	}
	t := transfer{reader: r}
	user, forget := keep(&t)
	defer forget()
	made, err = f(readCallback(), user)
	return made, t.instead(err)
}

// progress is a progress callback, and the error with which it ended the load.
type progress struct {
	call func(done, total uint64) error
	err  error
}

// tell registers the progress callback, until forget; without one it registers nothing.
func (p *progress) tell() (callback, user uintptr, forget func()) {
	if p.call == nil {
		return 0, 0, func() {}
	}
	user, forget = keep(p)
	return progressCallback(), user, forget
}

// instead returns the error that ended a call: the progress callback's error, if there is one.
func (p *progress) instead(err error) error {
	if err != nil && p.err != nil {
		return resumed(p.err)
	}
	return err
}

func onProgress(done, total uint64, user uintptr) int32 {
	p := kept[*progress](user)
	if p.err = guarded(func() error { return p.call(done, total) }); p.err != nil {
		return 1
	}
	return 0
}

func onLog(level int32, message *byte, n, user uintptr) {
	defer func() { _ = recover() }() // there may be no goroutine to continue the panic in
	kept[func(LogLevel, string)](user)(LogLevel(level), string(unsafe.Slice(message, n)))
}
