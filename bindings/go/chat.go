package realizar

/*
#include <realizar.h>
*/
import "C"

import (
	"encoding/json"
	"unsafe"
)

// Conversation is a whole conversation as servers take it.
type Conversation struct {
	Messages       []any          `json:"messages"`                  // each becomes a JSON object with "role", "content", "tool_calls"...
	Tools          []any          `json:"tools,omitempty"`           // as JSON objects with "function"
	Variables      map[string]any `json:"variables,omitempty"`       // of the template, such as "enable_thinking"
	ResponseFormat any            `json:"response_format,omitempty"` // for templates that read it

	// Of the reply: "auto", "none", "required", or an object that names a tool; nil: "auto".
	ToolChoice        any   `json:"tool_choice,omitempty"`
	ParallelToolCalls *bool `json:"parallel_tool_calls,omitempty"` // nil: true
}

// RenderConversation writes a conversation with the model's own template, up to where the assistant speaks next.
func (m *Model) RenderConversation(conversation *Conversation) (string, error) {
	text, err := json.Marshal(conversation)
	if err != nil {
		return "", err
	}
	rendered, err := sized(m.model, 4096, func(handle *C.rz_model, out *byte, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_chat_render_json_into(handle, (*C.char)(unsafe.Pointer(unsafe.SliceData(text))), C.size_t(len(text)),
			C.RZ_CHAT_ADD_GENERATION_PROMPT, (*C.char)(unsafe.Pointer(out)), capacity, n, e)
	})
	return string(rendered), err
}

// TokenizeConversation is the tokens of a conversation. No text in it becomes a special token, whatever it spells.
func (m *Model) TokenizeConversation(conversation *Conversation) ([]uint32, error) {
	text, err := json.Marshal(conversation)
	if err != nil {
		return nil, err
	}
	return tokenizeConversation(m.model, text)
}

func tokenizeConversation(model *owned[*C.rz_model], text []byte) ([]uint32, error) {
	return sized(model, len(text), func(handle *C.rz_model, out *uint32, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_chat_tokenize_into(handle, (*C.char)(unsafe.Pointer(unsafe.SliceData(text))), C.size_t(len(text)),
			C.RZ_CHAT_ADD_GENERATION_PROMPT, (*C.uint32_t)(out), capacity, n, e)
	})
}
