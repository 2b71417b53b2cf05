// OpenAI's chat completions.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"realizar.dev/go"
)

// chatRequest is the body of POST /v1/chat/completions. README.md describes its fields; leftOut has the fields that
// change no answer.
type chatRequest struct {
	wish
	guided
	Model               string          `json:"model"`
	Messages            []chatMessage   `json:"messages"`
	Tools               []rawChatTool   `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	ResponseFormat      *responseFormat `json:"response_format"`
	Logprobs            bool            `json:"logprobs"`
	TopLogprobs         *int            `json:"top_logprobs"`
	Stop                textOrList      `json:"stop"`
	N                   *int            `json:"n"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	ReasoningEffort     string          `json:"reasoning_effort"`
	Reasoning           *reasoningWish  `json:"reasoning"`
	ChatTemplateKwargs  map[string]any  `json:"chat_template_kwargs"`
	Stream              bool            `json:"stream"`
	StreamOptions       streamOptions   `json:"stream_options"`
	Modalities          []string        `json:"modalities"`
	GenerationPrompt    *bool           `json:"add_generation_prompt"`
	ContinueFinal       *bool           `json:"continue_final_message"`

	tools toolbox // tools that its functions represent
}

type streamOptions struct {
	IncludeUsage    bool `json:"include_usage"`
	ContinuousUsage bool `json:"continuous_usage_stats"` // with IncludeUsage: each chunk has the usage so far
}

// reasoningWish limits reasoning: an effort as in OpenAI's responses, and a budget of tokens.
type reasoningWish struct {
	Effort    string `json:"effort"`
	MaxTokens int    `json:"max_tokens"`
}

// responseFormat is the required format of a reply's content.
type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema *struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Schema      json.RawMessage `json:"schema"`
		Strict      *bool           `json:"strict"`
	} `json:"json_schema"`
}

// textOrList is a text or a list of texts.
type textOrList []string

func (t *textOrList) UnmarshalJSON(data []byte) error {
	return listOrText(data, (*[]string)(t), func(text string) string { return text })
}

// chatMessage is a message in a request.
type chatMessage struct {
	Role             string      `json:"role"`
	Content          chatContent `json:"content"`
	Name             string      `json:"name"`
	ReasoningContent string      `json:"reasoning_content"`
	Reasoning        string      `json:"reasoning"` // what other services call reasoning_content
	Refusal          string      `json:"refusal"`
	ToolCalls        []chatCall  `json:"tool_calls"`
	ToolCallID       string      `json:"tool_call_id"`
	FunctionCall     any         `json:"function_call"`
	Audio            any         `json:"audio"`
}

// chatCall is a call of a function or of a custom tool.
type chatCall struct {
	toolCall
	Custom *customCall `json:"custom"`
}

type customCall struct {
	Name  string `json:"name"`
	Input string `json:"input"`
}

// call converts a tool call to the library's form.
func (c *chatCall) call(param string) (toolCall, error) {
	call := c.toolCall
	if c.Custom != nil && call.Type == "custom" {
		call.Type, call.Function = "function", function{c.Custom.Name, argumentsOf(c.Custom.Input)}
	}
	if call.Type == "" {
		call.Type = "function"
	}
	if call.Type != "function" || call.Function.Name == "" {
		return call, refuse(param, "%s needs the type \"function\" or \"custom\", and the name of a tool", param)
	}
	call.Function.Arguments = wholeArguments(call.Function.Arguments)
	return call, nil
}

// read converts the message to the library's form; param is its path in the request.
func (m *chatMessage) read(param string) (message, error) {
	content, err := m.Content.read(param + ".content")
	read := message{
		Role: m.Role, Content: content, Name: m.Name, ReasoningContent: cmp.Or(m.ReasoningContent, m.Reasoning), ToolCallID: m.ToolCallID,
	}
	for i := range m.ToolCalls {
		call, err := m.ToolCalls[i].call(fmt.Sprintf("%s.tool_calls[%d]", param, i))
		if err != nil {
			return read, err
		}
		read.ToolCalls = append(read.ToolCalls, call)
	}
	switch {
	case err != nil:
		return read, err
	case m.FunctionCall != nil:
		return read, refuse(param+".function_call", "%s is not supported; use tool_calls", param+".function_call")
	case m.Audio != nil:
		return read, refuse(param+".audio", "%s is not supported; audio must be an input_audio part of a user message", param+".audio")
	case len(m.ToolCalls) > 0 && m.Role != "assistant":
		return read, refuse(param+".tool_calls", "%s.tool_calls is set with the role %q; the role must be \"assistant\"", param, m.Role)
	case m.Role == "tool" && m.ToolCallID == "":
		return read, refuse(param+".tool_call_id", "%s.tool_call_id is missing; it must be the id of a tool call", param)
	case m.Role != "tool" && m.Role != "system" && m.Role != "developer" && m.Role != "user" && m.Role != "assistant":
		return read, refuse(param+".role", "%s.role is %q; it must be \"system\", \"developer\", \"user\", \"assistant\" or \"tool\"", param, m.Role)
	case content == nil && m.Role == "assistant" && m.Refusal != "":
		read.Content = m.Refusal
	case content == nil && (m.Role != "assistant" || len(m.ToolCalls) == 0):
		return read, refuse(param+".content", "%s.content is missing; it must be a text or a list of parts", param)
	}
	return read, nil
}

// chatContent is the content of a message: a text, null, or parts.
type chatContent struct{ json.RawMessage }

// chatPart is a part of content.
type chatPart struct {
	Type     string      `json:"type"`
	Text     string      `json:"text"`
	Refusal  string      `json:"refusal"`
	ImageURL urlOrObject `json:"image_url"`
	File     struct {
		Data string `json:"file_data"`
		ID   string `json:"file_id"`
		Name string `json:"filename"`
	} `json:"file"`
	Audio struct {
		Data   string `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
}

// read converts content to the library's form: a text, nil, or a list of textPart and *mediaItem.
func (c chatContent) read(param string) (any, error) {
	if len(c.RawMessage) == 0 || string(c.RawMessage) == "null" {
		return nil, nil
	}
	var text string
	if json.Unmarshal(c.RawMessage, &text) == nil {
		return text, nil
	}
	var parts []chatPart
	if json.Unmarshal(c.RawMessage, &parts) != nil {
		return nil, refuse(param, "%s must be a text or a list of parts", param)
	}
	if len(parts) == 0 {
		return nil, refuse(param, "%s is an empty list; it must have a part", param)
	}
	all := make([]any, 0, len(parts))
	for i, part := range parts {
		read := func() (*mediaItem, error) { return readPicture(part.File.Data) }
		switch part.Type {
		case "text":
			all = append(all, textPart{"text", part.Text})
			continue
		case "refusal":
			all = append(all, textPart{"text", part.Refusal})
			continue
		case "image_url":
			read = func() (*mediaItem, error) { return readPicture(part.ImageURL.URL) }
		case "input_audio":
			read = func() (*mediaItem, error) { return readSound(part.Audio.Data, part.Audio.Format) }
		case "file":
			if text, is, err := readText(part.File.Name, part.File.Data); is && err == nil {
				all = append(all, textPart{"text", text})
				continue
			} else if err != nil {
				return nil, refuse(fmt.Sprintf("%s[%d]", param, i), "%s[%d]: %v", param, i, err)
			}
		default:
			return nil, refuse(fmt.Sprintf("%s[%d]", param, i), "%s[%d].type is %q; it must be \"text\", \"image_url\", \"input_audio\" or \"file\"", param, i, part.Type)
		}
		file, err := read()
		if err != nil {
			return nil, refuse(fmt.Sprintf("%s[%d]", param, i), "%s[%d]: %v", param, i, err)
		}
		all = append(all, file)
	}
	return all, nil
}

// chat serves POST /v1/chat/completions.
func (s *server) chat(w http.ResponseWriter, r *http.Request) error {
	var request chatRequest
	if err := readKnown(w, r, &request); err != nil {
		return err
	}
	l, err := s.models.lease(r.Context(), request.Model)
	if err != nil {
		return err
	}
	defer l.release()
	all, err := request.generations(l, s.options.most)
	if err != nil {
		return err
	}
	c := completion{id: newID("chatcmpl-"), created: time.Now().Unix(), request: &request, lease: l}
	c.choices = make([]choice, len(all))
	if request.Stream {
		return c.stream(w, l.generate(r.Context(), all...))
	}
	return c.whole(r.Context(), w, l.generate(r.Context(), all...))
}

// generations returns one generation per choice.
func (q *chatRequest) generations(l *lease, most int) ([]*generation, error) {
	transcript, err := q.transcript()
	if err != nil {
		return nil, err
	}
	g := generation{Transcript: transcript}
	reply := &g.Reply
	if reply.MaxTokens, err = positive("max_tokens", q.MaxTokens, 0); err != nil {
		return nil, err
	}
	if reply.MaxTokens, err = positive("max_completion_tokens", q.MaxCompletionTokens, reply.MaxTokens); err != nil {
		return nil, err
	}
	n, err := positive("n", q.N, 1)
	if err != nil || n > most {
		return nil, cmp.Or[error](err, refuse("n", "n is %d; it must be at most %d", n, most))
	}
	if reply.Stops, err = checkStops("stop", q.Stop); err != nil {
		return nil, err
	}
	if q.Logprobs {
		reply.Logprobs = realizar.None // only the chosen tokens
	}
	if top := q.TopLogprobs; top != nil {
		if *top < 0 || *top > 20 || !q.Logprobs && *top > 0 {
			return nil, refuse("top_logprobs", "top_logprobs is %d; it must be from 0 to 20, and logprobs must be true", *top)
		}
		if *top > 0 {
			reply.Logprobs = *top
		}
	}
	if err := q.ResponseFormat.bind(&g); err != nil {
		return nil, err
	}
	if err := q.constrain(&g); err != nil {
		return nil, err
	}
	if err := q.reason(&g); err != nil {
		return nil, err
	}
	if err := q.continueLast(&g); err != nil {
		return nil, err
	}
	all := make([]*generation, n)
	for i := range all {
		one := g
		if one.Reply.Sampling, err = l.sampling(q.wish, i); err != nil {
			return nil, err
		}
		all[i] = &one
	}
	return all, nil
}

// continueLast makes the reply continue the last message if it is the assistant's, unless the request asks for a new
// one.
func (q *chatRequest) continueLast(g *generation) error {
	last := len(q.Messages) - 1
	anew := q.GenerationPrompt != nil && *q.GenerationPrompt || q.ContinueFinal != nil && !*q.ContinueFinal
	isSet := q.ContinueFinal != nil && *q.ContinueFinal
	switch {
	case isSet && anew:
		return refuse("continue_final_message", "continue_final_message and add_generation_prompt are both true; set one")
	case isSet && q.Messages[last].Role != "assistant":
		return refuse("continue_final_message", "the role of messages[%d] is %q; it must be \"assistant\" with continue_final_message", last, q.Messages[last].Role)
	case q.GenerationPrompt != nil && !*q.GenerationPrompt && q.Messages[last].Role != "assistant":
		return refuse("add_generation_prompt", "add_generation_prompt is false; it must be true unless the last message is of the assistant")
	case anew:
		return nil
	}
	return g.continueLast(fmt.Sprintf("messages[%d]", last))
}

// positive returns a number of a request, or missing if there is none; it rejects numbers below 1.
func positive(param string, n *int, missing int) (int, error) {
	if n == nil {
		return missing, nil
	}
	if *n < 1 {
		return 0, refuse(param, "%s is %d; it must be at least 1", param, *n)
	}
	return *n, nil
}

// maxStops is the maximum number of stop strings in a request.
const maxStops = 16

// checkStops checks stop strings.
func checkStops(param string, all []string) ([]string, error) {
	if len(all) > maxStops {
		return nil, refuse(param, "%s has %d texts; it must have at most %d", param, len(all), maxStops)
	}
	for _, stop := range all {
		if stop == "" || strings.ContainsRune(stop, 0) {
			return nil, refuse(param, "%s has a text that is empty or contains a NUL character", param)
		}
	}
	return all, nil
}

// bind makes the content of a reply follow the format.
func (f *responseFormat) bind(g *generation) error {
	switch {
	case f == nil || f.Type == "text":
		return nil
	case f.Type == "json_object":
		g.bind("response_format", jsonObject, true)
		return nil
	case f.Type != "json_schema":
		return refuse("response_format.type", "response_format.type is %q; it must be \"text\", \"json_object\" or \"json_schema\"", f.Type)
	case f.JSONSchema == nil || len(f.JSONSchema.Schema) == 0:
		return refuse("response_format.json_schema", "response_format.json_schema.schema is missing")
	}
	g.bind("response_format", string(f.JSONSchema.Schema), f.JSONSchema.Strict != nil && *f.JSONSchema.Strict)
	return nil
}

// reason applies the reasoning options of the request to a generation.
func (q *chatRequest) reason(g *generation) error {
	effort := q.ReasoningEffort
	if q.Reasoning != nil {
		if q.Reasoning.MaxTokens < 0 {
			return refuse("reasoning.max_tokens", "reasoning.max_tokens is %d; it must be at least 0", q.Reasoning.MaxTokens)
		}
		g.Reply.ReasoningTokens = q.Reasoning.MaxTokens
		if effort == "" {
			effort = q.Reasoning.Effort
		}
	}
	return g.setEffort("reasoning_effort", effort)
}

// setEffort switches reasoning on or off, and passes the effort to the template as a variable; "": the template's
// default.
func (g *generation) setEffort(param, effort string) error {
	wanted := effort
	switch effort {
	case "":
		return nil
	case "none":
		g.effort, g.Reply.Reasoning = [2]string{param, effort}, realizar.ReasoningOff
		return nil
	case "minimal", "low", "medium", "high", "xhigh":
	case "max": // templates know no higher level
		effort = "xhigh"
	default:
		return refuse(param, "%s is %q; it must be one of none, minimal, low, medium, high, xhigh, max", param, effort)
	}
	g.effort, g.Reply.Reasoning = [2]string{param, wanted}, realizar.ReasoningOn
	if g.Transcript.Variables == nil {
		g.Transcript.Variables = map[string]any{}
	}
	if g.Transcript.Variables["reasoning_effort"] == nil {
		g.Transcript.Variables["reasoning_effort"] = effort
	}
	return nil
}

// transcript returns the messages and tools in the library's form.
func (q *chatRequest) transcript() (*realizar.Transcript, error) {
	if len(q.Messages) == 0 {
		return nil, refuse("messages", "messages is missing or empty; it must have a message")
	}
	if q.Modalities != nil && !slices.Contains(q.Modalities, "text") {
		return nil, refuse("modalities", "modalities lacks \"text\"; it must have it, because replies are text")
	}
	for _, modality := range q.Modalities {
		if modality != "text" {
			warnOnce("the modality %q has no effect: replies are text", modality)
		}
	}
	t := &realizar.Transcript{ParallelToolCalls: q.ParallelToolCalls, Variables: q.ChatTemplateKwargs}
	for i := range q.Messages {
		message, err := q.Messages[i].read(fmt.Sprintf("messages[%d]", i))
		if err != nil {
			return nil, err
		}
		t.Messages = append(t.Messages, message)
	}
	if err := q.tools.addChat(q.Tools); err != nil {
		return nil, err
	}
	return t, q.tools.choose(t, q.ToolChoice)
}

// completion is the answer to a request.
type completion struct {
	id      string
	created int64
	request *chatRequest
	lease   *lease
	choices []choice
}

// choice is one reply in the answer.
type choice struct {
	content, reasoning strings.Builder
	calls              []*callReply
	logprobs           []any
	outcome            *outcome
}

// callReply is a tool call in a reply.
type callReply struct {
	id        string
	origin    *origin
	arguments strings.Builder
	ended     bool // the input of a custom tool has been sent
}

// object returns the tool call in the form of OpenAI's chat completions.
func (c *callReply) object() map[string]any {
	text := c.arguments.String()
	if c.origin.custom {
		return map[string]any{"id": c.id, "type": "custom", "custom": customCall{c.origin.name, inputOf(text)}}
	}
	return map[string]any{"id": c.id, "type": "function", "function": function{c.origin.name, text}}
}

// customEnd returns the stream's chunk that ends the last tool call, if that is a call of a custom tool; otherwise nil.
func (c *choice) customEnd() []any {
	n := len(c.calls)
	if n == 0 || !c.calls[n-1].origin.custom || c.calls[n-1].ended {
		return nil
	}
	c.calls[n-1].ended = true
	return []any{map[string]any{"index": n - 1, "custom": map[string]any{"input": inputOf(c.calls[n-1].arguments.String())}}}
}

// whole answers with the complete replies.
func (c *completion) whole(ctx context.Context, w http.ResponseWriter, events iter.Seq2[event, error]) error {
	for e, err := range events {
		if err != nil {
			return err
		}
		choice := &c.choices[e.Choice]
		switch e.Kind {
		case realizar.PartContent:
			choice.content.WriteString(e.Text)
		case realizar.PartReasoning:
			choice.reasoning.WriteString(e.Text)
		case realizar.PartToolName:
			choice.calls = append(choice.calls, &callReply{id: newID("call_"), origin: c.request.tools.origin(e.Text)})
		case realizar.PartToolArguments:
			choice.calls[len(choice.calls)-1].arguments.WriteString(e.Text)
		}
		rows, err := c.lease.logprobs(e.Logprobs, c.request.TopLogprobs)
		if err != nil {
			return err
		}
		choice.logprobs = append(choice.logprobs, rows...)
		if e.Outcome != nil {
			choice.outcome = e.Outcome
		}
	}
	choices := make([]any, len(c.choices))
	for i := range c.choices {
		choice := &c.choices[i]
		message := map[string]any{"role": "assistant", "content": choice.content.String(), "refusal": nil}
		if choice.reasoning.Len() > 0 {
			message["reasoning_content"] = choice.reasoning.String()
		}
		if len(choice.calls) > 0 {
			all := make([]any, len(choice.calls))
			for i, call := range choice.calls {
				all[i] = call.object()
			}
			message["tool_calls"] = all
			if choice.content.Len() == 0 {
				message["content"] = nil
			}
		}
		choices[i] = map[string]any{
			"index": i, "message": message, "finish_reason": choice.outcome.finish(), "logprobs": c.logprobsObject(choice.logprobs),
		}
	}
	answer := c.object("chat.completion", choices)
	answer["usage"] = c.usage()
	return writeJSON(w, answer)
}

// object returns an answer, or a chunk of one.
func (c *completion) object(kind string, choices []any) map[string]any {
	return map[string]any{"id": c.id, "object": kind, "created": c.created, "model": c.request.Model, "choices": choices}
}

// logprobsObject returns the "logprobs" of a choice; nil if the request asks for none.
func (c *completion) logprobsObject(rows []any) any {
	if !c.request.Logprobs {
		return nil
	}
	if rows == nil {
		rows = []any{}
	}
	return map[string]any{"content": rows, "refusal": nil}
}

// likeliest returns the reply option that requests the n most likely tokens at each generated token.
func likeliest(n int) int {
	if n == 0 {
		return realizar.None
	}
	return n
}

// logprobs returns rows in the form of OpenAI's chats and responses, with the given number of most likely tokens.
func (l *lease) logprobs(rows []realizar.TokenLogprobs, likeliest *int) (all []any, err error) {
	entry := func(of realizar.Logprob) map[string]any {
		text, e := l.TokenBytes(of.Token)
		err = errors.Join(err, e)
		return map[string]any{"token": string(text), "bytes": numbersOf(text), "logprob": max(of.Logprob, -9999)}
	}
	all = []any{}
	for _, row := range rows {
		one, top := entry(row.Logprob), []any{}
		if likeliest != nil {
			for _, other := range row.Likeliest[:min(*likeliest, len(row.Likeliest))] {
				top = append(top, entry(other))
			}
		}
		one["top_logprobs"] = top
		all = append(all, one)
	}
	return all, err
}

// usage counts the tokens of all choices, which share the prompt.
func (c *completion) usage() map[string]any {
	var sum outcome
	for _, choice := range c.choices {
		if choice.outcome == nil { // it has not begun
			continue
		}
		sum.Prompt, sum.Cached = choice.outcome.Prompt, max(sum.Cached, choice.outcome.Cached)
		sum.Completion += choice.outcome.Completion
		sum.Reasoning += choice.outcome.Reasoning
	}
	return sum.usage()
}

// stream answers chunk by chunk.
func (c *completion) stream(w http.ResponseWriter, events iter.Seq2[event, error]) error {
	out := newStream(w)
	usage := c.request.StreamOptions.IncludeUsage
	send := func(choices []any, counted any) error {
		chunk := c.object("chat.completion.chunk", choices)
		if usage {
			chunk["usage"] = counted
		}
		return out.send("", chunk)
	}
	begun := make([]bool, len(c.choices))
	for e, err := range events {
		if e.Sign != 0 && err == nil {
			err = out.sign(e.Sign)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return out.fail(openAI, err)
		}
		choice := &c.choices[e.Choice]
		delta := map[string]any{}
		if !begun[e.Choice] {
			begun[e.Choice] = true
			delta["role"], delta["content"] = "assistant", ""
		}
		var calls []any
		if e.Kind != realizar.PartToolArguments && (e.Kind != 0 || e.Outcome != nil) { // an event may have only log probabilities
			calls = choice.customEnd()
		}
		switch call := len(choice.calls); e.Kind {
		case realizar.PartContent:
			delta["content"] = e.Text
		case realizar.PartReasoning:
			delta["reasoning_content"] = e.Text
		case realizar.PartToolName:
			one := &callReply{id: newID("call_"), origin: c.request.tools.origin(e.Text)}
			choice.calls = append(choice.calls, one)
			first := one.object()
			first["index"] = call
			calls = append(calls, first)
		case realizar.PartToolArguments:
			if one := choice.calls[call-1]; one.origin.custom { // e.Text is a piece of JSON; the input is sent when the call ends
				one.arguments.WriteString(e.Text)
			} else {
				calls = []any{map[string]any{"index": call - 1, "function": map[string]any{"arguments": e.Text}}}
			}
		}
		if calls != nil {
			delta["tool_calls"] = calls
		}
		piece := map[string]any{"index": e.Choice, "delta": delta, "finish_reason": nil, "logprobs": nil}
		if len(e.Logprobs) > 0 {
			rows, err := c.lease.logprobs(e.Logprobs, c.request.TopLogprobs)
			if err != nil {
				return out.fail(openAI, err)
			}
			piece["logprobs"] = c.logprobsObject(rows)
		}
		if e.Counted != nil {
			choice.outcome = e.Counted
		}
		if e.Outcome != nil {
			choice.outcome, piece["finish_reason"] = e.Outcome, e.Outcome.finish()
		}
		var counted any
		if c.request.StreamOptions.ContinuousUsage {
			counted = c.usage()
		}
		if err := send([]any{piece}, counted); err != nil {
			return err
		}
	}
	if usage {
		if err := send([]any{}, c.usage()); err != nil {
			return err
		}
	}
	return out.sendText("", "[DONE]")
}
