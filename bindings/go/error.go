package realizar

/*
#include <realizar.h>
*/
import "C"

import (
	"context"
	"errors"
	"runtime"
	"syscall"
)

// Code is a status of the library. Codes are errors themselves, so that errors.Is(err, realizar.ErrContextFull) works.
type Code int32

const (
	ErrInvalidArgument   Code = C.RZ_ERR_INVALID_ARGUMENT
	ErrBusy              Code = C.RZ_ERR_BUSY
	ErrOutOfMemory       Code = C.RZ_ERR_OUT_OF_MEMORY
	ErrDeviceOutOfMemory Code = C.RZ_ERR_DEVICE_OUT_OF_MEMORY
	ErrLimit             Code = C.RZ_ERR_LIMIT
	ErrIO                Code = C.RZ_ERR_IO
	ErrFormat            Code = C.RZ_ERR_FORMAT
	ErrUnsupported       Code = C.RZ_ERR_UNSUPPORTED
	ErrVersion           Code = C.RZ_ERR_VERSION
	ErrCancelled         Code = C.RZ_ERR_CANCELLED
	ErrDeadline          Code = C.RZ_ERR_DEADLINE
	ErrContextFull       Code = C.RZ_ERR_CONTEXT_FULL
	ErrBufferTooSmall    Code = C.RZ_ERR_BUFFER_TOO_SMALL
	ErrDeviceUnavailable Code = C.RZ_ERR_DEVICE_UNAVAILABLE
	ErrDeviceLost        Code = C.RZ_ERR_DEVICE_LOST
	ErrMismatch          Code = C.RZ_ERR_MISMATCH
	ErrPanic             Code = C.RZ_ERR_PANIC
	ErrPoisoned          Code = C.RZ_ERR_POISONED
	ErrNotFound          Code = C.RZ_ERR_NOT_FOUND
	ErrNotReady          Code = C.RZ_ERR_NOT_READY
	ErrResources         Code = C.RZ_ERR_RESOURCES
)

// Error gives the name of the status, such as "RZ_ERR_FORMAT".
func (c Code) Error() string { return C.GoString(C.rz_status_name(C.rz_status(c))) }

// ErrClosed is returned by every method of something that was closed.
var ErrClosed = errors.New("realizar: used after Close")

// Error is a failed call of the library. It unwraps to its [Code], to the [syscall.Errno] behind it where there is
// one, and to the cause of the context where that ended the call.
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

// check turns a status into an error; what is not negative is no error.
func check(status C.rz_status, e *C.rz_error) error {
	if status >= 0 {
		return nil
	}
	return &Error{Code: Code(status), Errno: syscall.Errno(e.system_code), Needed: uint64(e.needed), Message: C.GoString(&e.message[0])}
}

// use calls f with an object, which stays valid meanwhile.
func use[H any](object *owned[H], f func(handle H, e *C.rz_error) C.rz_status) error {
	handle, err := object.acquire()
	if err != nil {
		return err
	}
	defer object.release()
	var e C.rz_error
	return check(f(handle, &e), &e)
}

// made is what stands for a new object, which f makes out of another one and free ends.
func made[F, H, T any](from *owned[F], f func(from F, out *H, e *C.rz_error) C.rz_status, free func(H),
	stands func(*owned[H]) *T) (*T, error) {
	var handle H
	if err := use(from, func(from F, e *C.rz_error) C.rz_status { return f(from, &handle, e) }); err != nil {
		return nil, err
	}
	o := own(handle, free)
	t := stands(o)
	runtime.AddCleanup(t, (*owned[H]).close, o)
	return t, nil
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
