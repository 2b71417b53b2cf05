package realizar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	realizar "realizar.dev/go"
)

// open loads the tiny model that tells stories, with a template that writes messages one after the other.
func open() *realizar.Model {
	model, err := realizar.Load(context.Background(), "../../tests/data/stories260K-f32.gguf", &realizar.LoadOptions{
		ChatTemplate: "{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}{{ m.content or '' }}" +
			`{% for c in m.tool_calls or [] %}<call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</call>{% endfor %}{% endfor %}`,
	})
	if err != nil {
		log.Fatal(err)
	}
	return model
}

// A chat, whose reply comes in pieces.
func Example() {
	model := open()
	defer model.Close()
	conversation, err := model.NewConversation(&realizar.ConversationOptions{System: "Once upon"})
	if err != nil {
		log.Fatal(err)
	}
	defer conversation.Close()
	for piece, err := range conversation.Say(context.Background(), " a time", &realizar.ReplyOptions{Stops: []string{" She"}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(piece)
	}
	// Output: , there was a little girl named Lily.
}

// A reply that is cancelled keeps what was said.
func ExampleConversation_Say_cancelled() {
	model := open()
	defer model.Close()
	conversation, err := model.NewConversation(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer conversation.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	enough := errors.New("the user has heard enough")
	said := ""
	for piece, err := range conversation.Say(ctx, "Once upon a time", nil) {
		if err != nil {
			fmt.Println(errors.Is(err, context.Canceled), errors.Is(err, enough), errors.Is(err, realizar.ErrCancelled))
			break
		}
		if said += piece; len(said) > 20 {
			cancel(enough)
		}
	}
	messages, err := conversation.Messages(1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(messages[0]["content"] == said, messages[0]["finish_reason"])
	// Output:
	// true true true
	// true cancelled
}

// A reply that follows a JSON Schema.
func ExampleReplyOptions_schema() {
	model := open()
	defer model.Close()
	conversation, err := model.NewConversation(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer conversation.Close()
	options := realizar.ReplyOptions{GrammarKind: realizar.GrammarJSONSchema, Grammar: `{"enum": ["yes", "no"]}`}
	answer := ""
	for piece, err := range conversation.Say(context.Background(), "Is it cold?", &options) {
		if err != nil {
			log.Fatal(err)
		}
		answer += piece
	}
	fmt.Println(answer == `"yes"` || answer == `"no"`)
	// Output: true
}

// Vectors of texts, which are compared by their products.
func ExampleModel_Embed() {
	model := open()
	defer model.Close()
	// A model for embeddings has a pooling of its own.
	vectors, err := model.Embed(context.Background(), []string{"a dog", "a dog", "a cloud"}, &realizar.EmbedOptions{Pooling: realizar.PoolingMean})
	if err != nil {
		log.Fatal(err)
	}
	product := func(a, b []float32) (sum float32) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	fmt.Println(len(vectors), len(vectors[0]), product(vectors[0], vectors[1]) > product(vectors[0], vectors[2]))
	// Output: 3 64 true
}

// The model calls a tool.
func ExampleConversation_Reply_tools() {
	model := open()
	defer model.Close()
	conversation, err := model.NewConversation(&realizar.ConversationOptions{Transcript: realizar.Transcript{
		Messages: []any{realizar.Message{Role: "user", Content: "Go"}},
		Tools: []any{map[string]any{"type": "function", "function": map[string]any{"name": "go", "parameters": map[string]any{
			"type": "object", "properties": map[string]any{"by": map[string]any{"enum": []string{"car"}}},
			"required": []string{"by"}, "additionalProperties": false}}}},
		ToolChoice: "required", ParallelToolCalls: new(bool), // false: one call at most
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer conversation.Close()
	id, name, text := "", "", ""
	for part, err := range conversation.Reply(context.Background(), nil) {
		if err != nil {
			log.Fatal(err)
		}
		switch part.Kind {
		case realizar.PartToolID:
			id = part.Text
		case realizar.PartToolName:
			name = part.Text
		case realizar.PartToolArguments: // in pieces
			text += part.Text
		}
	}
	var arguments struct{ By string }
	if err := json.Unmarshal([]byte(text), &arguments); err != nil {
		log.Fatal(err)
	}
	// The next reply reads the result.
	err = conversation.AddMessages(map[string]any{"role": "tool", "tool_call_id": id, "content": "We are there."})
	fmt.Println(name, arguments.By, err)
	// Output: go car <nil>
}

// Four chats at once read the weights once for each token of all of them.
func ExampleStepConversations() {
	model := open()
	defer model.Close()
	var chats []*realizar.Conversation
	for _, question := range []string{"One", "Two", "Three", "Four"} {
		chat, err := model.NewConversation(nil)
		if err != nil {
			log.Fatal(err)
		}
		defer chat.Close()
		if err := chat.Add("user", question); err != nil {
			log.Fatal(err)
		}
		if err := chat.Begin(context.Background(), &realizar.ReplyOptions{MaxTokens: 5}); err != nil {
			log.Fatal(err)
		}
		chats = append(chats, chat)
	}
	for more := true; more; {
		var err error
		if more, err = realizar.StepConversations(chats, realizar.NoLimit); err != nil {
			log.Fatal(err)
		}
	}
	for _, chat := range chats {
		info, err := chat.Info()
		fmt.Println(info.Tokens, info.End == realizar.EndLength, err, chat.Err())
	}
	// Output:
	// 5 true <nil> <nil>
	// 5 true <nil> <nil>
	// 5 true <nil> <nil>
	// 5 true <nil> <nil>
}
