package realizar

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestConversation(t *testing.T) {
	model := load(t, chatModel(t))
	conversation := &Conversation{Messages: []any{
		map[string]any{"role": "user", "content": prompt + "</s>"},
	}}
	text, err := model.RenderConversation(conversation)
	if err != nil || text != "<s>"+prompt+"</s>" {
		t.Errorf("%q %v", text, err)
	}
	tokens, err := model.TokenizeConversation(conversation)
	if err != nil || tokens[0] != 1 || slices.Contains(tokens[1:], 1) || slices.Contains(tokens, 2) {
		t.Error(tokens, err)
	}
	simple, err := model.TokenizeChat([]Message{{"user", prompt + "</s>"}})
	if err != nil || !slices.Equal(simple, tokens) {
		t.Error(simple, tokens, err)
	}
	if _, err := model.TokenizeChat([]Message{{"user", "\xff"}}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := model.TokenizeConversation(&Conversation{Messages: []any{1}}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestARealModel(t *testing.T) {
	path := os.Getenv("MODEL")
	if path == "" {
		t.Skip("MODEL names no model")
	}
	model := load(t, path)
	session := newSession(t, model, 0)
	messages := []Message{{"user", "What is the capital of France, and what is it famous for?"}}
	answer := func() (text string) {
		for piece, err := range session.Stream(t.Context(), messages, &Options{MaxTokens: 40}) {
			if err != nil {
				t.Fatal(err)
			}
			text += piece
		}
		return text
	}
	first := answer()
	if !strings.Contains(first, "Paris") {
		t.Errorf("%q", first)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pieces := 0
	_, err := session.Chat(ctx, messages, nil, func(string) error {
		if pieces++; pieces == 5 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || pieces > 6 {
		t.Error(pieces, err)
	}
	if again := answer(); again != first {
		t.Errorf("after a cancel %q", again)
	}
}

func TestChatsHaveStopsAndGrammars(t *testing.T) {
	model := load(t, chatModel(t))
	session := newSession(t, model, 0)
	chat := func(options *Options) (text string) {
		_, err := session.Chat(t.Context(), []Message{{"user", prompt}}, options, func(piece string) error {
			text += piece
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return text
	}
	if text := chat(&Options{Stops: []string{" She", "never"}}); text != ", there was a little girl named Lily." {
		t.Errorf("%q", text)
	}
	grammar, err := model.NewGrammar(GrammarChoices, `["red", "blue"]`)
	if err != nil {
		t.Fatal(err)
	}
	defer grammar.Close()
	if text := chat(&Options{Grammar: grammar, Draft: DraftLookup}); text != "red" && text != "blue" {
		t.Errorf("%q", text)
	}
	text, stats := generate(t, session, prompt, &Options{Stops: []string{" She"}, Sampling: Sampling{LogitBias: map[uint32]float32{3: -1}}})
	if text != ", there was a little girl named Lily." || stats.AnswerTokens == 0 {
		t.Errorf("%q %+v", text, stats)
	}
}

func TestAReplyComesInParts(t *testing.T) {
	model := load(t, chatModel(t))
	single := false
	conversation := &Conversation{
		Messages: []any{Message{"user", prompt}}, ToolChoice: "required", ParallelToolCalls: &single,
		Tools: []any{map[string]any{"type": "function", "function": map[string]any{"name": "go", "parameters": map[string]any{
			"type": "object", "properties": map[string]any{"by": map[string]any{"enum": []string{"car", "bus"}}},
			"required": []string{"by"}, "additionalProperties": false}}}},
	}
	grammar, err := model.NewToolGrammar(conversation)
	if err != nil {
		t.Fatal(err)
	}
	defer grammar.Close()
	session := newSession(t, model, 512)
	var parts []Part
	stats, err := session.Reply(t.Context(), conversation, &Options{Grammar: grammar, MaxTokens: 200}, func(part Part) error {
		parts = append(parts, part)
		return nil
	})
	if err != nil || stats.AnswerTokens == 0 || len(parts) < 3 || parts[len(parts)-1].Kind != PartEnd {
		t.Fatalf("%+v %+v %v", stats, parts, err)
	}
	var name, arguments string
	for _, part := range parts {
		switch part.Kind {
		case PartToolName:
			name += part.Text
		case PartToolArguments:
			arguments += part.Text
		}
	}
	var by struct{ By string }
	if err := json.Unmarshal([]byte(arguments), &by); err != nil || name != "go" || by.By != "car" && by.By != "bus" {
		t.Errorf("%v: %+v", err, parts)
	}
	// In slices of time; of the same conversation nothing but the last token is computed again.
	job, err := session.NewReply(conversation, &JobOptions{Grammar: grammar, MaxTokens: 200})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	var again []Part
	for more := true; more; {
		if more, err = job.Step(t.Context(), 200*time.Microsecond); err != nil {
			t.Fatal(err)
		}
		now, err := job.Parts()
		if err != nil {
			t.Fatal(err)
		}
		again = append(again, now...)
	}
	if info, err := job.Info(); err != nil || info.Prompt != 1 || info.Tokens != stats.AnswerTokens+1 && info.Tokens != stats.AnswerTokens {
		t.Errorf("%+v %+v %v", info, stats, err)
	}
	if !slices.Equal(again[len(again)-1:], parts[len(parts)-1:]) || again[0] != parts[0] {
		t.Errorf("%+v %+v", again, parts)
	}
	plain, err := newSession(t, model, 64).NewJob([]uint32{1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := plain.Parts(); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}
