package realizar

import (
	"unsafe"
)

// Message is a message of plain text. Roles are "system", "user" and "assistant".
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Transcript is messages with tools and variables, in OpenAI's format. Members of a Go map are in alphabetical order,
// which a template may write; members of a struct and of a [json.RawMessage] keep their order.
type Transcript struct {
	Messages       []any          `json:"messages,omitempty"`        // each becomes a JSON object with "role", "content", "tool_calls"...
	Tools          []any          `json:"tools,omitempty"`           // as JSON objects with "function"
	Variables      map[string]any `json:"variables,omitempty"`       // template variables, such as "enable_thinking"
	ResponseFormat any            `json:"response_format,omitempty"` // for templates that read it

	// ToolChoice is "auto", "none", "required", or an object that names a tool; nil: "auto".
	ToolChoice        any   `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool `json:"parallel_tool_calls,omitempty"` // nil: true
}

// RenderChat renders messages with the model's chat template, up to the beginning of the reply. It fails with
// [ErrUnsupported] if the model has no template.
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

// TokenizeChat returns the tokens of the rendered messages. Message text never becomes a special token. BOS is added
// once, by the template or the tokenizer.
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
