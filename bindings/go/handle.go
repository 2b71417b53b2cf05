package realizar

import "sync"

// owned counts who uses an object of the library: its owner until Close, running calls, and objects made from it. The
// last of them frees it, so that Close never waits and may be called from anywhere, a callback of a running call
// included.
type owned[T any] struct {
	mu     sync.Mutex
	object T
	users  int
	closed bool
	free   func(T)
}

func own[T any](object T, free func(T)) *owned[T] {
	return &owned[T]{object: object, users: 1, free: free}
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

func (o *owned[T]) close() {
	o.mu.Lock()
	closed := o.closed
	o.closed = true
	o.mu.Unlock()
	if !closed {
		o.release()
	}
}

func (o *owned[T]) isClosed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}
