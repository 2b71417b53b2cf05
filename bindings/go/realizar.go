// Package realizar runs language models inside the process, through librealizar.
//
//	model, err := realizar.Load(ctx, "model.gguf", nil)
//	conversation, err := model.NewConversation(nil)
//	for piece, err := range conversation.Say(ctx, "Hello", nil) { ... }
//
// A [Model] may be used by any number of goroutines at once. A [Conversation] and a [Session] belong to one call at a
// time; a second concurrent call fails with [ErrBusy]. Close never waits and may be called anywhere: calls of the
// object that run end early, with an error that is [ErrClosed], and memory goes when nothing uses it any more. What is
// never closed is freed by the garbage collector, but late: it does not see the memory of the library.
//
// With cgo the library is found through pkg-config, so PKG_CONFIG_PATH names the folder that holds realizar.pc where
// `make install` put it elsewhere than the system looks, and programs find the library itself as any other, by
// LD_LIBRARY_PATH or an rpath. Without cgo (CGO_ENABLED=0), on systems of 64 bits, a program opens the library when it
// first uses it; see [Open]. A module of its own refers to the sources of this package with a replace directive:
// replace realizar.dev/go => path/to/realizar/bindings/go.
package realizar

import (
	"context"
	"time"
)

// Version is the version of the library, such as "0.1.0".
//
// It is empty where the library cannot be loaded, and [Open] says why.
func Version() string {
	if Open("") != nil {
		return ""
	}
	return lib.rz_version()
}

// newCancel is what fires when the context ends, at its deadline without a timer's delay. stop is called once it is no
// longer in use.
func newCancel(ctx context.Context) (cancel *rz_cancel, stop func(), err error) {
	if ctx == nil {
		return nil, nil, missing("ctx")
	} else if err := over(ctx); err != nil {
		return nil, nil, err
	}
	var e rz_error
	if err := check(lib.rz_cancel_new(&cancel, &e), &e); err != nil {
		return nil, nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := check(lib.rz_cancel_deadline(cancel, microseconds(time.Until(deadline)), &e), &e); err != nil {
			lib.rz_cancel_free(cancel)
			return nil, nil, err
		}
	}
	if ctx.Done() == nil {
		return cancel, func() { lib.rz_cancel_free(cancel) }, nil
	}
	fired := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		lib.rz_cancel_fire(cancel)
		close(fired)
	})
	return cancel, func() {
		if !forget() {
			<-fired
		}
		lib.rz_cancel_free(cancel)
	}, nil
}
