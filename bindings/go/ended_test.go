// The tests of what ends calls and replies, and of how they tell so.
package realizar

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

var errEnough = errors.New("enough")

// isEnded tells whether an error is all that a context says of its end.
func isEnded(err, reason error, code Code) bool {
	return errors.Is(err, reason) && errors.Is(err, errEnough) && errors.Is(err, code)
}

// long is a prompt that takes many milliseconds.
func long(n int) []uint32 { return slices.Repeat([]uint32{1, 403, 407}, n/3) }

func TestCausesOfContextsAreTold(t *testing.T) {
	model := load(t, chatModel(t, plainTemplate))
	session := newSession(t, model, 8192)
	calls := map[string]func(ctx context.Context) error{
		"prefill": func(ctx context.Context) error {
			err := session.Prefill(ctx, long(6000))
			must(t, session.Truncate(0))
			return err
		},
		"embed": func(ctx context.Context) error {
			_, err := model.EmbedTokens(ctx, slices.Repeat([][]uint32{long(500)}, 100), &EmbedOptions{Pooling: PoolingMean})
			return err
		},
		"say": func(ctx context.Context) (last error) {
			c := newConversation(t, model, ConversationOptions{Cache: SessionOptions{Capacity: 8192}})
			for _, err := range c.Say(ctx, prompt, nil) {
				last = err
			}
			return last
		},
		"reply of a conversation with a context": func(ctx context.Context) (last error) {
			c, err := model.NewConversation(&ConversationOptions{Context: ctx, Cache: SessionOptions{Capacity: 8192}})
			if err != nil {
				return err
			}
			defer c.Close()
			must(t, c.Add("user", prompt))
			for _, err := range c.Reply(t.Context(), nil) {
				last = err
			}
			return last
		},
		"job": func(ctx context.Context) error {
			job, err := newSession(t, model, 8192).NewJob(ctx, long(6000), nil)
			for more := err == nil; more && err == nil; {
				more, err = job.Step(NoLimit)
			}
			return err
		},
	}
	for name, call := range calls {
		for range 5 {
			ctx, stop := context.WithDeadlineCause(t.Context(), time.Now().Add(3*time.Millisecond), errEnough)
			if err := call(ctx); !isEnded(err, context.DeadlineExceeded, ErrDeadline) {
				t.Errorf("%s: %v", name, err)
			}
			if err := call(ctx); !isEnded(err, context.DeadlineExceeded, ErrDeadline) {
				t.Errorf("%s after the deadline: %v", name, err)
			}
			stop()
			cancelled, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(3*time.Millisecond, func() { cancel(errEnough) })
			if err := call(cancelled); !isEnded(err, context.Canceled, ErrCancelled) {
				t.Errorf("%s: %v", name, err)
			}
			if err := call(cancelled); !isEnded(err, context.Canceled, ErrCancelled) {
				t.Errorf("%s after the cancel: %v", name, err)
			}
		}
	}
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	if _, err := Load(cancelled, storyModel, nil); !isEnded(err, context.Canceled, ErrCancelled) {
		t.Error(err)
	}
	if _, err := Fetch(cancelled, "hf:owner/none", nil); !isEnded(err, context.Canceled, ErrCancelled) {
		t.Error(err)
	}
}

// silent is a context with a deadline that never says that it has ended.
type silent struct{ context.Context }

func (silent) Deadline() (time.Time, bool) { return time.Now(), true }
func (silent) Done() <-chan struct{}       { return nil }

func TestADeadlineOfAnotherKindOfContext(t *testing.T) {
	session := newSession(t, load(t, storyModel), 8192)
	if err := session.Prefill(silent{context.Background()}, long(6000)); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrDeadline) {
		t.Error(err)
	}
}

// What has ended a reply is known when the call that ended it returns, each time.
func TestTheEndOfAReplyIsKnownAtOnce(t *testing.T) {
	model := load(t, chatModel(t, plainTemplate))
	begin := func(ctx context.Context, options ReplyOptions) *Conversation {
		c := newConversation(t, model, ConversationOptions{})
		must(t, c.Add("user", prompt), c.Begin(ctx, &options))
		_, err := c.Step(NoLimit)
		must(t, err)
		return c
	}
	for range 50 {
		ctx, cancel := context.WithCancelCause(t.Context())
		c, both := begin(ctx, ReplyOptions{}), begin(ctx, ReplyOptions{MaxTokens: 1})
		cancel(errEnough)
		if now := info(t, c); !now.Unfinished || now.End != EndNone || !isEnded(now.Stopped, context.Canceled, ErrCancelled) {
			t.Fatalf("%+v", now)
		}
		if err := c.Err(); !isEnded(err, context.Canceled, ErrCancelled) {
			t.Fatal(err)
		}
		// What has ended by itself is not stopped.
		if now := info(t, both); now.Unfinished || now.End != EndLength || now.Stopped != nil || both.Err() != nil {
			t.Fatalf("%+v", now)
		}
		must(t, c.Stop())
		if now := info(t, c); now.Unfinished || now.End != EndCancelled || now.Stopped != nil {
			t.Fatalf("%+v", now)
		}
	}
	c := beginLate(t, model)
	if now := info(t, c); !isEnded(now.Stopped, context.DeadlineExceeded, ErrDeadline) {
		t.Errorf("%+v", now)
	}
	for want, options := range map[EndReason]ReplyOptions{EndLength: {MaxTokens: 2}, EndStop: {Stops: []string{" She"}}, EndContext: {}, EndGrammar: {GrammarKind: GrammarChoices, Grammar: `["a"]`}} {
		c := begin(t.Context(), options)
		for more := true; more; {
			var err error
			more, err = c.Step(NoLimit)
			must(t, err)
		}
		if now := info(t, c); now.End != want && !(want == EndGrammar && now.End == EndToken) || now.Stopped != nil || now.Unfinished {
			t.Errorf("%d: %+v", want, now)
		}
	}
	c.Close()
	if _, err := c.Info(); err != ErrClosed || c.Err() != ErrClosed {
		t.Error(err)
	}
}

// beginLate begins a reply whose deadline has passed by now. One that passes before there is a reply is tried again
// with more time.
func beginLate(t *testing.T, model *Model) *Conversation {
	t.Helper()
	for wait := 10 * time.Millisecond; ; wait *= 2 {
		late, stop := context.WithTimeoutCause(t.Context(), wait, errEnough)
		defer stop()
		c := newConversation(t, model, ConversationOptions{})
		must(t, c.Add("user", prompt))
		if err := c.Begin(late, nil); err == nil {
			<-late.Done()
			return c
		} else if !errors.Is(err, context.DeadlineExceeded) || wait > time.Minute {
			t.Fatal(err)
		}
	}
}

// A batch tells of one that is cancelled as it does beside others, and never by its own error.
func TestABatchOfTheCancelled(t *testing.T) {
	model := load(t, chatModel(t, plainTemplate))
	for range 20 {
		ctx, cancel := context.WithCancelCause(t.Context())
		done, waits, ends := newConversation(t, model, ConversationOptions{}), newConversation(t, model, ConversationOptions{}), beginLate(t, model)
		all := []*Conversation{done, waits, ends}
		for i, of := range []context.Context{t.Context(), ctx} {
			must(t, all[i].Add("user", prompt), all[i].Begin(of, &ReplyOptions{MaxTokens: 1 + 200*i}))
		}
		more, err := StepConversations(all, NoLimit)
		if must(t, err); !more {
			t.Fatal("an early end")
		}
		cancel(errEnough)
		for more := true; more; {
			more, err = StepConversations(all, NoLimit)
			must(t, err)
		}
		if now := info(t, done); now.End != EndLength || done.Err() != nil {
			t.Fatalf("%+v", now)
		}
		if now := info(t, waits); now.Tokens != 1 || !isEnded(waits.Err(), context.Canceled, ErrCancelled) {
			t.Fatalf("%+v", now)
		}
		if now := info(t, ends); now.Tokens != 0 || !isEnded(ends.Err(), context.DeadlineExceeded, ErrDeadline) {
			t.Fatalf("%+v", now)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	job, err := newSession(t, model, 64).NewJob(ctx, []uint32{1, 403}, nil)
	must(t, err)
	defer job.Close()
	cancel(errEnough)
	if more, err := StepJobs([]*Job{job}, NoLimit); more || err != nil || !isEnded(job.Err(), context.Canceled, ErrCancelled) {
		t.Error(more, err, job.Err())
	}
	// Close during a step of a batch is told.
	c := newConversation(t, model, ConversationOptions{Cache: SessionOptions{Capacity: 8192}})
	must(t, c.Add("user", "a b c d"), c.Begin(t.Context(), nil))
	time.AfterFunc(5*time.Millisecond, func() { c.Close() })
	for more := true; more && err == nil; {
		more, err = StepConversations([]*Conversation{c}, NoLimit)
	}
	if !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
