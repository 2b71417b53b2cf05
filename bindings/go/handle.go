package realizar

import (
	"context"
	"errors"
	"runtime"
	"sync"
)

// owned counts who uses an object of the library: its owner until Close, running calls, and objects made from it. The
// last of them frees it, so that Close never waits and may be called from anywhere, a callback of a running call
// included.
type owned[T any] struct {
	mu      sync.Mutex
	object  T
	users   int
	closed  bool
	free    func(T)
	running map[*rz_cancel]bool // of calls that close ends
}

func own[T any](object T, free func(T), running ...*rz_cancel) *owned[T] {
	o := &owned[T]{object: object, users: 1, free: free, running: map[*rz_cancel]bool{}}
	for _, cancel := range running {
		o.running[cancel] = true
	}
	return o
}

// acquire keeps the object alive until release.
func (o *owned[T]) acquire() (object T, err error) {
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

// enter takes the object for one call, which ends with leave; what names it.
func (o *owned[T]) enter(busy *sync.Mutex, what string) (object T, leave func(), err error) {
	if !busy.TryLock() {
		return object, nil, &Error{Code: ErrBusy, Message: "the " + what + " is in use by another call"}
	}
	if object, err = o.acquire(); err != nil {
		busy.Unlock()
		return object, nil, err
	}
	return object, func() {
		o.release()
		busy.Unlock()
	}, nil
}

// close ends the calls that run, and the use by the owner.
func (o *owned[T]) close() { o.leave(true) }

// drop is close for an owner that is gone, while calls may still run.
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

// watch is what ends a call when the context ends or the object is closed. stop is called once it is no longer in use.
func (o *owned[T]) watch(ctx context.Context) (cancel *rz_cancel, stop func(), err error) {
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

// ended names what has ended a call as its cause: the context, or Close.
func (o *owned[T]) ended(ctx context.Context, err error) error {
	var e *Error
	if err = ended(ctx, err); errors.As(err, &e) && e.Code == ErrCancelled && e.cause == nil && o.isClosed() {
		e.cause = ErrClosed
	}
	return err
}

// use calls f with an object, which stays valid meanwhile.
func use[H any](object *owned[H], f func(handle H, e *rz_error) int32) error {
	handle, err := object.acquire()
	if err != nil {
		return err
	}
	defer object.release()
	var e rz_error
	return check(f(handle, &e), &e)
}

// made is what stands for a new object, which f makes out of another one and free ends.
func made[F, H, T any](from *owned[F], f func(from F, out *H, e *rz_error) int32, free func(H), stands func(*owned[H]) *T) (*T, error) {
	var handle H
	if err := use(from, func(from F, e *rz_error) int32 { return f(from, &handle, e) }); err != nil {
		return nil, err
	}
	o := own(handle, free)
	t := stands(o)
	runtime.AddCleanup(t, (*owned[H]).drop, o)
	return t, nil
}
