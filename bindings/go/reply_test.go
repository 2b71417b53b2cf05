package realizar

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestChatParser(t *testing.T) {
	model := load(t, chatModel(t))
	single := false
	conversation := &Conversation{
		Messages: []any{map[string]any{"role": "user", "content": prompt}},
		Tools: []any{map[string]any{"type": "function", "function": map[string]any{"name": "go", "parameters": map[string]any{
			"type": "object", "properties": map[string]any{"by": map[string]any{"enum": []string{"car", "bus"}}},
			"required": []string{"by"}, "additionalProperties": false, "x-guidance": map[string]any{"whitespace_flexible": false}}}}},
		ToolChoice: "required", ParallelToolCalls: &single,
	}
	grammar, err := model.NewToolGrammar(conversation)
	if err != nil {
		t.Fatal(err)
	}
	defer grammar.Close()
	parser, err := model.NewChatParser(conversation)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := model.TokenizeConversation(conversation)
	if err != nil {
		t.Fatal(err)
	}
	sampler, err := NewSampler(Sampling{})
	if err != nil {
		t.Fatal(err)
	}
	defer sampler.Close()
	if err := sampler.SetGrammar(grammar); err != nil {
		t.Fatal(err)
	}
	session := newSession(t, model, 256)
	if err := session.Prefill(t.Context(), tokens); err != nil {
		t.Fatal(err)
	}
	var parts []Part
	for len(parts) == 0 || parts[len(parts)-1].Kind != PartEnd {
		token, err := session.Sample(sampler)
		if err != nil {
			t.Fatal(err)
		}
		more, err := parser.Push(token)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, more...)
		if err := session.Prefill(t.Context(), []uint32{token}); err != nil {
			t.Fatal(err)
		}
	}
	var name, arguments strings.Builder
	for _, part := range parts {
		switch {
		case part.Unparsed || part.Call != 0:
			t.Errorf("%+v", part)
		case part.Kind == PartToolName:
			name.WriteString(part.Text)
		case part.Kind == PartToolArguments:
			arguments.WriteString(part.Text)
		}
	}
	var by struct{ By string }
	if err := json.Unmarshal([]byte(arguments.String()), &by); err != nil || name.String() != "go" || by.By != "car" && by.By != "bus" {
		t.Errorf("%v: %+v", err, parts)
	}
	if _, err := parser.Push(1); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	if more, err := parser.End(); err != nil || len(more) != 0 {
		t.Error(more, err)
	}
	parser.Close()
	if _, err := parser.Push(1); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
