package realizar

import (
	"cmp"
	"context"
	"runtime"
	"unsafe"
)

// json is what a reply has of its own in place of what the conversation has, nil for nothing.
func (o *ReplyOptions) json() ([]byte, error) {
	members := map[string]any{}
	if o.Tools != nil {
		members["tools"] = o.Tools
	}
	if o.ToolChoice != nil {
		members["tool_choice"] = o.ToolChoice
	}
	if o.ParallelToolCalls != nil {
		members["parallel_tool_calls"] = *o.ParallelToolCalls
	}
	if o.Variables != nil {
		members["variables"] = o.Variables
	}
	if len(members) == 0 {
		return nil, nil
	}
	return marshal(members)
}

// BeginRead begins to read the messages, for [Conversation.Step], so that the next reply begins sooner: a long
// document, the world of a game. No message is added. The options are the options of the next reply: tools, variables,
// Reasoning and Priority count. The context ends its steps.
func (c *Conversation) BeginRead(ctx context.Context, options *ReplyOptions) error {
	return c.alone(func(handle *rz_conversation) error { return c.beginRead(ctx, handle, options) })
}

func (c *Conversation) beginRead(ctx context.Context, handle *rz_conversation, options *ReplyOptions) error {
	if options == nil {
		options = &ReplyOptions{}
	}
	if err := over(c.scope.object); err != nil {
		return err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	text, err := options.json()
	if err != nil {
		return err
	}
	params := rz_reply_params{
		reasoning: uint32(options.Reasoning), priority: options.Priority,
		json: pinned(&pinner, text), json_len: uintptr(len(text)),
	}
	sizedStruct(&params)
	cancel, stop, err := c.held().watch(ctx)
	if err != nil {
		return err
	}
	params.cancel = cancel
	var e rz_error
	if err := check(lib.rz_conversation_read(handle, &params, &e), &e); err != nil {
		stop()
		return c.held().ended(err, ctx, c.scope.object)
	}
	c.begun(ctx, stop, 0)
	return nil
}

// Read reads the messages to their end, as [Conversation.BeginRead] begins to. What it has read when it fails is kept.
func (c *Conversation) Read(ctx context.Context, options *ReplyOptions) error {
	return c.alone(func(handle *rz_conversation) error {
		if err := c.beginRead(ctx, handle, options); err != nil {
			return err
		}
		for {
			if more, err := c.advance(NoLimit); err != nil {
				addJSON(handle, []byte("[]"), nil) // gives it up
				return err
			} else if !more {
				return nil
			}
		}
	})
}

// Stop ends an unfinished reply at once. Its text so far becomes a message, with [ReplyOptions.Keep] or without.
func (c *Conversation) Stop() error {
	return c.change(lib.rz_conversation_stop)
}

// Err is the error of the last reply: the cause of [EndFailed], or the reason why the reply is paused
// ([ConversationInfo].Stopped); else nil.
func (c *Conversation) Err() error {
	if err := use(c, lib.rz_conversation_error); err != nil {
		return err
	}
	info, err := c.Info()
	return cmp.Or(err, info.Stopped)
}

// Release gives the memory of what is remembered back, such as for a program in the background, and keeps the messages.
// The next reply computes them again. Release, SetCapacity and SetAdapters fail with [ErrBusy] while a reply is
// unfinished.
func (c *Conversation) Release() error {
	return c.change(lib.rz_conversation_release)
}

// SetCapacity makes room for so many tokens, 0 as in [SessionOptions]. The next reply computes all again.
func (c *Conversation) SetCapacity(capacity int) error {
	tokens, err := whole(capacity, "capacity")
	if err != nil {
		return err
	}
	return c.change(func(handle *rz_conversation, e *rz_error) int32 {
		return lib.rz_conversation_capacity_set(handle, tokens, e)
	})
}

// SetOverflow chooses what later replies do where there is no room.
func (c *Conversation) SetOverflow(overflow Overflow) error {
	return c.change(func(handle *rz_conversation, e *rz_error) int32 {
		return lib.rz_conversation_overflow_set(handle, uint32(overflow), e)
	})
}

// SetAdapters has later replies use some adapters, or none. The next one computes all again.
func (c *Conversation) SetAdapters(adapters ...ScaledAdapter) error {
	handles, scales, release, err := acquireAdapters(adapters)
	if err != nil {
		return err
	}
	defer release()
	return c.change(func(handle *rz_conversation, e *rz_error) int32 {
		return lib.rz_conversation_adapters_set(handle, unsafe.SliceData(handles), unsafe.SliceData(scales), uintptr(len(adapters)), e)
	})
}

// SetStore has later replies share what a store remembers; nil: none.
func (c *Conversation) SetStore(store *Store) error {
	shared, release, err := optional[*rz_store](store, "store")
	if err != nil {
		return err
	}
	defer release()
	return c.change(func(handle *rz_conversation, e *rz_error) int32 {
		return lib.rz_conversation_store_set(handle, shared, e)
	})
}
