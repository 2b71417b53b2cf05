package realizar

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestChatParser(t *testing.T) {
	model := load(t, chatModel(t, plainTemplate))
	single := false
	transcript := &Transcript{
		Messages: []any{map[string]any{"role": "user", "content": prompt}},
		Tools: []any{map[string]any{"type": "function", "function": map[string]any{"name": "go", "parameters": map[string]any{
			"type": "object", "properties": map[string]any{"by": map[string]any{"enum": []string{"car", "bus"}}},
			"required": []string{"by"}, "additionalProperties": false, "x-guidance": map[string]any{"whitespace_flexible": false}}}}},
		ToolChoice: "required", ParallelToolCalls: &single,
	}
	text, err := json.Marshal(transcript)
	must(t, err)
	grammar, err := model.NewGrammar(GrammarTools, string(text), 0)
	must(t, err)
	defer grammar.Close()
	parser, err := model.NewChatParser(transcript)
	must(t, err)
	tokens, err := model.TokenizeChat(transcript)
	must(t, err)
	sampler, err := NewSampler(Sampling{})
	must(t, err)
	defer sampler.Close()
	must(t, sampler.SetGrammar(grammar))
	session := newSession(t, model, 256)
	must(t, session.Prefill(t.Context(), tokens))
	var parts []Part
	for len(parts) == 0 || parts[len(parts)-1].Kind != PartEnd {
		token, err := session.Sample(sampler)
		must(t, err)
		more, err := parser.Push(token)
		must(t, err)
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
