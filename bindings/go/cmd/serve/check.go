// Checks of requests before their replies begin, and errors in the wording that clients know.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"realizar.dev/go"
)

// promptSize counts the tokens of the prompt of a chat.
func (s *server) promptSize(ctx context.Context, model string, wished wish, g *generation) (int, error) {
	l, err := s.models.lease(ctx, model)
	if err != nil {
		return 0, err
	}
	defer l.release()
	if _, err := l.sampling(wished, 0); err != nil {
		return 0, err
	}
	return l.promptSize(ctx, g)
}

// adapt fits a generation to the abilities of the template.
func (l *lease) adapt(g *generation) {
	if g.Quiet && l.template.switches {
		g.Reply.Reasoning = realizar.ReasoningOff
	}
	if t := g.Transcript; t != nil && len(t.Tools) > 0 && t.ToolChoice == "none" && !l.template.tools {
		t.Tools, t.ToolChoice = nil, nil // which may not be called
	}
}

// beginReply begins a reply to a conversation. A template that can switch reasoning may not do so in every
// conversation. In Granite's, a system message or tools replace the text about reasoning; the reply then has no
// reasoning anyway.
func (l *lease) beginReply(ctx context.Context, c *realizar.Conversation, g *generation) error {
	err := c.Begin(ctx, &g.Reply)
	quiet := g.Reply.Reasoning == realizar.ReasoningOff && l.template.switches
	if g.Reply.Reasoning == realizar.ReasoningModel || !errors.Is(err, realizar.ErrUnsupported) || !quiet && !g.Lenient {
		return err
	}
	byItself := g.Reply
	byItself.Reasoning = realizar.ReasoningModel
	if err = c.Begin(ctx, &byItself); err == nil && !quiet {
		warnOnce("the chat template of %q cannot switch reasoning as the request asks", l.name)
	}
	return err
}

// template has the abilities of a model's chat template.
type template struct {
	switches bool // reasoning can be switched off
	tools    bool // it writes tools
}

// templateOf tries the template of a model.
func templateOf(model *realizar.Model) (t template) {
	render := func(variables map[string]any, tools ...any) string {
		text, err := model.RenderChat(&realizar.Transcript{Messages: []any{message{Role: "user", Content: "x"}}, Variables: variables, Tools: tools})
		if err != nil {
			return ""
		}
		return text
	}
	on, off := render(map[string]any{"enable_thinking": true, "thinking": true}), render(map[string]any{"enable_thinking": false, "thinking": false})
	t.switches = on != off && off != ""
	t.tools = render(nil, tool{"function", &declaration{Name: "f", Parameters: json.RawMessage(jsonObject)}}) != ""
	return t
}

// templated is the transcript of a generation with the variables that its options set, and its images and audio.
func (g *generation) templated() (*realizar.Transcript, []*mediaItem) {
	transcript := *g.Transcript
	transcript.Messages = slices.Clone(transcript.Messages)
	files := numbered(&transcript)
	if g.Reply.Reasoning != realizar.ReasoningModel { // the library sets these variables of the template
		on := g.Reply.Reasoning == realizar.ReasoningOn
		transcript.Variables = map[string]any{"enable_thinking": on, "thinking": on}
		maps.Copy(transcript.Variables, g.Transcript.Variables)
	}
	return &transcript, files
}

// promptSize counts the tokens of the prompt of a generation.
func (l *lease) promptSize(ctx context.Context, g *generation) (int, error) {
	if g.Transcript == nil {
		return len(g.Prompt), nil
	}
	l.adapt(g)
	return inBounds(ctx, l, func(l *lease) (int, error) {
		size, err := l.count(ctx, g)
		if err != nil || g.Opening == nil {
			return size, err
		}
		begun, err := l.openingTokens(g)
		return size + len(begun), err
	})
}

// inBounds runs work that reads texts while the model generates replies. At most as many requests run concurrently as
// the model has slots, and at most maxQueue more wait. It does not wait for a request whose client has disconnected,
// but that request keeps its place until its work is done.
func inBounds[T any](ctx context.Context, l *lease, work func(l *lease) (T, error)) (read T, err error) {
	engine := l.engine
	if engine.reading.Add(1) > int64(engine.slots+engine.maxQueue) {
		engine.reading.Add(-1)
		engine.mu.Lock()
		defer engine.mu.Unlock()
		return read, engine.queueIsFull()
	}
	select {
	case engine.counting <- struct{}{}:
	case <-ctx.Done():
		engine.reading.Add(-1)
		return read, context.Cause(ctx)
	}
	done := make(chan struct{})
	var result T
	var failed error
	own := l.again()
	go func() {
		defer own.release()
		defer func() {
			<-engine.counting
			engine.reading.Add(-1)
		}()
		defer close(done)
		defer func() {
			if caught := recover(); caught != nil {
				alarm("%v\n%s", caught, debug.Stack())
				failed = errors.New("a panic")
			}
		}()
		result, failed = work(own)
	}()
	select {
	case <-done:
		return result, asRequestError(failed)
	case <-ctx.Done():
		return read, context.Cause(ctx)
	}
}

// count is promptSize without a bound on concurrent requests.
func (l *lease) count(ctx context.Context, g *generation) (int, error) {
	transcript, files := g.templated()
	if len(files) == 0 {
		tokens, err := l.TokenizeChat(transcript)
		return len(tokens), err
	}
	media, release, err := l.media(ctx, files)
	if err != nil {
		return 0, err
	}
	defer release()
	prompt, err := l.NewChatPrompt(transcript, media...)
	if err != nil {
		return 0, err
	}
	defer prompt.Close()
	return prompt.Len(), nil
}

// check reports errors of a generation before its reply begins: in the template, the length or the grammar.
func (l *lease) check(ctx context.Context, g *generation) error {
	size, err := l.promptSize(ctx, g)
	if err != nil {
		return err
	}
	if capacity := l.engine.capacity; size > capacity {
		return tooLong(g.field(), size, capacity)
	}
	if t := g.Transcript; t != nil && g.Opening == nil && len(t.Tools) > 0 && t.ToolChoice != "none" {
		transcript, _ := g.templated()
		whole, err := json.Marshal(transcript)
		if err != nil {
			return refuse("", "%v", err)
		}
		if err := l.compiles(realizar.GrammarTools, string(whole), 0); err != nil {
			return err
		}
	}
	return l.constraint(g)
}

// compiles reports errors of a grammar.
func (l *lease) compiles(kind realizar.GrammarKind, text string, flags realizar.GrammarFlags) error {
	grammar, err := l.NewGrammar(kind, text, flags)
	if err != nil {
		return asRequestError(err)
	}
	return grammar.Close()
}

// asRequestError converts an error of reading a request; a limit error there is a limit on the request itself.
func asRequestError(err error) error {
	var library *realizar.Error
	if errors.As(err, &library) && library.Code == realizar.ErrLimit {
		return refuse("", "%s", library.Message)
	}
	return err
}

// asReplyError converts an error at the beginning of a reply: the client has to change the request, or can send it
// again.
func (l *lease) asReplyError(ctx context.Context, g *generation, err error) error {
	var full *realizar.Error
	switch {
	case errors.As(err, &full) && full.Code == realizar.ErrContextFull:
		return tooLong(g.field(), int(full.Needed), l.engine.capacity)
	case errors.Is(err, realizar.ErrUnsupported) && g.effort[0] != "" && strings.HasPrefix(full.Message, "reasoning"):
		able := `has no reasoning; it must be "none" or missing`
		if g.Reply.Reasoning == realizar.ReasoningOff {
			able = `always begins with reasoning; it must not be "none"`
		}
		return refuse(g.effort[0], "%s is %q, but the model %q %s", g.effort[0], g.effort[1], l.name, able)
	case errors.Is(err, realizar.ErrInvalidArgument) || errors.Is(err, realizar.ErrUnsupported):
		return cmp.Or(l.constraint(g), err)
	case errors.Is(err, realizar.ErrLimit):
		var wrong *apiError
		if errors.As(l.check(ctx, g), &wrong) {
			return wrong
		}
	}
	return err
}

// field is the field of a request that has the prompt.
func (g *generation) field() string {
	if g.Transcript == nil {
		return "prompt"
	}
	return "messages"
}

// tooLong rejects a prompt that exceeds the context, in the wording of OpenAI and of Anthropic, which clients look for.
func tooLong(what string, size, capacity int) error {
	return &apiError{
		status: http.StatusBadRequest, param: what, code: "context_length_exceeded",
		message:   fmt.Sprintf("This model's maximum context length is %d tokens. However, your %s resulted in %d tokens.", capacity, what, size),
		anthropic: fmt.Sprintf("prompt is too long: %d tokens > %d maximum", size, capacity),
	}
}
