// The tests of what keeps objects of the library alive.
package realizar

import (
	"errors"
	"runtime"
	"testing"
	"time"
)

// late is a holder at whose last use the collector runs.
type late struct{ *owned[*rz_textstream] }

func (l *late) held() *owned[*rz_textstream] {
	object := l.owned
	for range 3 {
		runtime.GC()
		time.Sleep(time.Millisecond) // of the goroutine that cleans up
	}
	return object
}

// What is never closed is not freed at the beginning of its last use.
func TestTheLastUseIsAUse(t *testing.T) {
	must(t, Open(""))
	for name, call := range map[string]func(l *late) error{
		"use": func(l *late) error { return use(l, func(*rz_textstream, *rz_error) int32 { return 0 }) },
		"sized": func(l *late) error {
			_, err := sized(l, 1, func(_ *rz_textstream, _ *byte, _ uintptr, n *uintptr, _ *rz_error) int32 { return 0 })
			return err
		},
		"required": func(l *late) error {
			_, release, err := required[*rz_textstream](l, "l")
			if err == nil {
				release()
			}
			return err
		},
	} {
		l := &late{own[*rz_textstream](nil, func(*rz_textstream) {})}
		runtime.AddCleanup(l, (*owned[*rz_textstream]).drop, l.owned)
		if err := call(l); errors.Is(err, ErrClosed) {
			t.Error(name, "is too late:", err)
		}
	}
}
