package realizar

import (
	"unsafe"
)

// Message is a message of plain text. Roles are "system", "user" and "assistant".
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Transcript is messages with all that belongs to them, as servers take it. Members of a Go map come in alphabetical
// order, which a template may write; those of a struct and of a [json.RawMessage] keep their own.
type Transcript struct {
	Messages       []any          `json:"messages,omitempty"`        // each becomes a JSON object with "role", "content", "tool_calls"...
	Tools          []any          `json:"tools,omitempty"`           // as JSON objects with "function"
	Variables      map[string]any `json:"variables,omitempty"`       // of the template, such as "enable_thinking"
	ResponseFormat any            `json:"response_format,omitempty"` // for templates that read it

	// Of the reply: "auto", "none", "required", or an object that names a tool; nil: "auto".
	ToolChoice        any   `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool `json:"parallel_tool_calls,omitempty"` // nil: true
}

// RenderChat writes messages with the model's own template, up to where the assistant speaks next. It fails with
// [ErrUnsupported] where the model has no template.
func (m *Model) RenderChat(transcript *Transcript) (string, error) {
	text, err := marshal(transcript)
	if err != nil {
		return "", err
	}
	rendered, err := sized(m, 4096, func(handle *rz_model, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return lib.rz_chat_render_into(handle, unsafe.SliceData(text), uintptr(len(text)),
			rz_CHAT_ADD_GENERATION_PROMPT, out, capacity, n, nil, e)
	})
	return string(rendered), err
}

// TokenizeChat is the tokens of what RenderChat writes. No text in a message becomes a special token, whatever it
// spells; the token that begins a text comes once, from the template or from the tokenizer.
func (m *Model) TokenizeChat(transcript *Transcript) ([]uint32, error) {
	text, err := marshal(transcript)
	if err != nil {
		return nil, err
	}
	return sized(m, len(text), func(handle *rz_model, out *uint32, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return lib.rz_chat_tokenize_into(handle, unsafe.SliceData(text), uintptr(len(text)),
			rz_CHAT_ADD_GENERATION_PROMPT, out, capacity, n, nil, e)
	})
}
