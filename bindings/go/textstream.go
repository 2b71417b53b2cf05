package realizar

/*
#include <realizar.h>
*/
import "C"

import "unsafe"

// TextStream turns tokens into text as they come, holding back the bytes of an unfinished character. It belongs to one
// call at a time.
type TextStream struct{ stream *owned[*C.rz_textstream] }

// NewTextStream makes a stream whose first token begins a text.
func (m *Model) NewTextStream() (*TextStream, error) {
	return made(m.model, func(model *C.rz_model, out **C.rz_textstream, e *C.rz_error) C.rz_status {
		return C.rz_textstream_new(model, out, e)
	}, func(handle *C.rz_textstream) { C.rz_textstream_free(handle) }, func(o *owned[*C.rz_textstream]) *TextStream { return &TextStream{o} })
}

// Follow puts tokens ahead of those to come, such as a prompt, without their text.
func (t *TextStream) Follow(tokens []uint32) error {
	return use(t.stream, func(handle *C.rz_textstream, e *C.rz_error) C.rz_status {
		return C.rz_textstream_follow(handle, (*C.uint32_t)(unsafe.SliceData(tokens)), C.size_t(len(tokens)), e)
	})
}

// Push adds a token and returns the text that is complete with it, often none.
func (t *TextStream) Push(token uint32) (string, error) {
	text, err := sized(t.stream, 256, func(handle *C.rz_textstream, out *byte, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_textstream_push_into(handle, C.uint32_t(token), (*C.char)(unsafe.Pointer(out)), capacity, n, e)
	})
	return string(text), err
}

// Flush ends the text and returns the rest of it.
func (t *TextStream) Flush() (string, error) {
	text, err := sized(t.stream, 256, func(handle *C.rz_textstream, out *byte, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_textstream_flush_into(handle, (*C.char)(unsafe.Pointer(out)), capacity, n, e)
	})
	return string(text), err
}

// Close frees the stream. Closing twice is fine.
func (t *TextStream) Close() error {
	t.stream.close()
	return nil
}
