// Events of replies: pieces, signs and outcomes, on their way from the engine to a client.
package main

import (
	"cmp"
	"sync"
	"time"

	"realizar.dev/go"
)

// event is a piece of a reply. The last event of a reply has an outcome.
type event struct {
	Choice        int                      // index of its generation
	Sign          sign                     // 0: it is a piece
	realizar.Part                          // Kind is 0 without a part; all parts of a text completion are PartContent
	Logprobs      []realizar.TokenLogprobs // rows of new tokens of content
	Prompt        []realizar.TokenLogprobs // rows of the prompt tokens of a text completion, before all other rows
	Counted       *outcome                 // tokens of the reply so far; nil: unknown
	Outcome       *outcome
}

// sign is an event about the whole request, not about one reply.
type sign int

const (
	accepted sign = 1 + iota // the request is valid, and has its slots or waits for them
	waiting                  // no event has come for signEvery
)

// signDelay is how long a stream waits for the first piece before it begins without one, at the cost of an extra write.
const signDelay = 50 * time.Millisecond

// signEvery is the time after which waiting clients get a sign that the answer continues.
var signEvery = 10 * time.Second

// joins reports whether the next event can be merged into this one.
func (e event) joins(next event) bool {
	same := e.Choice == next.Choice && e.Sign == next.Sign && e.Kind == next.Kind && e.Call == next.Call && e.Unparsed == next.Unparsed
	return same && e.Sign == 0 && e.Kind != realizar.PartToolName && next.Outcome == nil
}

// outcome is the result of a finished reply.
type outcome struct {
	End                                   realizar.EndReason
	Called                                bool // the reply has tool calls
	Prompt, Cached, Completion, Reasoning int  // numbers of tokens; Cached: prompt tokens found in a cache
}

// finish returns OpenAI's "finish_reason".
func (o *outcome) finish() string {
	switch {
	case o.End == realizar.EndLength || o.End == realizar.EndContext:
		return "length"
	case o.Called:
		return "tool_calls"
	}
	return "stop"
}

// usage returns the "usage" of OpenAI's chats and completions.
func (o *outcome) usage() map[string]any {
	return map[string]any{
		"prompt_tokens": o.Prompt, "completion_tokens": o.Completion, "total_tokens": o.Prompt + o.Completion,
		"prompt_tokens_details":     map[string]any{"cached_tokens": o.Cached},
		"completion_tokens_details": map[string]any{"reasoning_tokens": o.Reasoning},
	}
}

// appended appends an event, or merges it into the last one.
func appended(events []event, e event) []event {
	if n := len(events); n > 0 && events[n-1].joins(e) {
		last := &events[n-1]
		last.Text, last.Logprobs, last.Counted = last.Text+e.Text, append(last.Logprobs, e.Logprobs...), e.Counted
		return events
	}
	return append(events, e)
}

// mailbox has the events of all replies of a request that its client has not taken yet. Replies occupy slots, so they
// never wait for a client that reads slowly.
type mailbox struct {
	mu     sync.Mutex
	events []event
	err    error
	ready  chan struct{} // capacity 1; signals that there is an event or an error
}

func (m *mailbox) put(e event) {
	m.mu.Lock()
	m.events = appended(m.events, e)
	m.mu.Unlock()
	m.signal()
}

// fail adds the error that ends all replies; the first one counts.
func (m *mailbox) fail(err error) {
	m.mu.Lock()
	m.err = cmp.Or(m.err, err)
	m.mu.Unlock()
	m.signal()
}

func (m *mailbox) signal() {
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() (events []event, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	events, m.events = m.events, nil
	return events, m.err
}
