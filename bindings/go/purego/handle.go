package realizar

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Code is a status of the library. Codes are errors themselves, so that errors.Is(err, realizar.ErrContextFull) works.
type Code int32

const (
	ErrInvalidArgument   Code = rz_ERR_INVALID_ARGUMENT
	ErrBusy              Code = rz_ERR_BUSY
	ErrOutOfMemory       Code = rz_ERR_OUT_OF_MEMORY
	ErrDeviceOutOfMemory Code = rz_ERR_DEVICE_OUT_OF_MEMORY
	ErrLimit             Code = rz_ERR_LIMIT
	ErrIO                Code = rz_ERR_IO
	ErrFormat            Code = rz_ERR_FORMAT
	ErrUnsupported       Code = rz_ERR_UNSUPPORTED
	ErrVersion           Code = rz_ERR_VERSION
	ErrCancelled         Code = rz_ERR_CANCELLED
	ErrDeadline          Code = rz_ERR_DEADLINE
	ErrContextFull       Code = rz_ERR_CONTEXT_FULL
	ErrBufferTooSmall    Code = rz_ERR_BUFFER_TOO_SMALL
	ErrDeviceUnavailable Code = rz_ERR_DEVICE_UNAVAILABLE
	ErrDeviceLost        Code = rz_ERR_DEVICE_LOST
	ErrMismatch          Code = rz_ERR_MISMATCH
	ErrPanic             Code = rz_ERR_PANIC
	ErrPoisoned          Code = rz_ERR_POISONED
	ErrNotFound          Code = rz_ERR_NOT_FOUND
	ErrNotReady          Code = rz_ERR_NOT_READY
	ErrResources         Code = rz_ERR_RESOURCES
)

// Error gives the name of the status, such as "RZ_ERR_FORMAT".
func (code Code) Error() string {
	if err := Open(""); err != nil {
		return fmt.Sprintf("status %d", int32(code))
	}
	return c.rz_status_name(int32(code))
}

// ErrClosed is returned by every method of something that was closed.
var ErrClosed = errors.New("realizar: used after Close")

// Error is a failed call of the library. It unwraps to its [Code], to the [syscall.Errno] behind it where there is one,
// and to the cause of the context where that ended the call.
type Error struct {
	Code  Code
	Errno syscall.Errno
	// Needed is the capacity in tokens that would have been enough, of ErrContextFull; else 0.
	Needed  uint64
	Message string
	cause   error
}

func (e *Error) Error() string { return "realizar: " + e.Message }

func (e *Error) Unwrap() []error {
	errs := []error{e.Code}
	if e.Errno != 0 {
		errs = append(errs, e.Errno)
	}
	if e.cause != nil {
		errs = append(errs, e.cause)
	}
	return errs
}

func check(status int32, e *rz_error) error {
	if status >= 0 {
		return nil
	}
	return &Error{Code: Code(status), Errno: syscall.Errno(e.system_code), Needed: e.needed, Message: text(e.message[:])}
}

// ended names the context as the cause of a call that it ended.
func ended(ctx context.Context, err error) error {
	var e *Error
	if !errors.As(err, &e) || e.Code != ErrCancelled && e.Code != ErrDeadline {
		return err
	}
	// The library looks at the clock itself, so that it may be ahead of the context.
	if e.cause = context.Cause(ctx); e.cause == nil && e.Code == ErrDeadline {
		e.cause = context.DeadlineExceeded
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && e.Code == ErrCancelled {
		e.Code, e.Message = ErrDeadline, "the deadline of the context has passed"
	}
	return err
}

// over is the error of a context that has ended.
func over(ctx context.Context) error {
	return ended(ctx, &Error{Code: ErrCancelled, Message: ctx.Err().Error()})
}

// stopped is why steps end now; nil where they do not.
func stopped(ctx context.Context, status int32) error {
	if status >= 0 {
		return nil
	}
	return ended(ctx, &Error{Code: Code(status), Message: "the reply is asked to stop"})
}

// handle is an object of the library, freed once by the last of its users: its owner until Close, and running calls.
type handle struct {
	mu     sync.Mutex
	object uintptr
	users  int
	closed bool
	free   func(uintptr)
}

func own(object uintptr, free func(uintptr)) *handle {
	return &handle{object: object, users: 1, free: free}
}

func (h *handle) acquire() (uintptr, error) {
	if h == nil {
		return 0, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return 0, ErrClosed
	}
	h.users++
	return h.object, nil
}

func (h *handle) release() {
	if h == nil {
		return
	}
	h.mu.Lock()
	h.users--
	last := h.users == 0
	h.mu.Unlock()
	if last {
		h.free(h.object)
	}
}

// enter takes the object for one call, which ends with leave; what names it.
func (h *handle) enter(busy *sync.Mutex, what string) (object uintptr, leave func(), err error) {
	if !busy.TryLock() {
		return 0, nil, &Error{Code: ErrBusy, Message: "the " + what + " is in use by another call"}
	}
	if object, err = h.acquire(); err != nil {
		busy.Unlock()
		return 0, nil, err
	}
	return object, func() {
		h.release()
		busy.Unlock()
	}, nil
}

func (h *handle) close() {
	h.mu.Lock()
	closed := h.closed
	h.closed = true
	h.mu.Unlock()
	if !closed {
		h.release()
	}
}

// use calls f with the object, which stays valid meanwhile.
func (h *handle) use(f func(object uintptr, e *rz_error) int32) error {
	object, err := h.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	var e rz_error
	return check(f(object, &e), &e)
}

// made is what stands for a new object: f makes it out of another one, or of nothing, and free ends it.
func made[T any](from *handle, f func(from uintptr, out *uintptr, e *rz_error) int32, free func(uintptr), stands func(*handle) *T) (*T, error) {
	var object uintptr
	if err := from.use(func(from uintptr, e *rz_error) int32 { return f(from, &object, e) }); err != nil {
		return nil, err
	}
	h := own(object, free)
	t := stands(h)
	runtime.AddCleanup(t, (*handle).close, h)
	return t, nil
}

// filled is a struct that f fills in, which begins with its size.
func filled[T any](h *handle, f func(object uintptr, out *T, e *rz_error) int32) (out T, err error) {
	*(*uint32)(unsafe.Pointer(&out)) = uint32(unsafe.Sizeof(out))
	err = h.use(func(object uintptr, e *rz_error) int32 { return f(object, &out, e) })
	return out, err
}

// sized calls f with a buffer that grows to the size that f asks for.
func sized[T any](h *handle, capacity int, f func(object uintptr, out *T, capacity uintptr, n *uintptr, e *rz_error) int32) (out []T, err error) {
	err = h.use(func(object uintptr, e *rz_error) int32 {
		for {
			var n uintptr
			out = make([]T, capacity)
			status := f(object, unsafe.SliceData(out), uintptr(capacity), &n, e)
			if status != int32(ErrBufferTooSmall) {
				out = out[:n]
				return status
			}
			capacity = int(n)
		}
	})
	return out, err
}

// pinned is where a slice is, which stays there until the pinner lets it go; nil of an empty one.
func pinned[T any](pinner *runtime.Pinner, all []T) *T {
	if len(all) == 0 {
		return nil
	}
	pinner.Pin(&all[0])
	return &all[0]
}

// whole converts a number to an unsigned 32-bit integer of C.
func whole(n int, name string) (uint32, error) {
	var c counts
	number := c.of(n, name)
	return number, c.err
}

// counts converts numbers to C types, and keeps the error of the first one that does not fit.
type counts struct{ err error }

// orNone takes None too.
func (c *counts) orNone(n int, name string) uint32 {
	if n == None {
		return rz_NONE
	}
	return c.of(n, name)
}

func (c *counts) of(n int, name string) uint32 {
	if n >= 0 && uint64(n) <= math.MaxUint32 {
		return uint32(n)
	}
	if c.err == nil {
		c.err = &Error{Code: ErrInvalidArgument, Message: fmt.Sprintf("%s is %d; it must be a whole number from 0 to %d", name, n, uint32(math.MaxUint32))}
	}
	return 0
}

// terminated is a text with a NUL at its end, and none in it.
func terminated(name, text string) (*byte, error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, &Error{Code: ErrInvalidArgument, Message: name + " has a NUL byte"}
	}
	return unsafe.SliceData(append([]byte(text), 0)), nil
}

// watch returns a flag of the library that is fired when the context ends. stop is called once it is no longer in use.
func watch(ctx context.Context) (cancel uintptr, stop func(), err error) {
	if ctx.Err() != nil {
		return 0, nil, over(ctx)
	}
	if ctx.Done() == nil {
		return 0, func() {}, nil
	}
	var e rz_error
	if err := check(c.rz_cancel_new(&cancel, &e), &e); err != nil {
		return 0, nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := check(c.rz_cancel_deadline(cancel, microseconds(time.Until(deadline)), &e), &e); err != nil {
			c.rz_cancel_free(cancel)
			return 0, nil, err
		}
	}
	fired := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		c.rz_cancel_fire(cancel)
		close(fired)
	})
	return cancel, func() {
		if !forget() {
			<-fired
		}
		c.rz_cancel_free(cancel)
	}, nil
}
