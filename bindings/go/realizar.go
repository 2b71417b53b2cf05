// Package realizar is LLM inference inside the process, through librealizar.
//
//	model, err := realizar.Load(ctx, "model.gguf", nil)
//	conversation, err := model.NewConversation(nil)
//	for piece, err := range conversation.Say(ctx, "Hello", nil) { ... }
//
// A [Model] may be used by any number of goroutines at once. A [Conversation] and a [Session] belong to one call at a
// time; a second concurrent call fails with [ErrBusy]. Close never waits and may be called anywhere: running
// calls of the object end early with an error that is [ErrClosed], and the last use frees the memory. The garbage
// collector frees objects that are never closed, but late, because it does not see the library's memory.
//
// With cgo, pkg-config finds the library: if it is not in a system folder, set PKG_CONFIG_PATH to the folder of
// realizar.pc, and LD_LIBRARY_PATH or an rpath for the program. Without cgo (CGO_ENABLED=0), on 64-bit systems, a
// program opens the library at its first use; see [Open]. Other modules refer to these sources with a replace
// directive: replace realizar.dev/go => path/to/realizar/bindings/go.
package realizar

import (
	"context"
	"time"
)

// Version is the version of the library, such as "0.1.0".
//
// It is empty if the library cannot be loaded; [Open] returns the reason.
func Version() string {
	if Open("") != nil {
		return ""
	}
	return lib.rz_version()
}

// newCancel returns a cancel that fires when the context ends, at its deadline without a timer's delay. Call stop when
// it is no longer used.
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
