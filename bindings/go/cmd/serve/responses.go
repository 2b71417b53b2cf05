// OpenAI's responses: requests, and the store of responses that later requests continue.
package main

import (
	"container/list"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"realizar.dev/go"
)

// responseRequest is the body of POST /v1/responses and of /v1/responses/input_tokens. README.md describes its fields;
// leftOut has the fields that change no answer.
type responseRequest struct {
	wish
	Model           string            `json:"model"`
	Input           items             `json:"input"`
	Instructions    *string           `json:"instructions"`
	Previous        string            `json:"previous_response_id"`
	MaxOutputTokens *int              `json:"max_output_tokens"`
	Tools           []rawTool         `json:"tools"`
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

	tools toolbox // the tools that its functions represent
}

type responseText struct {
	Format *textFormat `json:"format"`
}

// textFormat is the required format of a response's content.
type textFormat struct {
	Type        string          `json:"type"`
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
	Strict      *bool           `json:"strict,omitempty"`
}

type responseEffort struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"` // no effect: reasoning is returned unchanged
}

// includes are the entries of "include". The entry for log probabilities has an effect; the others request fields that
// no answer has.
var includes = names("message.output_text.logprobs reasoning.encrypted_content file_search_call.results web_search_call.results " +
	"web_search_call.action.sources message.input_image.image_url computer_call_output.output.image_url code_interpreter_call.outputs")

// check rejects unsupported fields.
func (r *responseRequest) check() error {
	switch {
	case r.Background:
		return refuse("background", "background is true; it must be false, because responses do not run in the background")
	case r.Conversation != nil:
		return refuse("conversation", "conversation is not supported; use previous_response_id")
	case r.Prompt != nil:
		return refuse("prompt", "prompt is not supported; use instructions and input")
	case r.Truncation != "" && r.Truncation != "disabled" && r.Truncation != "auto":
		return refuse("truncation", "truncation is %q; it must be \"auto\" or \"disabled\"", r.Truncation)
	case r.TopLogprobs != nil && (*r.TopLogprobs < 0 || *r.TopLogprobs > maxLogprobs):
		return refuse("top_logprobs", "top_logprobs is %d; it must be from 0 to %d", *r.TopLogprobs, maxLogprobs)
	}
	if r.Truncation == "auto" {
		warnOnce("%q has no effect: an input that is too long is rejected", "truncation: auto")
	}
	for _, what := range r.Include {
		if !includes[what] {
			return refuse("include", "include has %q; it must have only values that OpenAI documents", what)
		}
	}
	return nil
}

// readResponse reads a request, and the messages of the response that it continues. These exclude the instructions,
// which are not inherited.
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
	if err := s.resolve(request.Input); err != nil {
		return nil, nil, err
	}
	if err := request.tools.add("tools", "", request.Tools); err != nil {
		return nil, nil, err
	}
	messages, err := request.Input.messages(before, &request.tools)
	return request, messages, err
}

// generation returns the request to the model, without sampling parameters.
func (r *responseRequest) generation(messages []message) (*generation, error) {
	transcript := &realizar.Transcript{ParallelToolCalls: r.Parallel}
	if r.Instructions != nil && *r.Instructions != "" {
		transcript.Messages = append(transcript.Messages, message{Role: "system", Content: *r.Instructions})
	}
	for _, message := range messages {
		transcript.Messages = append(transcript.Messages, message)
	}
	if len(transcript.Messages) == 0 {
		return nil, refuse("input", "input is missing or empty; it must be a text or a list of items")
	}
	if err := r.tools.choose(transcript, r.ToolChoice); err != nil {
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
		asked.Reply.Logprobs = likeliest(*r.TopLogprobs)
	} else if slices.Contains(r.Include, "message.output_text.logprobs") {
		asked.Reply.Logprobs = realizar.None
	}
	switch format := r.Text.Format; {
	case format == nil || format.Type == "text":
	case format.Type == "json_object":
		asked.bind("text.format", jsonObject, true)
	case format.Type == "json_schema" && len(format.Schema) > 0:
		asked.bind("text.format", string(format.Schema), format.Strict != nil && *format.Strict)
	default:
		return nil, refuse("text.format", "text.format.type is %q; it must be \"text\", \"json_object\", or \"json_schema\" with a schema", format.Type)
	}
	return asked, nil
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
	size, err := s.promptSize(r.Context(), request.Model, request.wish, asked)
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
	stored, found := s.stored.get(id)
	if !found || !s.stored.remove(id) {
		return noResponse(http.StatusNotFound, id)
	}
	for _, item := range stored.items {
		s.items.remove(item)
	}
	return writeJSON(w, map[string]any{"id": id, "object": "response", "deleted": true})
}

func noResponse(status int, id string) error {
	return &apiError{
		status: status, code: "previous_response_not_found",
		message: fmt.Sprintf("Response with id %.100q not found.", id),
	}
}

// storedResponse is a response that later requests may continue.
type storedResponse struct {
	body     json.RawMessage // JSON of the response
	messages []message       // messages of its prompt and of its output
	items    []string        // ids of the items of its output
	input    []any           // items of its own input
	listed   int             // bytes of input
}

// size returns the approximate memory of the response, including all responses that it continues.
func (s *storedResponse) size() int {
	const each = 256 // bytes of a message or a call in addition to its texts
	bytes := len(s.body) + 2*s.listed
	for _, m := range s.messages {
		text, _ := m.Content.(string)
		parts, _ := m.Content.([]any)
		for _, part := range parts {
			switch part := part.(type) {
			case textPart:
				bytes += each + len(part.Text)
			case *mediaItem:
				bytes += each + len(part.file)
			}
		}
		bytes += each + len(text) + len(m.ReasoningContent) + len(m.Name) + len(m.ToolCallID)
		for _, call := range m.ToolCalls {
			bytes += each + len(call.ID) + len(call.Function.Name) + len(call.Function.Arguments)
		}
	}
	return bytes
}

// Limits on the values of a keeper: without the values that hold selects, and with them.
const (
	maxKeptBytes = 64 << 20
	maxHeldBytes = 256 << 20
)

// keeper is an LRU cache of values by name.
type keeper[T interface{ size() int }] struct {
	mu    sync.Mutex
	all   map[string]*list.Element
	order list.List // list of *kept, most recently used first
	held  map[string]bool
	bytes int
}

type kept[T any] struct {
	name  string
	value T
	bytes int
}

// put stores a value, replacing the value with the same name. It returns the evicted values, which may include the new
// one.
func (k *keeper[T]) put(name string, value T) (forgotten []T) {
	const each = 1 << 10 // bytes of an entry in addition to its value
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]*list.Element{}
	}
	forget := func(element *list.Element) {
		forgotten = append(forgotten, element.Value.(*kept[T]).value)
		k.drop(element)
	}
	if before := k.all[name]; before != nil {
		forget(before)
	}
	entry := &kept[T]{name, value, each + value.size()}
	newest := k.order.PushFront(entry)
	k.all[name] = newest
	k.bytes += entry.bytes
	for oldest := k.order.Back(); oldest != nil && k.bytes > maxKeptBytes; {
		newer := oldest.Prev()
		if !k.held[oldest.Value.(*kept[T]).name] {
			forget(oldest)
		}
		oldest = newer
	}
	if k.bytes > maxHeldBytes {
		forget(newest)
	}
	return forgotten
}

// hold selects the values that are not evicted until the next call of hold, up to maxHeldBytes.
func (k *keeper[T]) hold(names map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = names
}

// clear removes all values and returns them.
func (k *keeper[T]) clear() (forgotten []T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for oldest := k.order.Back(); oldest != nil; oldest = k.order.Back() {
		forgotten = append(forgotten, oldest.Value.(*kept[T]).value)
		k.drop(oldest)
	}
	return forgotten
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
