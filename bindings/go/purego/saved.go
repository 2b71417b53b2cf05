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
	return purego.NewCallback(func(bytes *byte, n, user uintptr) uintptr {
		t := kept[*transfer](user)
		if t.err = guarded(func() error { return t.move(unsafe.Slice(bytes, n)) }); t.err == nil {
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
	err := f(transferCallback(), user)
	if err != nil && t.err != nil {
		return resumed(t.err)
	}
	return err
}

func (h *handle) save(w io.Writer, save func(object, write, user, cancel uintptr, e *rz_error) int32) error {
	t := transfer{move: func(bytes []byte) error { return writeAll(w, bytes) }}
	return t.with(func(callback, user uintptr) error {
		return h.use(func(object uintptr, e *rz_error) int32 { return save(object, callback, user, 0, e) })
	})
}

// readFrom calls f with what reads from r.
func readFrom[T any](r io.Reader, f func(read, user uintptr) (*T, error)) (object *T, err error) {
	t := transfer{move: func(bytes []byte) error {
		_, err := io.ReadFull(r, bytes)
		return err
	}}
	err = t.with(func(callback, user uintptr) error {
		object, err = f(callback, user)
		return err
	})
	return object, err
}

// Save writes the session to w, for [Model.LoadSession]: its tokens and what the model remembers of them.
func (s *Session) Save(w io.Writer) error { return s.cache.save(w, c.rz_cache_save) }

// LoadSession reads a session that was saved by a session of the same model. It goes on as that one would have. Zero in
// the options is what was saved.
func (m *Model) LoadSession(r io.Reader, options *SessionOptions) (*Session, error) {
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	return readFrom(r, func(read, user uintptr) (*Session, error) {
		return m.session(m.model, func(model uintptr, out *uintptr, e *rz_error) int32 {
			return c.rz_cache_load(model, &params, read, user, 0, out, e)
		})
	})
}

// Save writes the conversation to w, for [Model.LoadConversation]: its messages and what the model remembers of them.
func (t *Conversation) Save(w io.Writer) error { return t.conversation.save(w, c.rz_conversation_save) }

// LoadConversation reads a conversation that was saved with the same model. It goes on as that one would have. Of the
// options Cache, Context and Store count, the others were saved.
func (m *Model) LoadConversation(r io.Reader, options *ConversationOptions) (*Conversation, error) {
	return readFrom(r, func(read, user uintptr) (*Conversation, error) {
		return m.conversation(options, func(model uintptr, params *rz_conversation_params, out *uintptr, e *rz_error) int32 {
			return c.rz_conversation_load(model, params, read, user, out, e)
		})
	})
}
