// Replies of one model: their slots, the queue, and the goroutine that computes all replies (continuous batching).
package main

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"realizar.dev/go"
	"realizar.dev/go/cmd/serve/internal/network"
)

// stepBudget is the duration of one step of all replies. It bounds how long new requests wait for the next step, and
// how long slots of disconnected clients stay occupied.
const stepBudget = 20 * time.Millisecond

// generation is a request to a model: a reply to a chat, or a text completion. Its fields are the library's.
type generation struct {
	Transcript *realizar.Transcript  // messages and tools of a chat; nil: it is a text
	Prompt     []uint32              // tokens of a text
	Reply      realizar.ReplyOptions // options; a text ignores Reasoning, ReasoningTokens, Keep and Continue
	Quiet      bool                  // no reasoning, if the template can disable it
	Lenient    bool                  // the template's default reasoning, if it cannot switch as requested
	Constraint string                // field of the request that has the grammar of Reply; "": none
	Opening    *opening              // text with which the reply to Transcript begins; nil: none
	Parsed     *realizar.Transcript  // transcript whose reply a text is parsed as; nil: plain text
	Scored     bool                  // the log probabilities of the prompt of a text come first
	Empty      bool                  // no token of a text is generated
	Ends       []uint32              // tokens that end an infilled text, in addition to those of the library

	openingParam string    // path of the message that Opening is
	effort       [2]string // field of the request that switches reasoning, and its value; "": none
}

// message is a message of a transcript, as the library takes it.
type message struct {
	Role             string     `json:"role"`
	Content          any        `json:"content"` // a text, nil, or a list of textPart and *mediaItem
	Name             string     `json:"name,omitempty"`
	ReasoningContent string     `json:"reasoning_content,omitempty"`
	ToolCalls        []toolCall `json:"tool_calls,omitempty"`
	ToolCallID       string     `json:"tool_call_id,omitempty"`
}

type textPart struct {
	Type string `json:"type"` // "text"
	Text string `json:"text"`
}

// toolCall is a tool call in OpenAI's form.
type toolCall struct {
	ID       string   `json:"id,omitempty"`
	Type     string   `json:"type"` // "function"
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // a JSON object
}

// jsonObject is the schema of any JSON object.
const jsonObject = `{"type": "object"}`

// engine computes the replies of a model. Each running reply has a slot; the goroutine run steps all replies as a
// batch.
type engine struct {
	model    *realizar.Model
	store    *realizar.Store // prefix cache; nil: none
	outlasts bool            // the store has a folder, and may have more prefixes than the idle caches
	session  realizar.SessionOptions
	capacity int // tokens of a prompt and its reply
	maxQueue int
	counting chan struct{} // semaphore for requests that count tokens
	reading  atomic.Int64  // requests whose texts are being read, or wait for it
	metrics  *modelMetrics

	mu       sync.Mutex
	free     int           // number of free slots
	waiting  []*place      // places without a slot, in the order of arrival
	reserved int           // number of places whose owners have not asked for a slot
	caches   []*cache      // idle caches, least recently used first
	alive    int           // number of caches, including those in use
	slots    int           // maximum number of caches
	held     time.Duration // expected time for which a place has its slot

	started chan *task
	ended   chan struct{} // closed: there will be no more tasks
}

func newEngine(model *realizar.Model, store *realizar.Store, session realizar.SessionOptions, capacity, slots, maxQueue int, metrics *modelMetrics) *engine {
	e := &engine{
		model: model, store: store, session: session, capacity: capacity, maxQueue: maxQueue, metrics: metrics, free: slots, slots: slots,
		counting: make(chan struct{}, slots), held: assumedHeld,
		started: make(chan *task), ended: make(chan struct{}),
	}
	metrics.slots.Add(float64(slots))
	go e.run()
	return e
}

// close ends the goroutine and frees all memory; all slots must be free.
func (e *engine) close() {
	close(e.ended)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.caches {
		c.close()
	}
	e.caches = nil
	if e.store != nil {
		e.store.Close()
	}
	e.metrics.slots.Sub(float64(e.slots))
}

// task is a running reply.
type task struct {
	ctx    context.Context
	cache  *cache
	job    *realizar.Job // text completion; nil: a chat
	parsed bool          // the text is parsed as the reply to a chat
	filler *filler       // ends an infilled text; nil: it is another text
	before int           // tokens of the prompt of a text that precede the prompt of the job
	cached int           // tokens of the prompt of a text that the session had before
	scored bool          // log probabilities are requested
	called bool
	tokens int // tokens generated so far

	mu     sync.Mutex
	events []event // events not yet taken
	err    error
	over   bool          // the engine has released it
	ready  chan struct{} // signals that a field above has changed; capacity 1
}

// tell adds events; with over, these are the last ones. Pending pieces are merged, so a slow reader gets few large
// pieces.
func (t *task) tell(events []event, over bool, err error) {
	if len(events) == 0 && !over {
		return
	}
	t.mu.Lock()
	for _, e := range events {
		t.events = appended(t.events, e)
	}
	t.over, t.err = over, err
	t.mu.Unlock()
	select {
	case t.ready <- struct{}{}:
	default:
	}
}

// take waits for events.
func (t *task) take() (events []event, over bool, err error) {
	<-t.ready
	t.mu.Lock()
	defer t.mu.Unlock()
	events, t.events = t.events, nil
	return events, t.over, t.err
}

// run steps all tasks as a batch until the engine is closed.
func (e *engine) run() {
	var tasks []*task
	for {
		if len(tasks) == 0 {
			select {
			case t := <-e.started:
				tasks = append(tasks, t)
			case <-e.ended:
				return
			}
		}
		for more := true; more; {
			select {
			case t := <-e.started:
				tasks = append(tasks, t)
			default:
				more = false
			}
		}
		tasks = slices.DeleteFunc(tasks, func(t *task) bool {
			over := t.ctx.Err() != nil
			if over {
				t.tell(nil, true, context.Cause(t.ctx))
			}
			return over
		})
		failed := step(tasks)
		tasks = slices.DeleteFunc(tasks, func(t *task) bool {
			before := t.tokens
			events, over, err := t.collect()
			e.metrics.generated.Add(float64(t.tokens - before))
			if err == nil {
				err = failed[t]
			}
			over = over || err != nil
			t.tell(events, over, err)
			return over
		})
	}
}

// step steps all tasks for about stepBudget. If an error does not belong to a single reply, it steps each task alone,
// so that the other tasks can continue.
func step(tasks []*task) map[*task]error {
	var conversations []*realizar.Conversation
	var jobs []*realizar.Job
	for _, t := range tasks {
		if t.job == nil {
			conversations = append(conversations, t.cache.conversation)
		} else {
			jobs = append(jobs, t.job)
		}
	}
	var failures [2]error
	if len(conversations) > 0 {
		_, failures[0] = realizar.StepConversations(conversations, stepBudget)
	}
	if len(jobs) > 0 {
		_, failures[1] = realizar.StepJobs(jobs, stepBudget)
	}
	if errors.Join(failures[:]...) == nil {
		return nil
	}
	failed := map[*task]error{}
	for _, t := range tasks {
		var err, first error
		if t.job == nil {
			_, err = t.cache.conversation.Step(0)
			first = failures[0]
		} else {
			_, err = t.job.Step(0)
			first = failures[1]
		}
		if errors.Is(err, realizar.ErrPoisoned) && errors.Is(first, realizar.ErrPanic) {
			// The error that made it unusable says more than the error of being unusable.
			err = first
		}
		if err != nil {
			failed[t] = err
		}
	}
	return failed
}

// collect takes the new parts of a reply.
func (t *task) collect() (events []event, over bool, err error) {
	if t.job != nil {
		return t.collectText()
	}
	c := t.cache.conversation
	info, err := c.Info()
	if err != nil {
		return nil, true, err
	}
	if info.End == realizar.EndFailed {
		_, err := c.Step(0)
		return nil, true, err
	}
	t.tokens = max(t.tokens, info.Tokens)
	parts, err := c.Parts()
	if err != nil {
		return nil, true, err
	}
	var rows []realizar.TokenLogprobs
	if t.scored {
		rows, err = c.Logprobs()
	}
	events, over = t.pieces(parts)
	events = withLogprobs(events, rows)
	if n := len(events); n > 0 {
		events[n-1].Counted = &outcome{Prompt: info.Prompt, Cached: info.Reused, Completion: info.Tokens, Reasoning: info.ReasoningTokens}
	}
	if over {
		events = append(events, event{Outcome: &outcome{
			End: info.End, Called: t.called, Prompt: info.Prompt, Cached: info.Reused, Completion: info.Tokens, Reasoning: info.ReasoningTokens,
		}})
	}
	return events, over, err
}

// pieces returns the events of parts; over is true if the parts include the end.
func (t *task) pieces(parts []realizar.Part) (events []event, over bool) {
	for _, part := range parts {
		over = over || part.Kind == realizar.PartEnd
		t.called = t.called || part.Kind == realizar.PartToolName
		if part.Kind == realizar.PartToolID {
			continue // ids must be unique across conversations, so the server generates them
		}
		if part.Kind != realizar.PartEnd && (part.Text != "" || part.Kind == realizar.PartToolName) {
			events = append(events, event{Part: part})
		}
	}
	return events, over
}

// collectText is the equivalent of collect for a text completion.
func (t *task) collectText() (events []event, over bool, err error) {
	info, err := t.job.Info()
	if err != nil {
		return nil, true, err
	}
	if info.End == realizar.EndFailed {
		return nil, true, t.job.Err()
	}
	t.tokens = max(t.tokens, info.Tokens)
	parts := []realizar.Part{{Kind: realizar.PartContent}}
	if t.parsed {
		parts, err = t.job.Parts()
	} else {
		parts[0].Text, err = t.job.Text()
	}
	dropped := 0
	if t.filler != nil && err == nil {
		if dropped, err = t.filler.read(t.job, &parts[0].Text); dropped > 0 {
			info.End, info.Tokens = realizar.EndToken, t.filler.tokens
		}
	}
	if err != nil {
		return nil, true, err
	}
	events, _ = t.pieces(parts)
	var rows []realizar.TokenLogprobs
	if t.scored {
		rows, err = t.job.Logprobs()
	}
	rows = rows[:max(0, len(rows)-dropped)]
	events = withLogprobs(events, rows)
	if n := len(events); n > 0 {
		events[n-1].Counted = &outcome{Prompt: t.before + info.Prompt, Cached: t.cached, Completion: info.Tokens}
	}
	if over = info.End != realizar.EndNone; over {
		events = append(events, event{Outcome: &outcome{
			End: info.End, Called: t.called, Prompt: t.before + info.Prompt, Cached: t.cached, Completion: info.Tokens,
		}})
	}
	return events, over, err
}

// withLogprobs adds rows to the last event with content, or appends an event.
func withLogprobs(events []event, rows []realizar.TokenLogprobs) []event {
	if len(rows) == 0 {
		return events
	}
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Kind == realizar.PartContent {
			events[i].Logprobs = rows
			return events
		}
	}
	return append(events, event{Logprobs: rows})
}

// manyTools is the number of tools from which compiling takes longer than counting tokens. From then on, the length of
// the prompt is checked first.
const manyTools = 256

// admit takes places for the replies of a request, and validates the request before the first reply begins. Replies of
// a chat that get their slots at once are validated by beginning them. later is true if all replies except the first
// one request their slots later.
func (l *lease) admit(ctx context.Context, all []*generation, later bool) (places []*place, err error) {
	width := min(len(all), l.engine.slots)
	atOnce := width
	if later {
		atOnce = 1
	}
	if places, err = l.engine.admit(width, atOnce); err != nil {
		return nil, err
	}
	if all[0].Transcript == nil {
		for _, g := range all {
			err = cmp.Or(err, l.check(ctx, g))
		}
	} else if last := places[min(len(places), atOnce)-1]; all[0].Opening != nil || !last.hasSlot() || len(all[0].Transcript.Tools) > manyTools {
		err = l.check(ctx, all[0]) // all choices of a chat are one request
	}
	if err != nil {
		for _, place := range places {
			place.leave()
		}
	}
	return places, err
}

// generate yields the events of the replies to one request. An error comes last and ends all replies. As many replies
// run concurrently as there are places; the others follow. If the request is rejected, the error precedes all events.
// If the first piece takes a while, an accepted event precedes it, followed by waiting events. If the loop is left or
// the context ends, the slots are free within a step.
func (l *lease) generate(ctx context.Context, all ...*generation) iter.Seq2[event, error] {
	for _, g := range all {
		l.adapt(g)
	}
	return func(yield func(event, error) bool) {
		// With a store, later choices of a chat find the prompt there after the first one has prefilled it.
		later := len(all) > 1 && all[0].Transcript != nil && l.engine.store != nil
		places, err := l.admit(ctx, all, later)
		if err != nil {
			yield(event{}, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		events := &mailbox{ready: make(chan struct{}, 1)}
		read, open := make(chan struct{}), func() {}
		unchecked := len(places)
		if later {
			open, unchecked = sync.OnceFunc(func() { close(read) }), 1
		} else {
			close(read)
		}
		var next atomic.Int64 // index of the next reply that runs after others
		next.Store(int64(len(places)))
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		for i, place := range places {
			group.Add(1)
			go func() {
				defer group.Done()
				defer place.leave()
				if i > 0 {
					select {
					case <-read:
					case <-ctx.Done():
						return
					}
				}
				for ; i < len(all); i = int(next.Add(1) - 1) {
					tell := func(e event) bool {
						e.Choice = i
						events.put(e)
						return ctx.Err() == nil
					}
					if err := l.reply(ctx, place, all[i], tell); err != nil {
						events.fail(err)
						return
					}
					place.pass()
				}
			}()
		}
		signs := time.NewTicker(signEvery)
		defer signs.Stop()
		halfClosed := network.ConnectionOf(ctx).HalfClosed()
		early := 0                    // number of early signs, which detect a disconnected client
		var patience <-chan time.Time // fires when the acceptance is sent, unless a piece has come
		begun := false
		for left := len(all); left > 0; {
			select {
			case <-events.ready:
				pieces, err := events.take()
				for _, e := range pieces {
					if e.Sign == accepted {
						if unchecked--; unchecked == 0 {
							patience = time.After(signDelay)
						}
						continue
					}
					if e.Kind != realizar.PartToolArguments { // arguments of a custom tool are sent only when complete
						signs.Reset(signEvery)
					}
					open()
					begun = true
					if !yield(e, nil) {
						return
					}
					if e.Outcome != nil {
						left--
					}
				}
				if err != nil {
					yield(event{}, err)
					return
				}
			case <-patience:
				if !begun && !yield(event{Sign: accepted}, nil) {
					return
				}
				begun = true
			case <-halfClosed:
				halfClosed, early = nil, network.EarlyProbes
				signs.Reset(network.LookEvery)
			case <-signs.C:
				if early--; early == 0 {
					signs.Reset(signEvery)
				}
				if begun && !yield(event{Sign: waiting}, nil) {
					return
				}
			case <-ctx.Done():
				yield(event{}, context.Cause(ctx))
				return
			}
		}
	}
}

// reply computes one reply, with the slot of a place. It passes the events to tell as long as tell returns true. The
// first event is the sign accepted.
func (l *lease) reply(ctx context.Context, place *place, g *generation, tell func(event) bool) error {
	start := time.Now()
	told := false
	accept := func() bool {
		before := told
		told = true
		return before || tell(event{Sign: accepted})
	}
	if err := place.wait(ctx, func() { accept() }); err != nil {
		return err
	}
	var media []*realizar.Media
	if g.Transcript != nil {
		one := *g.Transcript // a copy, because other replies to it number its media too
		one.Messages = slices.Clone(one.Messages)
		g = &generation{
			Transcript: &one, Reply: g.Reply, Constraint: g.Constraint, Quiet: g.Quiet, Lenient: g.Lenient, Opening: g.Opening, openingParam: g.openingParam, effort: g.effort,
		}
		all, release, err := l.media(ctx, numbered(&one))
		if err != nil {
			return err
		}
		defer release()
		media = all
	}
	var shown *realizar.Prompt
	asked := g
	if g.Opening != nil {
		var err error
		g, shown, err = l.opened(g, media)
		if shown != nil {
			defer shown.Close()
		}
		if err != nil {
			return l.asReplyError(ctx, asked, err)
		}
	}
	setup, trace, err := l.setupOf(g)
	if err != nil {
		return refuse("", "%v", err)
	}
	c, err := l.recall(g, setup, trace)
	if err != nil {
		return l.asReplyError(ctx, asked, err)
	}
	useless := len(c.trace) == 0 // unless it gets tokens
	defer func() { l.engine.rest(c, useless) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &task{ctx: ctx, cache: c, parsed: g.Parsed != nil, ready: make(chan struct{}, 1)}
	if shown != nil {
		trace, t.before = nil, shown.Len()
		if t.cached, err = c.show(ctx, shown); err != nil {
			return l.asReplyError(ctx, asked, err)
		}
	}
	if g.Scored {
		rows, err := score(ctx, c.session, g.Prompt, max(g.Reply.Logprobs, 0))
		if err != nil {
			return l.asReplyError(ctx, asked, err)
		}
		useless = false
		accept()
		tell(event{Prompt: rows})
	}
	if g.Empty {
		accept()
		end := &outcome{End: realizar.EndLength, Prompt: len(g.Prompt)}
		l.engine.metrics.count(end)
		recordOf(ctx).counts(end.Prompt, 0, false)
		tell(event{Outcome: end})
		return nil
	}
	err = l.begin(t, g, media)
	if t.job != nil {
		defer t.job.Close()
	}
	if t.filler != nil {
		defer t.filler.stream.Close()
	}
	if err != nil {
		return l.asReplyError(ctx, asked, err)
	}
	if !accept() {
		return context.Cause(ctx)
	}
	c.trace = trace
	l.engine.started <- t
	metrics, first := l.engine.metrics, true
	for {
		events, over, err := t.take()
		for _, e := range events {
			if first {
				metrics.firstToken.Observe(time.Since(start).Seconds())
				recordOf(ctx).begins()
				first = false
			}
			if e.Outcome != nil {
				metrics.count(e.Outcome)
				recordOf(ctx).counts(e.Outcome.Prompt, e.Outcome.Completion, asked.Transcript != nil)
			}
			if !tell(e) {
				cancel() // the engine releases it within a step
			}
		}
		if over {
			useless = shown != nil || err != nil && ctx.Err() == nil
			if err != nil && first {
				err = l.asReplyError(ctx, asked, err)
			}
			return err
		}
	}
}

// begin begins the reply of a task to messages with media, without computing anything.
func (l *lease) begin(t *task, g *generation, media []*realizar.Media) error {
	t.scored = g.Reply.Logprobs != 0
	if c := t.cache.conversation; c != nil {
		if err := c.Rewind(0); err != nil {
			return err
		}
		if err := c.AddMedia(media, g.Transcript.Messages...); err != nil {
			return err
		}
		return l.beginReply(t.ctx, c, g)
	}
	s, r := t.cache.session, g.Reply
	held, err := 0, error(nil)
	if t.before == 0 {
		if held, err = s.Match(g.Prompt); err != nil {
			return err
		}
		held = max(0, min(held, len(g.Prompt)-1)) // the last token must be computed for its logits
		if err := s.Truncate(held); err != nil {
			return err
		}
		t.before = held
		if !g.Scored { // otherwise the session has them from the scores
			t.cached = held
		}
	}
	options := realizar.JobOptions{
		Chat: g.Parsed, MaxTokens: r.MaxTokens, Stops: r.Stops, Logprobs: r.Logprobs, Draft: r.Draft, DraftMax: r.DraftMax, DraftModel: r.DraftModel,
	}
	if r.Sampling != nil {
		if options.Sampler, err = realizar.NewSampler(*r.Sampling); err != nil {
			return err
		}
		defer options.Sampler.Close()
	}
	if r.GrammarKind != 0 {
		if options.Grammar, err = l.NewGrammar(r.GrammarKind, r.Grammar, r.GrammarFlags); err != nil {
			return err
		}
		defer options.Grammar.Close()
	}
	if t.job, err = s.NewJob(t.ctx, g.Prompt[held:], &options); err == nil && g.Ends != nil {
		t.filler, err = newFiller(l.Model, g.Prompt, g.Ends)
	}
	return err
}
