// OpenAI's responses: what is asked, and the store of those that others go on from.
package main

import (
	"container/list"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"realizar.dev/go"
)

// responseRequest is the body of POST /v1/responses and of /v1/responses/input_tokens; README.md says what its fields
// do.
type responseRequest struct {
	wish
	Model           string            `json:"model"`
	Input           items             `json:"input"`
	Instructions    *string           `json:"instructions"`
	Previous        string            `json:"previous_response_id"`
	MaxOutputTokens *int              `json:"max_output_tokens"`
	Tools           []json.RawMessage `json:"tools"`
	ToolChoice      json.RawMessage   `json:"tool_choice"`
	Parallel        *bool             `json:"parallel_tool_calls"`
	Text            responseText      `json:"text"`
	Reasoning       *responseEffort   `json:"reasoning"`
	TopLogprobs     *int              `json:"top_logprobs"`
	Include         []string          `json:"include"`
	Store           *bool             `json:"store"`
	Stream          bool              `json:"stream"`
	Metadata        map[string]string `json:"metadata"`
	Truncation      string            `json:"truncation"`
	Background      bool              `json:"background"`
	Conversation    any               `json:"conversation"`
	Prompt          any               `json:"prompt"`

	// Fields that change no answer.
	MaxToolCalls         any `json:"max_tool_calls"`
	PromptCacheKey       any `json:"prompt_cache_key"`
	PromptCacheOptions   any `json:"prompt_cache_options"`
	PromptCacheRetention any `json:"prompt_cache_retention"`
	SafetyIdentifier     any `json:"safety_identifier"`
	ServiceTier          any `json:"service_tier"`
	StreamOptions        any `json:"stream_options"`
	User                 any `json:"user"`
}

type responseText struct {
	Format    *textFormat `json:"format"`
	Verbosity any         `json:"verbosity"` // which changes no answer
}

// textFormat is the form that the content of a response has to have.
type textFormat struct {
	Type        string          `json:"type"`
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Strict      *bool           `json:"strict,omitempty"`
}

type responseEffort struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"` // which changes no answer: thoughts are told as they are
}

type responseTool struct {
	Type string `json:"type"`
	declaration
}

// items are the input: a list of them, or a text that stands for a message of the user.
type items []item

func (i *items) UnmarshalJSON(data []byte) error {
	return listOrText(data, (*[]item)(i), func(text string) item {
		return item{Role: "user", Content: itemParts{{Type: "input_text", Text: text}}}
	})
}

// item is one of any type.
type item struct {
	Type      string    `json:"type"`
	Role      string    `json:"role"`
	Content   itemParts `json:"content"`
	Summary   itemParts `json:"summary"`
	CallID    string    `json:"call_id"`
	Name      string    `json:"name"`
	Arguments string    `json:"arguments"`
	Output    itemParts `json:"output"`
}

// itemParts are a list, or a text that stands for one part.
type itemParts []itemPart

type itemPart struct {
	Type     string      `json:"type"`
	Text     string      `json:"text"`
	ImageURL urlOrObject `json:"image_url"`
	FileData string      `json:"file_data"`
}

func (p *itemParts) UnmarshalJSON(data []byte) error {
	return listOrText(data, (*[]itemPart)(p), func(text string) itemPart { return itemPart{Type: "input_text", Text: text} })
}

// text is that of all parts behind each other.
func (p itemParts) text() (string, error) {
	var out strings.Builder
	for _, part := range p {
		switch part.Type {
		case "input_text", "output_text", "reasoning_text", "summary_text", "text":
			out.WriteString(part.Text)
		default:
			return "", fmt.Errorf("a part of type %q is not supported", part.Type)
		}
	}
	return out.String(), nil
}

// content is that of a message: the text of all parts, or the parts where pictures are among them.
func (p itemParts) content() (any, error) {
	isPicture := func(part itemPart) bool { return part.Type == "input_image" || part.Type == "input_file" }
	if !slices.ContainsFunc(p, isPicture) {
		return p.text()
	}
	var parts []any
	for _, part := range p {
		if !isPicture(part) {
			text, err := itemParts{part}.text()
			if err != nil {
				return nil, err
			}
			parts = append(parts, textPart{"text", text})
			continue
		}
		url := part.ImageURL.URL
		if part.Type == "input_file" {
			url = part.FileData
		}
		picture, err := readPicture(url)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.Type, err)
		}
		parts = append(parts, picture)
	}
	return parts, nil
}

// messages are those before, and those that the items stand for: thoughts, a text and calls behind each other are one.
func (i items) messages(before []message) ([]message, error) {
	all := slices.Clone(before)
	names := map[string]string{} // of tools by the ids of calls
	for _, message := range all {
		for _, call := range message.ToolCalls {
			names[call.ID] = call.Function.Name
		}
	}
	// reply is the message of the assistant that goes on.
	reply := func(goesOn func(m *message) bool) *message {
		if n := len(all); n == 0 || all[n-1].Role != "assistant" || !goesOn(&all[n-1]) {
			all = append(all, message{Role: "assistant"})
		}
		return &all[len(all)-1]
	}
	for n, item := range i {
		content, err := append(item.Content, item.Output...).content()
		text, isText := content.(string)
		if err == nil && !isText && (item.Role == "assistant" || item.Type == "reasoning") {
			err = errors.New("what the assistant says has no pictures")
		}
		if err != nil {
			return nil, refuse("input", "\"input[%d]\": %v", n, err)
		}
		switch item.Type {
		case "", "message":
			switch item.Role {
			case "assistant":
				reply(func(m *message) bool { return m.Content == nil && m.ToolCalls == nil }).Content = text
			case "user", "system", "developer":
				all = append(all, message{Role: item.Role, Content: content})
			default:
				return nil, refuse("input", "\"input[%d].role\" is %q, which is none", n, item.Role)
			}
		case "reasoning":
			if text == "" {
				text, err = item.Summary.text()
			}
			reply(func(m *message) bool { return m.Content == nil && m.ToolCalls == nil }).ReasoningContent += text
		case "function_call":
			names[item.CallID] = item.Name
			m := reply(func(*message) bool { return true })
			m.ToolCalls = append(slices.Clip(m.ToolCalls), toolCall{item.CallID, "function", function{item.Name, item.Arguments}})
		case "function_call_output":
			name, known := names[item.CallID]
			if !known {
				return nil, refuse("input", "\"input[%d].call_id\" is %q, and there is no such call ahead of it", n, item.CallID)
			}
			all = append(all, message{Role: "tool", Content: content, Name: name, ToolCallID: item.CallID})
		default:
			return nil, refuse("input", "\"input[%d].type\" is %q, which is not supported", n, item.Type)
		}
		if err != nil {
			return nil, refuse("input", "\"input[%d]\": %v", n, err)
		}
	}
	return all, nil
}

// check refuses what is not supported.
func (r *responseRequest) check() error {
	switch {
	case r.Background:
		return refuse("background", "\"background\" is not supported")
	case r.Conversation != nil:
		return refuse("conversation", "\"conversation\" is not supported, \"previous_response_id\" is")
	case r.Prompt != nil:
		return refuse("prompt", "\"prompt\" is not supported")
	case r.Truncation != "" && r.Truncation != "disabled":
		return refuse("truncation", "\"truncation\" is %q, and only \"disabled\" is supported", r.Truncation)
	case r.TopLogprobs != nil && (*r.TopLogprobs < 0 || *r.TopLogprobs > maxLogprobs):
		return refuse("top_logprobs", "\"top_logprobs\" is %d, which is not between 0 and %d", *r.TopLogprobs, maxLogprobs)
	}
	for _, what := range r.Include {
		if what != "message.output_text.logprobs" && what != "reasoning.encrypted_content" {
			return refuse("include", "\"include\" has %q, which is not supported", what)
		}
	}
	return nil
}

// readResponse reads a request and what it goes on from: the messages of the prompt but for the instructions, which are
// not handed on.
func (s *server) readResponse(w http.ResponseWriter, r *http.Request) (*responseRequest, []message, error) {
	request := &responseRequest{}
	if err := readKnown(w, r, request); err != nil {
		return nil, nil, err
	}
	if err := request.check(); err != nil {
		return nil, nil, err
	}
	var before []message
	if request.Previous != "" {
		previous, found := s.stored.get(request.Previous)
		if !found {
			return nil, nil, noResponse(http.StatusBadRequest, request.Previous)
		}
		before = previous.messages
	}
	messages, err := request.Input.messages(before)
	return request, messages, err
}

// generation is what is asked of the model, but for the choice of tokens.
func (r *responseRequest) generation(messages []message) (*generation, error) {
	transcript := &realizar.Transcript{ParallelToolCalls: r.Parallel}
	if r.Instructions != nil && *r.Instructions != "" {
		transcript.Messages = append(transcript.Messages, message{Role: "system", Content: *r.Instructions})
	}
	for _, message := range messages {
		transcript.Messages = append(transcript.Messages, message)
	}
	if len(transcript.Messages) == 0 {
		return nil, refuse("input", "\"input\" is missing or empty")
	}
	if err := r.putTools(transcript); err != nil {
		return nil, err
	}
	asked := &generation{Transcript: transcript}
	var err error
	if asked.Reply.MaxTokens, err = positive("max_output_tokens", r.MaxOutputTokens, 0); err != nil {
		return nil, err
	}
	if r.Reasoning != nil && r.Reasoning.Effort != nil {
		if err := asked.setEffort("reasoning.effort", *r.Reasoning.Effort); err != nil {
			return nil, err
		}
	}
	if r.TopLogprobs != nil {
		asked.Reply.Logprobs = max(*r.TopLogprobs, 1)
	} else if slices.Contains(r.Include, "message.output_text.logprobs") {
		asked.Reply.Logprobs = 1
	}
	switch format := r.Text.Format; {
	case format == nil || format.Type == "text":
		return asked, nil
	case format.Type == "json_object":
		return asked, asked.bind("text.format", jsonObject)
	case format.Type == "json_schema" && len(format.Schema) > 0:
		return asked, asked.bind("text.format", string(format.Schema))
	default:
		return nil, refuse("text.format", "\"text.format\" is none of text, json_object, and json_schema with a schema")
	}
}

// putTools tells a transcript the tools, and which of them may be called.
func (r *responseRequest) putTools(transcript *realizar.Transcript) error {
	for i, raw := range r.Tools {
		var t responseTool
		if err := json.Unmarshal(raw, &t); err != nil {
			return refuse("tools", "\"tools[%d]\": %v", i, err)
		}
		if t.Type != "function" {
			return refuse("tools", "\"tools[%d].type\" is %q, and only \"function\" is supported", i, t.Type)
		}
		transcript.Tools = append(transcript.Tools, tool{"function", &t.declaration})
	}
	var named responseTool
	if json.Unmarshal(r.ToolChoice, &named) == nil && named.Type == "function" {
		choice, err := json.Marshal(map[string]any{"type": "function", "function": map[string]any{"name": named.Name}})
		if err != nil {
			return err
		}
		return setToolChoice(transcript, choice)
	}
	return setToolChoice(transcript, r.ToolChoice)
}

// countInput serves POST /v1/responses/input_tokens.
func (s *server) countInput(w http.ResponseWriter, r *http.Request) error {
	request, messages, err := s.readResponse(w, r)
	if err != nil {
		return err
	}
	asked, err := request.generation(messages)
	if err != nil {
		return err
	}
	size, err := s.promptSize(r.Context(), request.Model, asked)
	if err != nil {
		return err
	}
	return writeJSON(w, map[string]any{"object": "response.input_tokens", "input_tokens": size})
}

// getResponse serves GET /v1/responses/ID.
func (s *server) getResponse(w http.ResponseWriter, r *http.Request) error {
	stored, found := s.stored.get(r.PathValue("id"))
	if !found {
		return noResponse(http.StatusNotFound, r.PathValue("id"))
	}
	return writeJSON(w, stored.body)
}

// deleteResponse serves DELETE /v1/responses/ID.
func (s *server) deleteResponse(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if !s.stored.remove(id) {
		return noResponse(http.StatusNotFound, id)
	}
	return writeJSON(w, map[string]any{"id": id, "object": "response", "deleted": true})
}

func noResponse(status int, id string) error {
	return &apiError{
		status: status, code: "previous_response_not_found",
		message: fmt.Sprintf("there is no response %q, or it is forgotten", id),
	}
}

// storedResponse is a response that others go on from.
type storedResponse struct {
	body     json.RawMessage // JSON of the answer
	messages []message       // messages of its prompt, and its own
}

// size is what it takes in memory, about, all that it goes on from included.
func (s *storedResponse) size() int {
	const each = 256 // bytes of a message or a call beside its texts
	bytes := len(s.body)
	for _, m := range s.messages {
		text, _ := m.Content.(string)
		parts, _ := m.Content.([]any)
		for _, part := range parts {
			switch part := part.(type) {
			case textPart:
				bytes += each + len(part.Text)
			case *medium:
				bytes += each + len(part.file)
			}
		}
		bytes += each + len(text) + len(m.ReasoningContent)
		for _, call := range m.ToolCalls {
			bytes += each + len(call.Function.Arguments)
		}
	}
	return bytes
}

// maxKeptBytes bounds what a keeper keeps.
const maxKeptBytes = 64 << 20

// keeper keeps values by their names, of which those that were not asked for for longest are forgotten where there are
// too many.
type keeper[T interface{ size() int }] struct {
	mu    sync.Mutex
	all   map[string]*list.Element
	order list.List // list of *kept, the one asked for last first
	bytes int
}

type kept[T any] struct {
	name  string
	value T
	bytes int
}

func (k *keeper[T]) put(name string, value T) {
	const each = 1 << 10 // bytes of an entry beside its value
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]*list.Element{}
	}
	entry := &kept[T]{name, value, each + value.size()}
	k.all[name] = k.order.PushFront(entry)
	for k.bytes += entry.bytes; k.bytes > maxKeptBytes; {
		k.drop(k.order.Back())
	}
}

func (k *keeper[T]) get(name string) (value T, found bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	element := k.all[name]
	if element == nil {
		return value, false
	}
	k.order.MoveToFront(element)
	return element.Value.(*kept[T]).value, true
}

func (k *keeper[T]) remove(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	element := k.all[name]
	if element != nil {
		k.drop(element)
	}
	return element != nil
}

func (k *keeper[T]) drop(element *list.Element) {
	entry := k.order.Remove(element).(*kept[T])
	k.bytes -= entry.bytes
	delete(k.all, entry.name)
}
