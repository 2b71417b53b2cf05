package realizar

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// Code is a status of the library. Codes are errors themselves, so that errors.Is(err, realizar.ErrContextFull) works.
type Code int32

// Error gives the name of the status, such as "RZ_ERR_FORMAT".
func (c Code) Error() string {
	if Open("") != nil {
		return fmt.Sprintf("status %d", int32(c))
	}
	return lib.rz_status_name(int32(c))
}

// ErrClosed is returned by every method of something that was closed.
var ErrClosed = errors.New("realizar: used after Close")

// Error is a failed call of the library. It unwraps to its [Code] and to a [syscall.Errno], if there is one.
// If a context ended the call, it also unwraps to the error and to the cause of the context, and if Close did, to
// [ErrClosed].
type Error struct {
	Code  Code
	Errno syscall.Errno
	// Needed is the context length in tokens that would suffice, for ErrContextFull; else 0.
	Needed  uint64
	Message string
	causes  []error
}

// Error returns the message, prefixed with the name of the package.
func (e *Error) Error() string { return "realizar: " + e.Message }

// Unwrap returns the code, the errno and the causes.
func (e *Error) Unwrap() []error {
	errs := []error{e.Code}
	if e.Errno != 0 {
		errs = append(errs, e.Errno)
	}
	return append(errs, e.causes...)
}

// check converts a status to an error; nil if it is not negative.
func check(status int32, e *rz_error) error {
	if status >= 0 {
		return nil
	}
	return &Error{Code: Code(status), Errno: syscall.Errno(e.system_code), Needed: e.needed, Message: named(stringOf(e.message[:]))}
}

// initials are words of fields that options write in capitals.
var initials = map[string]string{"cpus": "CPUs", "dry": "DRY", "gpu": "GPU", "xtc": "XTC"}

var field = regexp.MustCompile(`\brz_[a-z]+_params\.([a-z_]+)`)

// named returns a message of the library with the names of options instead of struct fields.
func named(message string) string {
	return field.ReplaceAllStringFunc(message, func(found string) (name string) {
		for word := range strings.SplitSeq(field.FindStringSubmatch(found)[1], "_") {
			if initials[word] != "" {
				name += initials[word]
			} else if word != "" {
				name += strings.ToUpper(word[:1]) + word[1:]
			}
		}
		return name
	})
}

// wrong returns the error of an argument.
func wrong(format string, values ...any) error {
	return &Error{Code: ErrInvalidArgument, Message: fmt.Sprintf(format, values...)}
}

// missing returns the error of an argument that is nil or a zero struct.
func missing(name string) error { return wrong("%s is nil or zero; it must be set", name) }

// ended adds the causes to the error of a call that contexts ended.
func ended(err error, contexts ...context.Context) error {
	var e *Error
	if !errors.As(err, &e) || e.Code != ErrCancelled && e.Code != ErrDeadline {
		return err
	}
	if e.Code == ErrDeadline {
		awaitDeadline(contexts)
	}
	for _, ctx := range contexts {
		if ctx.Err() == nil {
			continue
		}
		if len(e.causes) == 0 {
			e.Code, e.Message = ErrCancelled, "the context was cancelled"
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				e.Code, e.Message = ErrDeadline, "the deadline of the context has passed"
			}
			if cause := context.Cause(ctx); cause != ctx.Err() {
				e.Message += ": " + cause.Error()
			}
		}
		e.causes = append(e.causes, ctx.Err(), context.Cause(ctx))
	}
	if len(e.causes) == 0 && e.Code == ErrDeadline {
		e.causes = []error{context.DeadlineExceeded}
	}
	return err
}

// awaitDeadline waits until the context whose deadline has passed reports it: the library reads the clock, so it may
// detect the deadline some milliseconds before the context's timer.
func awaitDeadline(contexts []context.Context) {
	var first context.Context
	var at time.Time
	for _, ctx := range contexts {
		if ctx.Err() != nil {
			return
		}
		if deadline, has := ctx.Deadline(); has && (first == nil || deadline.Before(at)) {
			first, at = ctx, deadline
		}
	}
	if first == nil {
		return
	}
	timer := time.NewTimer(time.Until(at) + time.Second) // for a context that never reports it
	defer timer.Stop()
	select {
	case <-first.Done():
	case <-timer.C:
	}
}

// over returns the error of an ended context; nil if none has ended.
func over(contexts ...context.Context) error {
	for _, ctx := range contexts {
		if ctx.Err() != nil {
			return ended(&Error{Code: ErrCancelled}, contexts...)
		}
	}
	return nil
}
