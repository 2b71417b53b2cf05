package realizar

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"
	"unsafe"
)

// Conversation is messages with a model, their KV cache, and the current reply. A reply computes only prompt tokens
// that are not in the KV cache, usually those of the new messages. A Conversation serves one call at a time and keeps
// its model alive.
type Conversation struct {
	conversation *owned[*rz_conversation]
	scope        *owned[context.Context] // of the conversation and its forks
	reply        *atomic.Pointer[begun]
}

// begun is the state that steps of a reply need from its beginning.
type begun struct {
	contexts []context.Context // that end the reply
	stop     func()            // ends the watch of its own context
	width    int               // entries per row of log probabilities
}

// ConversationOptions are optional; the zero value means the defaults.
type ConversationOptions struct {
	Transcript                 // messages, tools and variables at the beginning
	System     string          // system message before the others; "": none
	Cache      SessionOptions  // KV cache
	Adapters   []ScaledAdapter // of every reply
	Store      *Store          // prefix cache; nil: none
	Overflow   Overflow
	Context    context.Context // ends every reply, also of forks; may be nil
}

// json returns the initial transcript, nil if it is empty.
func (o *ConversationOptions) json() ([]byte, error) {
	transcript := o.Transcript
	if !utf8.ValidString(o.System) {
		return nil, wrong("System is not UTF-8; it must be")
	}
	if o.System != "" {
		transcript.Messages = append([]any{Message{"system", o.System}}, transcript.Messages...)
	}
	text, err := marshal(transcript)
	if string(text) == "{}" {
		return nil, nil
	}
	return text, err
}

// NewConversation makes a conversation. It fails with [ErrUnsupported] if the model has no chat template.
func (m *Model) NewConversation(options *ConversationOptions) (*Conversation, error) {
	return m.conversation(options, lib.rz_conversation_new)
}

func (m *Model) conversation(options *ConversationOptions,
	f func(model *rz_model, params *rz_conversation_params, out **rz_conversation, e *rz_error) int32) (*Conversation, error) {
	if options == nil {
		options = &ConversationOptions{}
	}
	text, err := options.json()
	if err != nil {
		return nil, err
	}
	adapters, scales, release, err := acquireAdapters(options.Adapters)
	if err != nil {
		return nil, err
	}
	defer release()
	var pinner runtime.Pinner
	defer pinner.Unpin()
	cache, err := options.Cache.params()
	if err != nil {
		return nil, err
	}
	store, release, err := optional[*rz_store](options.Store, "Store")
	if err != nil {
		return nil, err
	}
	defer release()
	params := rz_conversation_params{
		overflow: uint32(options.Overflow), json: pinned(&pinner, text), json_len: uintptr(len(text)),
		adapters: pinned(&pinner, adapters), scales: pinned(&pinner, scales), n_adapters: uintptr(len(adapters)), cache: &cache, store: store,
	}
	sizedStruct(&params)
	pinner.Pin(&cache)
	model, err := m.held().acquire()
	if err != nil {
		return nil, err
	}
	ctx := options.Context
	if ctx == nil {
		ctx = context.Background()
	}
	cancel, stop, err := newCancel(ctx)
	if err != nil {
		m.model.release()
		return nil, err
	}
	scope := own(ctx, func(context.Context) {
		stop()
		m.model.release()
	})
	params.cancel = cancel
	var e rz_error
	var handle *rz_conversation
	if err := check(f(model, &params, &handle, &e), &e); err != nil {
		scope.close()
		return nil, ended(err, ctx)
	}
	return makeConversation(handle, scope), nil
}

// makeConversation makes a conversation that releases its scope when it is freed.
func makeConversation(handle *rz_conversation, scope *owned[context.Context]) *Conversation {
	reply := new(atomic.Pointer[begun])
	reply.Store(&begun{contexts: []context.Context{scope.object}, stop: func() {}, width: 1})
	c := &Conversation{scope: scope, reply: reply, conversation: own(handle, func(handle *rz_conversation) {
		lib.rz_conversation_free(handle)
		reply.Load().stop()
		scope.release()
	})}
	runtime.AddCleanup(c, (*owned[*rz_conversation]).drop, c.conversation)
	return c
}

// Close frees the conversation, at any moment, and ends a running reply early. Closing twice is fine.
func (c *Conversation) Close() error {
	return c.held().close()
}

// alone calls f with exclusive use of the conversation; other calls that change it fail meanwhile.
func (c *Conversation) alone(f func(handle *rz_conversation) error) error {
	defer runtime.KeepAlive(c)
	handle, leave, err := c.held().enter()
	if err != nil {
		return err
	}
	defer leave()
	return f(handle)
}

// change makes one call that changes the messages.
func (c *Conversation) change(f func(handle *rz_conversation, e *rz_error) int32) error {
	return c.alone(func(handle *rz_conversation) error {
		var e rz_error
		return check(f(handle, &e), &e)
	})
}

// Add appends a message of plain text. An unfinished reply is discarded first.
func (c *Conversation) Add(role, text string) error {
	if err := noNUL("role", role); err != nil {
		return err
	}
	return c.change(func(handle *rz_conversation, e *rz_error) int32 { return addText(handle, role, text, e) })
}

func addText(handle *rz_conversation, role, text string, e *rz_error) int32 {
	return lib.rz_conversation_add_text(handle, cString(role), unsafe.StringData(text), uintptr(len(text)), e)
}

// AddMessages appends messages, each of which becomes a JSON object as in [Transcript]: tool results, content parts, or
// replies of other models. An unfinished reply is discarded first.
func (c *Conversation) AddMessages(messages ...any) error {
	text, err := marshal(append([]any{}, messages...)) // so that no message gives an empty list
	if err != nil {
		return err
	}
	return c.change(func(handle *rz_conversation, e *rz_error) int32 { return addJSON(handle, text, e) })
}

func addJSON(handle *rz_conversation, text []byte, e *rz_error) int32 {
	return lib.rz_conversation_add(handle, unsafe.SliceData(text), uintptr(len(text)), nil, 0, e)
}

// Rewind removes the messages after the first n, to edit or to reply again. An unfinished reply is discarded first.
func (c *Conversation) Rewind(n int) error {
	messages, err := whole(n, "n")
	if err != nil {
		return err
	}
	return c.change(func(handle *rz_conversation, e *rz_error) int32 {
		return lib.rz_conversation_rewind(handle, messages, e)
	})
}

// Begin begins a reply, for [Conversation.Step]. An unfinished one is discarded first. The context ends its steps.
func (c *Conversation) Begin(ctx context.Context, options *ReplyOptions) error {
	return c.alone(func(handle *rz_conversation) error { return c.begin(ctx, handle, options) })
}

func (c *Conversation) begin(ctx context.Context, handle *rz_conversation, options *ReplyOptions) error {
	if options == nil {
		options = &ReplyOptions{}
	}
	if err := cmp.Or(over(c.scope.object), checkDraft(options.Draft, options.DraftModel)); err != nil {
		return err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	grammar := []byte(options.Grammar)
	params, err := options.params()
	if err != nil {
		return err
	}
	params.grammar_kind, params.grammar_flags = uint32(options.GrammarKind), uint32(options.GrammarFlags)
	params.grammar, params.grammar_len = pinned(&pinner, grammar), uintptr(len(grammar))
	params.draft = uint32(options.Draft)
	if options.Sampling != nil {
		sampler, err := options.Sampling.pinned(&pinner)
		if err != nil {
			return err
		}
		pinner.Pin(&sampler)
		params.sampler = &sampler
	}
	text, err := options.json()
	if err != nil {
		return err
	}
	params.json, params.json_len = pinned(&pinner, text), uintptr(len(text))
	stops, err := cStops(&pinner, options.Stops)
	if err != nil {
		return err
	}
	params.stops, params.n_stops = pinned(&pinner, stops), uintptr(len(stops))
	draft, release, err := optional[*rz_model](options.DraftModel, "DraftModel")
	if err != nil {
		return err
	}
	defer release()
	compiled, releaseCompiled, err := optional[*rz_grammar](options.Compiled, "Compiled")
	if err != nil {
		return err
	}
	defer releaseCompiled()
	cancel, stop, err := c.held().watch(ctx)
	if err != nil {
		return err
	}
	params.compiled_grammar, params.draft_model, params.cancel = compiled, draft, cancel
	var e rz_error
	if err := check(lib.rz_conversation_reply(handle, &params, &e), &e); err != nil {
		stop()
		return c.held().ended(err, ctx, c.scope.object)
	}
	c.begun(ctx, stop, options.Logprobs)
	return nil
}

// begun records the beginning of a reply.
func (c *Conversation) begun(ctx context.Context, stop func(), logprobs int) {
	c.reply.Swap(&begun{[]context.Context{ctx, c.scope.object}, stop, max(logprobs, 0) + 1}).stop()
}

// Reply generates a reply to the messages, part by part; an error comes last. If the loop is left early, or the reply
// fails, the reply is discarded.
func (c *Conversation) Reply(ctx context.Context, options *ReplyOptions) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		if err := c.alone(func(handle *rz_conversation) error {
			return c.speak(ctx, handle, options, func(part Part) bool { return yield(part, nil) })
		}); err != nil {
			yield(Part{}, err)
		}
	}
}

// Say adds a user message and generates the whole reply, whose content comes in pieces; an error comes last. If the
// loop is left early, or the context ends after the first piece, the conversation keeps the text so far. Any other
// error restores the messages. The options may be nil; Keep is set.
func (c *Conversation) Say(ctx context.Context, text string, options *ReplyOptions) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		handle, leave, err := c.held().enter()
		if err != nil {
			yield("", err)
			return
		}
		defer leave()
		var e rz_error
		if err := check(addText(handle, "user", text, &e), &e); err != nil {
			yield("", err)
			return
		}
		info, err := c.Info()
		if err == nil {
			said, kept := false, ReplyOptions{}
			if options != nil {
				kept = *options
			}
			kept.Keep = true
			if err = c.speak(ctx, handle, &kept, func(part Part) bool {
				if part.Kind != PartContent || part.Text == "" {
					return true
				}
				said = true
				return yield(part.Text, nil)
			}); err != nil && !(said && (errors.Is(err, ErrCancelled) || errors.Is(err, ErrDeadline))) {
				lib.rz_conversation_rewind(handle, uint32(info.Messages-1), nil)
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}

// speak generates a whole reply. If it is unfinished at the end, as after a panic of the loop, it is discarded.
func (c *Conversation) speak(ctx context.Context, handle *rz_conversation, options *ReplyOptions, yield func(part Part) bool) error {
	if err := c.begin(ctx, handle, options); err != nil {
		return err
	}
	more := true
	defer func() {
		if more {
			addJSON(handle, []byte("[]"), nil)
		}
	}()
	for more {
		goesOn, stepped := c.advance(NoLimit)
		parts, err := c.ready()
		for _, part := range parts { // also those before an error
			if !yield(part) {
				return nil
			}
		}
		if stepped != nil {
			return stepped
		} else if err != nil {
			return err
		}
		more = goesOn
	}
	return nil
}

// Step computes the reply for about the budget. It reports whether there is more to do.
func (c *Conversation) Step(budget time.Duration) (more bool, err error) {
	err = c.alone(func(*rz_conversation) (err error) {
		more, err = c.advance(budget)
		return err
	})
	return more, err
}

// take acquires conversations for a call, which ends with leave. A loop over a reply owns its parts.
func take(conversations []*Conversation) (leave func(), err error) {
	var taken []*Conversation
	leave = func() {
		for _, each := range taken {
			each.conversation.busy.Unlock()
		}
	}
	for i, each := range conversations {
		if slices.Contains(taken, each) {
			continue // the library rejects it
		}
		object := each.held()
		if object == nil || !object.busy.TryLock() {
			leave()
			if object == nil {
				return nil, missing(fmt.Sprintf("conversations[%d]", i))
			}
			return nil, object.isBusy()
		}
		taken = append(taken, each)
	}
	return leave, nil
}

// advance is Step; the caller must have taken the conversation.
func (c *Conversation) advance(budget time.Duration) (more bool, err error) {
	return step(c, func(handle *rz_conversation, e *rz_error) int32 {
		return lib.rz_conversation_step(handle, microseconds(budget), e)
	})
}

// StepConversations is [Conversation.Step] for several conversations of one model (continuous batching). A failed reply
// ends with [EndFailed] and does not affect others; a reply whose context has ended is skipped. [Conversation.Err]
// returns the error of either.
func StepConversations(conversations []*Conversation, budget time.Duration) (more bool, err error) {
	leave, err := take(conversations)
	if err != nil {
		return false, err
	}
	defer leave()
	return stepAll(conversations, "conversations", func(handles []*rz_conversation, e *rz_error) int32 {
		return lib.rz_conversations_step(unsafe.SliceData(handles), uintptr(len(handles)), microseconds(budget), e)
	})
}

func (c *Conversation) contexts() []context.Context { return c.reply.Load().contexts }

// Parts returns the parts of the reply since the last call.
func (c *Conversation) Parts() (parts []Part, err error) {
	err = c.alone(func(*rz_conversation) (err error) {
		parts, err = c.ready()
		return err
	})
	return parts, err
}

// ready is Parts; the caller must have taken the conversation.
func (c *Conversation) ready() ([]Part, error) {
	return partsOf(c, lib.rz_conversation_next_into)
}

// Logprobs returns the log probabilities of content tokens since the last call, for ReplyOptions.Logprobs.
func (c *Conversation) Logprobs() ([]TokenLogprobs, error) {
	if c.held() == nil {
		return nil, missing("the conversation")
	}
	return logprobsOf(c, c.reply.Load().width, lib.rz_conversation_logprobs_into)
}

// Messages returns the messages from index first on: as they were added, and replies with "content",
// "reasoning_content", "tool_calls" and "finish_reason". An unfinished reply is not included. Numbers are of type
// [json.Number], so that none is rounded.
func (c *Conversation) Messages(first int) (messages []map[string]any, err error) {
	from, err := whole(first, "first")
	if err != nil {
		return nil, err
	}
	text, err := sized(c, 4096, func(handle *rz_conversation, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return lib.rz_conversation_json_into(handle, from, out, capacity, n, e)
	})
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&messages)
	return messages, err
}

// Fork copies the conversation, between replies; both share the KV cache copy-on-write.
func (c *Conversation) Fork() (*Conversation, error) {
	var fork *rz_conversation
	if err := use(c, func(handle *rz_conversation, e *rz_error) int32 {
		status := lib.rz_conversation_fork(handle, &fork, e)
		if status >= 0 {
			_, _ = c.scope.acquire() // it is never closed
		}
		return status
	}); err != nil {
		return nil, err
	}
	return makeConversation(fork, c.scope), nil
}

// Info returns the state of the conversation and of its last reply.
func (c *Conversation) Info() (ConversationInfo, error) {
	return described(c, lib.rz_conversation_info_get, func(raw *rz_conversation_info) ConversationInfo {
		info := raw.value()
		info.Unfinished = raw.state == rz_STATE_PROMPT || raw.state == rz_STATE_TOKENS
		info.Stopped = stopped(c, info.Unfinished, raw.stopped)
		return info
	})
}
