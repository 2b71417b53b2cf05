// The tests of what changes a conversation between its replies.
package realizar

import (
	"context"
	"errors"
	"reflect"
	"testing"
)

func TestToolsOfOneReplyAndReadingAhead(t *testing.T) {
	model, single := load(t, chatModel(t, thinkingTemplate)), false
	tools := []any{map[string]any{"type": "function", "function": map[string]any{"name": "go", "parameters": map[string]any{
		"type": "object", "properties": map[string]any{"by": map[string]any{"enum": []string{"car", "bus"}}},
		"required": []string{"by"}, "additionalProperties": false}}}}
	ofLife := newConversation(t, model, ConversationOptions{Transcript: Transcript{
		ToolChoice: "required", ParallelToolCalls: &single, Tools: tools, Variables: map[string]any{"a": 1}}})
	ask(t, ofLife, "Go", &ReplyOptions{Reasoning: ReasoningOff})

	c := newConversation(t, model, ConversationOptions{})
	must(t, c.Add("user", "Go"))
	with := ReplyOptions{
		Reasoning: ReasoningOff, Tools: tools, ToolChoice: "required", ParallelToolCalls: &single, Variables: map[string]any{"a": 1}}
	must(t, c.Read(t.Context(), &with))
	if read := info(t, c); read.Unfinished || read.End != EndLength || read.Tokens != 0 || read.Messages != 1 || read.Len != read.Prompt {
		t.Error(read)
	}
	reply(t, c, &with)
	if of := info(t, c); of.Reused+1 != of.Prompt || !reflect.DeepEqual(messages(t, c), messages(t, ofLife)) {
		t.Error(of, messages(t, c), messages(t, ofLife))
	}
	if messages(t, c)[1]["finish_reason"] != "tool_calls" {
		t.Error(messages(t, c))
	}
	// The other replies are as the conversation was made.
	ask(t, c, "And now?", &ReplyOptions{MaxTokens: 3})
	ask(t, ofLife, "And now?", &ReplyOptions{MaxTokens: 3, Tools: []any{}, ToolChoice: "none"})
	if messages(t, c)[3]["tool_calls"] != nil || messages(t, ofLife)[3]["tool_calls"] != nil {
		t.Error(messages(t, c), messages(t, ofLife))
	}
	if err := c.Begin(t.Context(), &ReplyOptions{ToolChoice: "required"}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.Read(ended, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestConversationsAreChangedBetweenReplies(t *testing.T) {
	model := load(t, chatModel(t, thinkingTemplate))
	plain, c := newConversation(t, model, ConversationOptions{}), newConversation(t, model, ConversationOptions{})
	for _, change := range []func() error{
		c.Release,
		func() error { return c.SetCapacity(300) },
		func() error { return c.SetOverflow(OverflowForget) },
		func() error { return c.SetAdapters() },
		func() error { return c.SetStore(nil) },
	} {
		for _, each := range []*Conversation{plain, c} {
			ask(t, each, "Go on", &ReplyOptions{MaxTokens: 5})
		}
		if !reflect.DeepEqual(messages(t, c), messages(t, plain)) {
			t.Error(messages(t, c), messages(t, plain))
		}
		must(t, change())
	}
	must(t, c.BeginRead(t.Context(), nil))
	for _, err := range []error{c.Release(), c.SetCapacity(0), c.SetAdapters()} {
		if !errors.Is(err, ErrBusy) {
			t.Error(err)
		}
	}
	must(t, c.AddMessages(), c.Release())
	if now := info(t, c); now.Capacity != 300 || now.Len != 0 {
		t.Error(now)
	}
	if err := c.SetOverflow(9); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	// Of another model.
	other, err := load(t, chatModel(t, thinkingTemplate)).NewStore(nil)
	must(t, err)
	defer other.Close()
	if err := c.SetStore(other); !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
}

func TestStopKeepsWhatWasSaid(t *testing.T) {
	c := newConversation(t, load(t, chatModel(t, plainTemplate)), ConversationOptions{})
	must(t, c.Stop(), c.Err(), c.Add("user", prompt), c.Begin(t.Context(), nil))
	for range 3 {
		if more, err := c.Step(NoLimit); !more || err != nil {
			t.Fatal(more, err)
		}
	}
	must(t, c.Stop(), c.Err())
	said := ""
	parts, err := c.Parts()
	must(t, err)
	for _, part := range parts {
		said += part.Text
	}
	all := messages(t, c)
	if said == "" || len(all) != 2 || all[1]["content"] != said || all[1]["finish_reason"] != "cancelled" || info(t, c).End != EndCancelled {
		t.Error(said, all, info(t, c))
	}
	// So does a loop whose context ends after its first piece.
	must(t, c.Rewind(0))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said = ""
	for piece, err := range c.Say(ctx, prompt, nil) {
		if said += piece; err == nil {
			cancel()
		} else if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if all := messages(t, c); len(all) != 2 || all[1]["content"] != said || said == "" {
		t.Error(said, all)
	}
}
