// Package realizar runs language models inside the process, through librealizar.
//
//	model, err := realizar.Load(ctx, "model.gguf", nil)
//	conversation, err := model.NewConversation(nil)
//	for piece, err := range conversation.Say(ctx, "Hello", nil) { ... }
//
// A [Model] may be used by any number of goroutines at once. A [Conversation] and a [Session] belong to one call at a
// time; a second concurrent call fails with [ErrBusy]. Close never waits and may be called anywhere; memory goes when
// nothing uses it any more. What is never closed is freed by the garbage collector, but late: it does not see the
// memory of the library.
//
// The package is built with cgo and finds the library through pkg-config, so PKG_CONFIG_PATH names the folder that
// holds realizar.pc where `make install` put it elsewhere than the system looks, and programs find the library itself
// as any other, by LD_LIBRARY_PATH or an rpath. A module of its own refers to the sources of this package with a
// replace directive: replace realizar.dev/go => path/to/realizar/bindings/go.
package realizar

/*
#cgo pkg-config: realizar
#include <realizar.h>
*/
import "C"

import (
	"context"
	"time"
)

// Version is the version of the library, such as "0.1.0".
func Version() string { return C.GoString(C.rz_version()) }

// watch returns a handle that fires when the context ends, at its deadline without a timer's delay, or nil for a
// context that never does. stop is called once the handle is no longer in use.
func watch(ctx context.Context) (cancel *C.rz_cancel, stop func(), err error) {
	if ctx.Err() != nil {
		return nil, nil, over(ctx)
	}
	if ctx.Done() == nil {
		return nil, func() {}, nil
	}
	var e C.rz_error
	if err := check(C.rz_cancel_new(&cancel, &e), &e); err != nil {
		return nil, nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := check(C.rz_cancel_deadline(cancel, C.uint64_t(microseconds(time.Until(deadline))), &e), &e); err != nil {
			C.rz_cancel_free(cancel)
			return nil, nil, err
		}
	}
	fired := make(chan struct{})
	forget := context.AfterFunc(ctx, func() {
		C.rz_cancel_fire(cancel)
		close(fired)
	})
	return cancel, func() {
		if !forget() {
			<-fired
		}
		C.rz_cancel_free(cancel)
	}, nil
}
