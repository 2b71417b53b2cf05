package realizar

import (
	"errors"
	"io"
	"sync"
	"syscall"
	"unsafe"

	"github.com/ebitengine/purego"
)

// transfer is what a callback reads from or writes to, and the error that it met.
type transfer struct {
	move func(bytes []byte) error
	err  error
}

var transferCallback = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(user uintptr, bytes *byte, n uintptr) uintptr {
		t := kept[*transfer](user)
		if t.err = t.move(unsafe.Slice(bytes, n)); t.err == nil {
			return 0
		}
		number := syscall.EIO
		errors.As(t.err, &number)
		return uintptr(max(number, 1))
	})
})

// with calls f with the callback and its argument. What the reader or writer says is the error.
func (t *transfer) with(f func(callback, user uintptr) error) error {
	user, forget := keep(t)
	defer forget()
	if err := f(transferCallback(), user); err != nil && t.err != nil {
		return t.err
	} else {
		return err
	}
}

// Save writes the session to w, for [Model.LoadSession]: its tokens and what the model remembers of them.
func (s *Session) Save(w io.Writer) error {
	t := transfer{move: func(bytes []byte) error {
		_, err := w.Write(bytes)
		return err
	}}
	return t.with(func(callback, user uintptr) error {
		return s.cache.use(func(cache uintptr, e *rz_error) int32 { return c.rz_cache_save(cache, callback, user, e) })
	})
}

// LoadSession reads a session that was saved by a session of the same model. It goes on as that one would have.
func (m *Model) LoadSession(r io.Reader) (s *Session, err error) {
	t := transfer{move: func(bytes []byte) error {
		_, err := io.ReadFull(r, bytes)
		return err
	}}
	err = t.with(func(callback, user uintptr) error {
		s, err = m.session(m.model, func(model uintptr, out *uintptr, e *rz_error) int32 {
			return c.rz_cache_load(model, nil, callback, user, out, e)
		})
		return err
	})
	return s, err
}
