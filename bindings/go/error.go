package realizar

import (
	"context"
	"errors"
	"fmt"
	"syscall"
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
func (c Code) Error() string {
	if Open("") != nil {
		return fmt.Sprintf("status %d", int32(c))
	}
	return lib.rz_status_name(int32(c))
}

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
func check(status int32, e *rz_error) error {
	if status >= 0 {
		return nil
	}
	return &Error{Code: Code(status), Errno: syscall.Errno(e.system_code), Needed: e.needed, Message: stringOf(e.message[:])}
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
