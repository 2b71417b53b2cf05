package realizar

import (
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
func (t *Conversation) BeginRead(ctx context.Context, options *ReplyOptions) error {
	object, leave, err := t.conversation.enter(&t.busy, "conversation")
	if err != nil {
		return err
	}
	defer leave()
	return t.beginRead(ctx, object, options)
}

func (t *Conversation) beginRead(ctx context.Context, object uintptr, options *ReplyOptions) error {
	if options == nil {
		options = &ReplyOptions{}
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	text, err := options.json()
	if err != nil {
		return err
	}
	params := rz_reply_params{
		reasoning: uint32(options.Reasoning), priority: options.Priority, json: pinned(&pinner, text), json_len: uintptr(len(text)),
	}
	params.struct_size = uint32(unsafe.Sizeof(params))
	cancel, stop, err := watch(ctx)
	if err != nil {
		return err
	}
	params.cancel = cancel
	var e rz_error
	if err := check(c.rz_conversation_read(object, &params, &e), &e); err != nil {
		stop()
		return err
	}
	t.reply.Swap(&begun{ctx, stop, 1}).stop()
	return nil
}

// Read reads the messages to their end, as [Conversation.BeginRead] begins to. What it has read when it fails is kept.
func (t *Conversation) Read(ctx context.Context, options *ReplyOptions) error {
	object, leave, err := t.conversation.enter(&t.busy, "conversation")
	if err != nil {
		return err
	}
	defer leave()
	if err := t.beginRead(ctx, object, options); err != nil {
		return err
	}
	for {
		if more, err := t.advance(NoLimit); err != nil {
			addJSON(object, []byte("[]"), nil) // gives it up
			return err
		} else if !more {
			return nil
		}
	}
}

// Stop ends an unfinished reply at once. What it has said becomes a message, with [ReplyOptions.Keep] or without.
func (t *Conversation) Stop() error {
	return t.change(c.rz_conversation_stop)
}

// Err is the error with which the last reply has ended, where that was one of its own; else nil.
func (t *Conversation) Err() error {
	return t.conversation.use(func(object uintptr, e *rz_error) int32 { return c.rz_conversation_error(object, e) })
}

// Release gives the memory of what is remembered back, such as for a program in the background, and keeps the messages.
// The next reply computes them again. Release, SetCapacity and SetAdapters fail with [ErrBusy] while a reply is
// unfinished.
func (t *Conversation) Release() error { return t.change(c.rz_conversation_release) }

// SetCapacity makes room for so many tokens, 0 as in [SessionOptions]. The next reply computes all again.
func (t *Conversation) SetCapacity(capacity int) error {
	tokens, err := whole(capacity, "capacity")
	if err != nil {
		return err
	}
	return t.change(func(object uintptr, e *rz_error) int32 { return c.rz_conversation_capacity_set(object, tokens, e) })
}

// SetOverflow chooses what later replies do where there is no room.
func (t *Conversation) SetOverflow(overflow Overflow) error {
	return t.change(func(object uintptr, e *rz_error) int32 {
		return c.rz_conversation_overflow_set(object, uint32(overflow), e)
	})
}

// SetAdapters has later replies use some adapters, or none. The next one computes all again.
func (t *Conversation) SetAdapters(adapters ...ScaledAdapter) error {
	objects, scales, release, err := acquireAdapters(adapters)
	if err != nil {
		return err
	}
	defer release()
	return t.change(func(object uintptr, e *rz_error) int32 {
		return c.rz_conversation_adapters_set(object, unsafe.SliceData(objects), unsafe.SliceData(scales), uintptr(len(objects)), e)
	})
}

// SetStore has later replies share what a store remembers; nil: none.
func (t *Conversation) SetStore(store *Store) error {
	shared, err := store.handle().acquire()
	if err != nil {
		return err
	}
	defer store.handle().release()
	return t.change(func(object uintptr, e *rz_error) int32 { return c.rz_conversation_store_set(object, shared, e) })
}
