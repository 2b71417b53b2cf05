package realizar

import (
	"fmt"
	"io"
)

// panicked is the panic value of a callback. The panic continues in the calling goroutine after the library's function
// has returned: a panic through the library would leave its locks held.
type panicked struct{ value any }

func (p *panicked) Error() string { return fmt.Sprint("panic: ", p.value) }

// guarded makes a call of a callback; a panic becomes an error.
func guarded(call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &panicked{value}
		}
	}()
	return call()
}

// resumed returns the error of a callback, or continues its panic.
func resumed(err error) error {
	if p, ok := err.(*panicked); ok {
		panic(p.value)
	}
	return err
}

// writeAll writes all of some bytes, or returns why it did not.
func writeAll(w io.Writer, bytes []byte) error {
	n, err := w.Write(bytes)
	if err == nil && n != len(bytes) {
		err = io.ErrShortWrite
	}
	return err
}
