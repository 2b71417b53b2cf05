// Anthropic's messages.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"realizar.dev/go"
)

// messagesRequest is the body of POST /v1/messages and of /v1/messages/count_tokens. README.md describes its fields;
// leftOut has the fields that change no answer.
type messagesRequest struct {
	wish
	Model        string         `json:"model"`
	MaxTokens    *int           `json:"max_tokens"`
	Messages     []turn         `json:"messages"`
	System       blocks         `json:"system"`
	Tools        []messageTool  `json:"tools"`
	ToolChoice   *toolWish      `json:"tool_choice"`
	Stops        []string       `json:"stop_sequences"`
	Thinking     *thinking      `json:"thinking"`
	OutputConfig outputConfig   `json:"output_config"`
	OutputFormat *messageFormat `json:"output_format"` // older name of output_config.format
	Stream       bool           `json:"stream"`
	Thread       *threadWish    `json:"thread"`
	Compaction   any            `json:"compaction"`
	Fallbacks    any            `json:"fallbacks"`
	Container    any            `json:"container"`
	Servers      []any          `json:"mcp_servers"`
}

type messageTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
	Strict      *bool           `json:"strict"`
}

// toolWish selects the tools that may be called.
type toolWish struct {
	Type   string `json:"type"`
	Name   string `json:"name"`
	Single bool   `json:"disable_parallel_tool_use"`
}

type thinking struct {
	Type   string `json:"type"`
	Budget int    `json:"budget_tokens"`
}

// threadWish begins a thread ("create"), or continues after a message of a thread ("continue").
type threadWish struct {
	Type     string `json:"type"`
	Previous string `json:"previous_message_id"`
}

// thread is the conversation that a stored message continues.
type thread struct {
	system blocks
	tools  []messageTool
	turns  []turn // messages so far, including the stored one
	bytes  int
}

func (t *thread) size() int { return t.bytes }

type outputConfig struct {
	Effort string         `json:"effort"`
	Format *messageFormat `json:"format"`
}

type messageFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// countTokens serves POST /v1/messages/count_tokens.
func (s *server) countTokens(w http.ResponseWriter, r *http.Request) error {
	request, err := s.readMessages(w, r)
	if err != nil {
		return err
	}
	asked, err := request.prompt()
	if err != nil {
		return err
	}
	if _, err := positive("max_tokens", request.MaxTokens, 0); err != nil {
		return err
	}
	size, err := s.promptSize(r.Context(), request.Model, request.wish, asked)
	if err != nil {
		return err
	}
	return writeJSON(w, map[string]any{"input_tokens": size})
}

// messages serves POST /v1/messages.
func (s *server) messages(w http.ResponseWriter, r *http.Request) error {
	request, err := s.readMessages(w, r)
	if err != nil {
		return err
	}
	asked, err := request.generation()
	if err != nil {
		return err
	}
	model, err := s.leaseFor(r, request.Model, request.wish, asked)
	if err != nil {
		return err
	}
	defer model.release()
	reply := &messageReply{stops: request.Stops, message: map[string]any{
		"id": newID("msg_"), "type": "message", "role": "assistant", "model": request.Model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": messageUsage(&outcome{}),
	}}
	if request.Thread != nil {
		reply.whole = func() error { return s.keep(request, reply.message) }
	}
	out := newStream(w)
	if request.Stream {
		size, err := model.promptSize(r.Context(), asked)
		if err != nil {
			return err
		}
		reply.message["usage"] = messageUsage(&outcome{Prompt: size})
		reply.send = func(name string, value map[string]any) error {
			value["type"] = name
			return out.send(name, value)
		}
	}
	for event, err := range model.generate(r.Context(), asked) {
		if err == nil && event.Sign == waiting {
			reply.tell("ping", map[string]any{})
			err = reply.err
		} else if err == nil {
			err = reply.add(model, &event)
		}
		if err != nil {
			return out.fail(anthropic, err)
		}
	}
	if request.Stream {
		return nil
	}
	return writeJSON(w, reply.message)
}

// readMessages reads a request, and adds the earlier messages of its thread.
func (s *server) readMessages(w http.ResponseWriter, r *http.Request) (*messagesRequest, error) {
	m := &messagesRequest{}
	if err := readKnown(w, r, m); err != nil {
		return nil, err
	}
	switch {
	case m.Thread == nil || m.Thread.Type == "create":
		return m, nil
	case m.Thread.Type != "continue":
		return nil, refuse("thread", "thread.type is %q; it must be \"create\" or \"continue\"", m.Thread.Type)
	case len(m.System) > 0 || len(m.Tools) > 0:
		return nil, refuse("thread", "system and tools must be absent with thread.type \"continue\"; the thread has them")
	}
	before, found := s.threads.get(m.Thread.Previous)
	if !found {
		return nil, &apiError{
			status: http.StatusNotFound, code: "thread_not_found", message: fmt.Sprintf("thread.previous_message_id is %.100q; it must name a stored message", m.Thread.Previous),
		}
	}
	m.System, m.Tools, m.Messages = before.system, before.tools, append(slices.Clip(before.turns), m.Messages...)
	return m, nil
}

// keep stores a message together with the messages that it answers.
func (s *server) keep(m *messagesRequest, message map[string]any) error {
	text, err := marshal(message["content"])
	if err != nil {
		return err
	}
	said := turn{Role: "assistant"}
	if err := json.Unmarshal(text, &said.Content); err != nil {
		return err
	}
	kept := &thread{system: m.System, tools: m.Tools, turns: append(slices.Clip(m.Messages), said)}
	if text, err = marshal([]any{kept.system, kept.tools, kept.turns}); err != nil {
		return err
	}
	kept.bytes = 2 * len(text)
	s.threads.put(message["id"].(string), kept)
	return nil
}

// messageReply builds a message, and passes each event to send if the message is streamed.
type messageReply struct {
	send    func(name string, value map[string]any) error // nil: it is not streamed
	message map[string]any
	stops   []string
	whole   func() error // called when the message is complete, before its last events; nil: nothing to do
	begun   bool
	open    map[string]any  // the last block while it is open
	err     error           // the first error of send or whole; afterwards nothing is sent
	text    strings.Builder // text of the open block
	tokens  []uint32        // tokens of all content if there are several stop strings, to find the one that ended the reply
}

// blockForms has, by the kind of a part, the type of its block, and the type and the field of the block's deltas.
var blockForms = map[realizar.PartKind][3]string{
	realizar.PartContent:       {"text", "text_delta", "text"},
	realizar.PartReasoning:     {"thinking", "thinking_delta", "thinking"},
	realizar.PartToolName:      {"tool_use", "input_json_delta", "partial_json"},
	realizar.PartToolArguments: {"tool_use", "input_json_delta", "partial_json"},
}

// unsigned stands for the signature of reasoning, which nothing checks.
const unsigned = "unsigned"

func (m *messageReply) tell(name string, value map[string]any) {
	if m.send != nil && m.err == nil {
		m.err = m.send(name, value)
	}
}

func (m *messageReply) add(model *lease, event *event) error {
	if !m.begun {
		m.begun = true
		m.tell("message_start", map[string]any{"message": m.message})
		m.tell("ping", map[string]any{})
	}
	for _, row := range event.Logprobs {
		m.tokens = append(m.tokens, row.Token)
	}
	form, known := blockForms[event.Kind]
	if known && (event.Text != "" || event.Kind == realizar.PartToolName) {
		if m.open == nil || m.open["type"] != form[0] || event.Kind == realizar.PartToolName {
			m.begin(form[0], event.Part)
		}
		if event.Kind != realizar.PartToolName {
			m.text.WriteString(event.Text)
			m.tell("content_block_delta", m.indexed("delta", map[string]any{"type": form[1], form[2]: event.Text}))
		}
	}
	if event.Outcome != nil {
		m.end()
		m.stop(model, event.Outcome)
	}
	return m.err
}

// indexed returns an event of the last block.
func (m *messageReply) indexed(key string, value any) map[string]any {
	event := map[string]any{"index": len(m.message["content"].([]any)) - 1}
	if key != "" {
		event[key] = value
	}
	return event
}

// begin ends the last block and begins another one.
func (m *messageReply) begin(kind string, part realizar.Part) {
	m.end()
	m.open = map[string]any{"type": kind}
	switch kind {
	case "text":
		m.open["text"] = ""
	case "thinking":
		m.open["thinking"], m.open["signature"] = "", ""
	case "tool_use":
		m.open["id"], m.open["name"], m.open["input"] = newID("toolu_"), part.Text, map[string]any{}
	}
	m.text.Reset()
	m.message["content"] = append(m.message["content"].([]any), m.open)
	m.tell("content_block_start", m.indexed("content_block", maps.Clone(m.open)))
}

// end ends the last block.
func (m *messageReply) end() {
	if m.open == nil {
		return
	}
	text := m.text.String()
	switch m.open["type"] {
	case "text":
		m.open["text"] = text
	case "thinking":
		m.open["thinking"], m.open["signature"] = text, unsigned
		m.tell("content_block_delta", m.indexed("delta", map[string]any{"type": "signature_delta", "signature": unsigned}))
	case "tool_use":
		if json.Valid([]byte(text)) { // a call that broke off has no input
			m.open["input"] = json.RawMessage(text)
		}
	}
	m.open = nil
	m.tell("content_block_stop", m.indexed("", nil))
}

// stop ends the message.
func (m *messageReply) stop(model *lease, outcome *outcome) {
	reason, sequence := "end_turn", any(nil)
	switch {
	case outcome.End == realizar.EndLength:
		reason = "max_tokens"
	case outcome.End == realizar.EndContext:
		reason = "model_context_window_exceeded"
	case outcome.End == realizar.EndStop:
		reason = "stop_sequence"
		stop, err := m.stopped(model)
		if m.err = cmp.Or(m.err, err); stop != "" {
			sequence = stop
		}
	case outcome.Called:
		reason = "tool_use"
	}
	usage := messageUsage(outcome)
	m.message["stop_reason"], m.message["stop_sequence"], m.message["usage"] = reason, sequence, usage
	if m.whole != nil && m.err == nil {
		m.err = m.whole()
	}
	m.tell("message_delta", map[string]any{"delta": map[string]any{"stop_reason": reason, "stop_sequence": sequence}, "usage": usage})
	m.tell("message_stop", map[string]any{})
}

// stopped returns the stop string that was complete first; if two end at the same place, the longer one.
func (m *messageReply) stopped(model *lease) (first string, err error) {
	if len(m.stops) == 1 {
		return m.stops[0], nil
	}
	text, err := model.Detokenize(m.tokens, false)
	end := len(text) + 1
	for _, stop := range m.stops {
		at := strings.Index(text, stop)
		if now := at + len(stop); at >= 0 && (now < end || now == end && len(stop) > len(first)) {
			first, end = stop, now
		}
	}
	return first, err
}

func messageUsage(outcome *outcome) map[string]any {
	return map[string]any{
		"input_tokens": outcome.Prompt - outcome.Cached, "cache_read_input_tokens": outcome.Cached, "cache_creation_input_tokens": 0,
		"output_tokens": outcome.Completion, "output_tokens_details": map[string]any{"thinking_tokens": outcome.Reasoning},
	}
}

// generation returns the request to the model, without sampling parameters.
func (m *messagesRequest) generation() (*generation, error) {
	g, err := m.prompt()
	if err != nil {
		return nil, err
	}
	if m.MaxTokens == nil {
		return nil, refuse("max_tokens", "max_tokens is missing; it must be at least 1")
	}
	if g.Reply.MaxTokens, err = positive("max_tokens", m.MaxTokens, 0); err != nil {
		return nil, err
	}
	if g.Reply.Stops, err = checkStops("stop_sequences", m.Stops); err != nil {
		return nil, err
	}
	if len(m.Stops) > 1 {
		g.Reply.Logprobs = realizar.None // the rows have the tokens, in which stopped finds the stop string
	}
	format := m.OutputConfig.Format
	if format == nil {
		format = m.OutputFormat
	}
	if format != nil {
		if format.Type != "json_schema" || len(format.Schema) == 0 {
			return nil, refuse("output_config", "output_config.format must have the type \"json_schema\" and a schema")
		}
		g.bind("output_config.format", string(format.Schema), true)
	}
	return g, m.continueLast(g)
}

// continueLast makes the reply continue the last message if it is the assistant's.
func (m *messagesRequest) continueLast(g *generation) error {
	all, param := g.Transcript.Messages, fmt.Sprintf("messages.%d", len(m.Messages)-1)
	last, _ := all[len(all)-1].(message)
	text, _ := last.Content.(string)
	if last.Role == "assistant" && len(last.ToolCalls) == 0 && strings.TrimRight(text, " \t\r\n") != text {
		return refuse("messages", "%s: final assistant content cannot end with trailing whitespace", param)
	}
	return g.continueLast(param)
}

// prompt returns a generation with the transcript and the reasoning options.
func (m *messagesRequest) prompt() (*generation, error) {
	transcript, err := m.transcript()
	if err != nil {
		return nil, err
	}
	g := &generation{Transcript: transcript, Lenient: true}
	return g, m.think(g)
}

// think applies the reasoning options of the request to a generation.
func (m *messagesRequest) think(g *generation) error {
	if m.Thinking == nil {
		g.Quiet = true
		return nil
	}
	switch m.Thinking.Type {
	case "enabled":
		if m.Thinking.Budget < 1 || m.MaxTokens != nil && m.Thinking.Budget >= *m.MaxTokens {
			return refuse("thinking", "thinking.budget_tokens is %d; it must be at least 1 and less than max_tokens", m.Thinking.Budget)
		}
		g.Reply.Reasoning, g.Reply.ReasoningTokens = realizar.ReasoningOn, m.Thinking.Budget
	case "disabled":
		g.Reply.Reasoning = realizar.ReasoningOff
		return nil
	case "adaptive", "between_tools":
	default:
		return refuse("thinking", "thinking.type is %q; it must be \"enabled\", \"disabled\", \"adaptive\" or \"between_tools\"", m.Thinking.Type)
	}
	return g.setEffort("output_config.effort", m.OutputConfig.Effort)
}

// bind makes the content of a reply follow the schema of a field; without strict, only the keywords that compile. With
// tools, the reply is either tool calls or such content.
func (g *generation) bind(field, schema string, strict bool) {
	g.Reply.GrammarKind, g.Reply.Grammar, g.Constraint = realizar.GrammarJSONSchema, schema, field
	if !strict {
		g.Reply.GrammarFlags = realizar.GrammarBestEffort
	}
}

// transcript returns the prompt in the library's form.
func (m *messagesRequest) transcript() (*realizar.Transcript, error) {
	if len(m.Messages) == 0 {
		return nil, refuse("messages", "messages is missing or empty; it must have a message")
	}
	for name, value := range map[string]any{"compaction": m.Compaction, "container": m.Container, "fallbacks": m.Fallbacks} {
		if value != nil {
			return nil, refuse(name, "%s is not supported", name)
		}
	}
	if len(m.Servers) > 0 {
		return nil, refuse("mcp_servers", "mcp_servers is not supported")
	}
	transcript, box := &realizar.Transcript{}, toolbox{}
	for i, t := range m.Tools {
		param := fmt.Sprintf("tools.%d", i)
		if t.Type != "" && t.Type != "custom" {
			if !leaveOut(t.Type) {
				return nil, refuse("tools", "%s.type is %q; it must be \"custom\" or a hosted tool", param, t.Type)
			}
			continue
		}
		if err := box.put(param, declaration{t.Name, t.Description, t.InputSchema, t.Strict}, &origin{}); err != nil {
			return nil, err
		}
	}
	transcript.Tools = box.tools
	if err := m.ToolChoice.put(transcript, &box); err != nil {
		return nil, err
	}
	turns := m.Messages
	if len(m.System) > 0 {
		turns = append([]turn{{"system", m.System}}, turns...)
	}
	names := map[string]string{} // names of tools by the ids of calls
	for i := 0; i < len(turns); {
		// Consecutive messages of one role become one message.
		from := i
		var all blocks
		for ; i < len(turns) && turns[i].Role == turns[from].Role; i++ {
			all = append(all, turns[i].Content...)
		}
		messages, err := all.messages(turns[from].Role, names)
		if err != nil {
			return nil, refuse("messages", "messages.%d.%s", max(from-len(turns)+len(m.Messages), 0), err)
		}
		transcript.Messages = append(transcript.Messages, messages...)
	}
	return transcript, nil
}

// put adds to a transcript which tools may be called.
func (t *toolWish) put(transcript *realizar.Transcript, box *toolbox) error {
	if t == nil {
		return nil
	}
	if t.Single {
		transcript.ParallelToolCalls = new(bool)
	}
	switch t.Type {
	case "auto", "none":
		transcript.ToolChoice = t.Type
	case "any":
		transcript.ToolChoice = "required"
	case "tool":
		if box.origins[t.Name] == nil {
			return refuse("tool_choice", "tool_choice.name is %q; it must be the name of a tool in tools", t.Name)
		}
		transcript.ToolChoice = map[string]any{"type": "function", "function": map[string]any{"name": t.Name}}
	default:
		return refuse("tool_choice", "tool_choice.type is %q; it must be \"auto\", \"any\", \"tool\" or \"none\"", t.Type)
	}
	return called(transcript)
}
