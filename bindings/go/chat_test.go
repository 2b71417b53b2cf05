package realizar

import (
	"errors"
	"slices"
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
