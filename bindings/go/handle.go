package realizar

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// owned is a reference-counted object of the library. Its owner (until Close), running calls and objects made from it
// hold references. The last one frees it, so Close never waits and may be called anywhere, also in a callback of a
// running call. A nil *owned belongs to a nil pointer or a zero struct of the caller.
type owned[T any] struct {
	busy    sync.Mutex // held by calls that enter
	mu      sync.Mutex
	object  T
	users   int
	closed  bool
	free    func(T)
	running map[*rz_cancel]bool // calls that close ends
}

func own[T any](object T, free func(T), running ...*rz_cancel) *owned[T] {
	o := &owned[T]{object: object, users: 1, free: free, running: map[*rz_cancel]bool{}}
	for _, cancel := range running {
		o.running[cancel] = true
	}
	return o
}

// name returns the object's name in messages, such as "the conversation".
func (o *owned[T]) name() string {
	name := reflect.TypeFor[T]().Elem().Name()
	if name == "rz_cache" {
		name = "session"
	}
	return "the " + strings.ReplaceAll(strings.TrimPrefix(name, "rz_"), "_", " ")
}

// acquire keeps the object alive until release.
func (o *owned[T]) acquire() (object T, err error) {
	if o == nil {
		return object, missing(o.name())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return object, ErrClosed
	}
	o.users++
	return o.object, nil
}

func (o *owned[T]) release() {
	o.mu.Lock()
	o.users--
	last := o.users == 0
	o.mu.Unlock()
	if last {
		o.free(o.object)
	}
}

// enter acquires the object exclusively for one call, which ends with leave.
func (o *owned[T]) enter() (object T, leave func(), err error) {
	if o == nil {
		return object, nil, missing(o.name())
	} else if !o.busy.TryLock() {
		return object, nil, o.isBusy()
	}
	if object, err = o.acquire(); err != nil {
		o.busy.Unlock()
		return object, nil, err
	}
	return object, func() {
		o.release()
		o.busy.Unlock()
	}, nil
}

func (o *owned[T]) isBusy() error {
	return &Error{Code: ErrBusy, Message: o.name() + " is in use by another call"}
}

// close ends running calls and releases the owner's reference.
func (o *owned[T]) close() error {
	if o == nil {
		return missing(o.name())
	}
	o.leave(true)
	return nil
}

// drop is close for an owner that was garbage-collected; calls may still run.
func (o *owned[T]) drop() { o.leave(false) }

func (o *owned[T]) leave(fire bool) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	o.closed = true
	for cancel := range o.running {
		if fire {
			lib.rz_cancel_fire(cancel)
		}
	}
	o.mu.Unlock()
	o.release()
}

func (o *owned[T]) isClosed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}

// watch returns a cancel that fires when the context ends or the object is closed. Call stop when it is no longer used.
func (o *owned[T]) watch(ctx context.Context) (cancel *rz_cancel, stop func(), err error) {
	if o == nil {
		return nil, nil, missing(o.name())
	}
	cancel, forget, err := newCancel(ctx)
	if err != nil {
		return nil, nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		forget()
		return nil, nil, ErrClosed
	}
	o.running[cancel] = true
	return cancel, func() {
		o.mu.Lock()
		delete(o.running, cancel)
		o.mu.Unlock()
		forget()
	}, nil
}

// ended adds the cause to the error of a call that contexts or Close ended.
func (o *owned[T]) ended(err error, contexts ...context.Context) error {
	var e *Error
	if err = ended(err, contexts...); errors.As(err, &e) && (e.Code == ErrCancelled || e.Code == ErrDeadline) && o.isClosed() {
		e.causes = append(e.causes, ErrClosed)
	}
	return err
}

func (o *owned[T]) held() *owned[T] { return o }

// holder is a pointer to a struct that wraps an object of the library; held returns nil for nil and for zero structs.
type holder[H any] interface{ held() *owned[H] }

// required keeps the object of an argument alive until release.
func required[H any, T holder[H]](argument T, name string) (handle H, release func(), err error) {
	defer runtime.KeepAlive(argument)
	object := argument.held()
	if object == nil {
		return handle, nil, missing(name)
	}
	handle, err = object.acquire()
	return handle, object.release, err
}

// optional is required for an argument that may be nil, which is NULL for the library.
func optional[H, V any, T interface {
	*V
	holder[H]
}](argument T, name string) (handle H, release func(), err error) {
	if argument == nil {
		return handle, func() {}, nil
	}
	return required[H](argument, name)
}

// handlesOf keeps the objects of a list alive until release.
func handlesOf[H any, T holder[H]](list []T, name string) (handles []H, release func(), err error) {
	handles, ends := make([]H, 0, len(list)), make([]func(), 0, len(list))
	release = func() {
		for _, end := range ends {
			end()
		}
	}
	for i, each := range list {
		handle, end, err := required[H](each, fmt.Sprintf("%s[%d]", name, i))
		if err != nil {
			release()
			return nil, nil, err
		}
		handles, ends = append(handles, handle), append(ends, end)
	}
	return handles, release, nil
}

// use calls f with an object, which stays valid meanwhile.
func use[H any](of holder[H], f func(handle H, e *rz_error) int32) error {
	defer runtime.KeepAlive(of) // its collection would drop the object
	object := of.held()
	handle, err := object.acquire()
	if err != nil {
		return err
	}
	defer object.release()
	var e rz_error
	return check(f(handle, &e), &e)
}

// sizedStruct fills in the size that a struct of the library begins with.
func sizedStruct[C any](c *C) *C {
	*(*uint32)(unsafe.Pointer(c)) = uint32(unsafe.Sizeof(*c))
	return c
}

// described returns what get fills in about an object.
func described[H, C, T any](of holder[H], get func(handle H, out *C, e *rz_error) int32, value func(*C) T) (T, error) {
	var c C
	if err := use(of, func(handle H, e *rz_error) int32 { return get(handle, sizedStruct(&c), e) }); err != nil {
		return *new(T), err
	}
	return value(&c), nil
}

// made wraps a new object, which f makes from another one and free frees.
func made[F, H, T any](from holder[F], f func(from F, out *H, e *rz_error) int32, free func(H), stands func(*owned[H]) *T) (*T, error) {
	var handle H
	if err := use(from, func(from F, e *rz_error) int32 { return f(from, &handle, e) }); err != nil {
		return nil, err
	}
	o := own(handle, free)
	t := stands(o)
	runtime.AddCleanup(t, (*owned[H]).drop, o)
	return t, nil
}
