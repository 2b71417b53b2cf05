package realizar

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
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
