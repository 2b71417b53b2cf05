package realizar

import "unsafe"

// TextStream converts tokens to text; it holds back the bytes of an incomplete character. One call at a time.
type TextStream struct{ stream *owned[*rz_textstream] }

// NewTextStream creates a stream at the beginning of a text.
func (m *Model) NewTextStream() (*TextStream, error) {
	return made(m, lib.rz_textstream_new, lib.rz_textstream_free, func(o *owned[*rz_textstream]) *TextStream { return &TextStream{o} })
}

// Follow sets the tokens before the next ones, such as a prompt, without returning their text.
func (t *TextStream) Follow(tokens []uint32) error {
	return use(t, func(handle *rz_textstream, e *rz_error) int32 {
		return lib.rz_textstream_follow(handle, unsafe.SliceData(tokens), uintptr(len(tokens)), e)
	})
}

// Push adds a token and returns the text that it completes, often empty.
func (t *TextStream) Push(token uint32) (string, error) {
	text, err := sized(t, 256, func(handle *rz_textstream, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return lib.rz_textstream_push_into(handle, token, out, capacity, n, e)
	})
	return string(text), err
}

// Flush ends the text and returns the rest of it.
func (t *TextStream) Flush() (string, error) {
	text, err := sized(t, 256, lib.rz_textstream_flush_into)
	return string(text), err
}

// Close frees the stream. Closing twice is fine.
func (t *TextStream) Close() error {
	return t.held().close()
}
