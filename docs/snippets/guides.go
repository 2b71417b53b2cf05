// The Go code of docs/guides, a section per guide, as a program that tests/docs.sh runs:
// guides MODEL ADAPTER FOLDER
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	"realizar.dev/go"
)

// --8<-- [start:chat]
func chat(ctx context.Context, model *realizar.Model) error {
	chat, err := model.NewConversation(&realizar.ConversationOptions{System: ""})
	if err != nil {
		return err
	}
	defer chat.Close()
	for piece, err := range chat.Say(ctx, "Once upon a time", nil) {
		if err != nil {
			return err
		}
		fmt.Print(piece)
	}
	return nil
}

// --8<-- [end:chat]

// --8<-- [start:options]
func options(ctx context.Context, model *realizar.Model) error {
	chat, err := model.NewConversation(&realizar.ConversationOptions{Overflow: realizar.OverflowForget})
	if err != nil {
		return err
	}
	options := realizar.ReplyOptions{
		Sampling:  &realizar.Sampling{Temperature: 0.7, TopP: 0.9, Seed: 42},
		MaxTokens: 60,
		Stops:     []string{"\n\n"},
	}
	for piece, err := range chat.Say(ctx, "Once upon a time", &options) {
		if err != nil {
			return err
		}
		fmt.Print(piece)
	}
	return nil
}

// --8<-- [end:options]

// --8<-- [start:streaming]
func streaming(ctx context.Context, model *realizar.Model) error {
	chat, err := model.NewConversation(nil)
	if err != nil {
		return err
	}
	if err := chat.Add("user", "Once upon a time"); err != nil {
		return err
	}
	for part, err := range chat.Reply(ctx, &realizar.ReplyOptions{MaxTokens: 60}) {
		if err != nil {
			return err
		}
		switch part.Kind {
		case realizar.PartContent:
			fmt.Print(part.Text)
		case realizar.PartReasoning:
			fmt.Fprint(os.Stderr, part.Text)
		}
	}
	return nil
}

// --8<-- [end:streaming]

// --8<-- [start:stopping]
func stopping(ctx context.Context, model *realizar.Model) error {
	chat, err := model.NewConversation(nil)
	if err != nil {
		return err
	}
	if err := chat.Add("user", "Once upon a time"); err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	for part, err := range chat.Reply(short, &realizar.ReplyOptions{Keep: true}) {
		if errors.Is(err, context.DeadlineExceeded) {
			break // the text is kept; ReplyOptions.Continue continues it
		}
		if err != nil {
			return err
		}
		fmt.Print(part.Text) // leaving the loop ends the reply
	}
	return nil
}

// --8<-- [end:stopping]

// --8<-- [start:structured]
const schema = `{"type": "object", "properties": {"name": {"type": "string", "maxLength": 20},
	"age": {"type": "integer", "minimum": 0, "maximum": 150}}, "required": ["name", "age"], "additionalProperties": false}`

func structured(ctx context.Context, model *realizar.Model) (person struct {
	Name string
	Age  int
}, err error) {
	chat, err := model.NewConversation(nil)
	if err != nil {
		return person, err
	}
	if err := chat.Add("user", "Lily is five."); err != nil {
		return person, err
	}
	var text []byte
	options := realizar.ReplyOptions{GrammarKind: realizar.GrammarJSONSchema, Grammar: schema}
	for part, err := range chat.Reply(ctx, &options) {
		if err != nil {
			return person, err
		}
		if part.Kind == realizar.PartContent {
			text = append(text, part.Text...)
		}
	}
	return person, json.Unmarshal(text, &person)
}

// --8<-- [end:structured]

// --8<-- [start:tools]
const weather = `{"type": "function", "function": {"name": "weather", "description": "The weather of a city",
	"parameters": {"type": "object", "properties": {"city": {"enum": ["Paris", "Tokyo"]}}, "required": ["city"],
	"additionalProperties": false}}}`

func tools(ctx context.Context, model *realizar.Model) (city string, err error) {
	var several bool
	chat, err := model.NewConversation(&realizar.ConversationOptions{Transcript: realizar.Transcript{
		Tools: []any{json.RawMessage(weather)}, ParallelToolCalls: &several, ToolChoice: "required"}}) // or "auto"
	if err != nil {
		return "", err
	}
	if err := chat.Add("user", "Is it warm in Paris?"); err != nil {
		return "", err
	}
	var name, arguments string
	for part, err := range chat.Reply(ctx, &realizar.ReplyOptions{MaxTokens: 100}) {
		if err != nil {
			return "", err
		}
		switch part.Kind {
		case realizar.PartToolName:
			name = part.Text
		case realizar.PartToolArguments:
			arguments += part.Text
		}
	}
	fmt.Println(name, arguments)
	var called struct{ City string }
	if err := json.Unmarshal([]byte(arguments), &called); err != nil {
		return "", err
	}
	messages, err := chat.Messages(1)
	if err != nil {
		return "", err
	}
	id := messages[0]["tool_calls"].([]any)[0].(map[string]any)["id"]
	// The next Reply answers with the result.
	return called.City, chat.AddMessages(map[string]any{"role": "tool", "tool_call_id": id, "content": "21 C in " + called.City})
}

// --8<-- [end:tools]

// --8<-- [start:embeddings]
func embeddings(ctx context.Context, model *realizar.Model) (similarity float32, err error) {
	// PoolingModel is the model's own.
	vectors, err := model.Embed(ctx, []string{"a small girl", "a little girl"}, &realizar.EmbedOptions{Pooling: realizar.PoolingMean})
	if err != nil {
		return 0, err
	}
	for i := range vectors[0] {
		similarity += vectors[0][i] * vectors[1][i] // normalized, so this is the cosine
	}
	return similarity, nil
}

// --8<-- [end:embeddings]

// --8<-- [start:pictures]
func pictures(ctx context.Context, model *realizar.Model, projector, picture string) error {
	encoder, err := model.LoadEncoder(ctx, projector, nil) // "mmproj-....gguf", or the folder of the model
	if err != nil {
		return err
	}
	file, err := os.ReadFile(picture)
	if err != nil {
		return err
	}
	media, err := encoder.EncodeImage(ctx, file, nil)
	if err != nil {
		return err
	}
	question := []map[string]any{{"type": "image", "media": 0}, {"type": "text", "text": "What is this?"}}
	messages := []any{map[string]any{"role": "user", "content": question}}
	prompt, err := model.NewChatPrompt(&realizar.Transcript{Messages: messages}, media)
	if err != nil {
		return err
	}
	session, err := model.NewSession(nil)
	if err != nil {
		return err
	}
	job, err := session.NewJob(ctx, nil, &realizar.JobOptions{Prompt: prompt, MaxTokens: 200})
	if err != nil {
		return err
	}
	defer job.Close()
	for piece, err := range job.Stream() {
		if err != nil {
			return err
		}
		fmt.Print(piece)
	}
	return nil
}

// --8<-- [end:pictures]

// --8<-- [start:adapters]
func adapters(ctx context.Context, model *realizar.Model, path string) error {
	adapter, err := model.LoadAdapter(path)
	if err != nil {
		return err
	}
	chat, err := model.NewConversation(&realizar.ConversationOptions{
		Adapters: []realizar.ScaledAdapter{{Adapter: adapter, Scale: 1}}})
	if err != nil {
		return err
	}
	for piece, err := range chat.Say(ctx, "Once upon a time", nil) {
		if err != nil {
			return err
		}
		fmt.Print(piece)
	}
	return nil
}

// --8<-- [end:adapters]

// --8<-- [start:saving]
func saving(ctx context.Context, model *realizar.Model) error {
	chat, err := model.NewConversation(nil)
	if err != nil {
		return err
	}
	for _, err := range chat.Say(ctx, "Once upon a time", nil) {
		if err != nil {
			return err
		}
	}
	var file bytes.Buffer // or an *os.File
	if err := chat.Save(&file); err != nil {
		return err
	}
	later, err := model.LoadConversation(&file, nil) // continues bit-identically
	if err != nil {
		return err
	}
	return later.Close()
}

// --8<-- [end:saving]

// --8<-- [start:store]
func prefixes(ctx context.Context, model *realizar.Model, folder string) (realizar.StoreInfo, error) {
	// Without a folder the prefixes are freed with the store.
	store, err := model.NewStore(&realizar.StoreOptions{MinTokens: 4, Path: folder})
	if err != nil {
		return realizar.StoreInfo{}, err
	}
	defer store.Close()
	for range 2 { // the second conversation reuses the prompt
		chat, err := model.NewConversation(&realizar.ConversationOptions{Store: store})
		if err != nil {
			return realizar.StoreInfo{}, err
		}
		for _, err := range chat.Say(ctx, "Once upon a time there was a long instruction", nil) {
			if err != nil {
				return realizar.StoreInfo{}, err
			}
		}
	}
	return store.Info()
}

// --8<-- [end:store]

// --8<-- [start:batches]
func batches(ctx context.Context, model *realizar.Model) error {
	var chats []*realizar.Conversation
	for _, question := range []string{"Once upon a time", "The little dog", "One day"} {
		chat, err := model.NewConversation(nil)
		if err != nil {
			return err
		}
		if err := chat.Add("user", question); err != nil {
			return err
		}
		if err := chat.Begin(ctx, &realizar.ReplyOptions{MaxTokens: 40}); err != nil {
			return err
		}
		chats = append(chats, chat)
	}
	// Each step decodes a token of every conversation.
	for more := true; more; {
		var err error
		if more, err = realizar.StepConversations(chats, realizar.NoLimit); err != nil {
			return err
		}
		for _, chat := range chats {
			if _, err := chat.Parts(); err != nil {
				return err
			}
		}
	}
	for _, chat := range chats {
		if err := chat.Err(); err != nil { // the error of this conversation only
			return err
		}
	}
	return nil
}

// --8<-- [end:batches]

// --8<-- [start:frames]
// frame runs once per frame: it steps the reply for 2 ms, then prints new text, and returns false at the end.
func frame(chat *realizar.Conversation) (more bool, err error) {
	if more, err = chat.Step(2 * time.Millisecond); err != nil {
		return false, err
	}
	parts, err := chat.Parts()
	for _, part := range parts {
		fmt.Print(part.Text)
	}
	return more, err
}

// --8<-- [end:frames]

func frames(ctx context.Context, model *realizar.Model) error {
	chat, err := model.NewConversation(nil)
	if err != nil {
		return err
	}
	if err := errors.Join(chat.Add("user", "Once upon a time"), chat.Begin(ctx, &realizar.ReplyOptions{MaxTokens: 40})); err != nil {
		return err
	}
	for more := true; more && err == nil; {
		more, err = frame(chat)
	}
	return err
}

// --8<-- [start:hub]
func fetched(ctx context.Context, name string) (*realizar.Model, error) {
	// "hf:Qwen/Qwen3-0.6B-GGUF", or with a quantization: "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0". Load does it all.
	path, err := realizar.Fetch(ctx, name, func(done, total uint64) error {
		fmt.Fprintf(os.Stderr, "\r%d of %d MB", done>>20, total>>20)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return realizar.Load(ctx, path, nil)
}

// --8<-- [end:hub]

// --8<-- [start:plan]
func plan(ctx context.Context, path string) error {
	// The memory of one model and four conversations of 4,096 tokens each; no weight is read.
	plan, err := realizar.PlanLoad(ctx, path, nil, &realizar.SessionOptions{Capacity: 4096}, 4)
	if err != nil {
		return err
	}
	fmt.Printf("weights %d MB, each conversation %d MB, all %d MB\n", plan.WeightsHost>>20, plan.CacheHost>>20, plan.TotalHost>>20)
	return nil
}

// --8<-- [end:plan]

// --8<-- [start:memory]
func memory(ctx context.Context, path string) error {
	runtime, err := realizar.NewRuntime(&realizar.RuntimeOptions{Threads: 2, MemoryLimit: 512 << 20}) // above it: ErrLimit
	if err != nil {
		return err
	}
	model, err := realizar.Load(ctx, path, &realizar.LoadOptions{Runtime: runtime})
	if err != nil {
		return err
	}
	small := realizar.SessionOptions{Capacity: 2048, KType: realizar.CacheQ8_0, VType: realizar.CacheQ8_0}
	_, err = model.NewConversation(&realizar.ConversationOptions{Cache: small})
	return err
}

// --8<-- [end:memory]

// --8<-- [start:gpus]
func gpus(ctx context.Context, path string) error {
	for _, device := range realizar.Devices() {
		fmt.Println(device.Index, device.Name, device.ISA, device.Unavailable)
	}
	// 0: the library chooses. Or set the index of a device, or Devices for several.
	model, err := realizar.Load(ctx, path, &realizar.LoadOptions{Device: 0})
	if err != nil {
		return err
	}
	info, err := model.Info()
	fmt.Println("on device", info.Device, "with", info.GPULayers, "layers on GPUs")
	return err
}

// --8<-- [end:gpus]

// --8<-- [start:determinism]
// said returns a reply, for tests: it is the same for every number of threads.
func said(ctx context.Context, path string, threads int) (text string, err error) {
	model, err := realizar.Load(ctx, path, &realizar.LoadOptions{Threads: threads})
	if err != nil {
		return "", err
	}
	chat, err := model.NewConversation(nil)
	if err != nil {
		return "", err
	}
	for piece, err := range chat.Say(ctx, "Once upon a time", nil) {
		if err != nil {
			return "", err
		}
		text += piece
	}
	return text, nil
}

// --8<-- [end:determinism]

// --8<-- [start:errors]
func loadOrExplain(ctx context.Context, path string) {
	_, err := realizar.Load(ctx, path, nil)
	var failure *realizar.Error
	switch {
	case errors.Is(err, os.ErrNotExist): // it also wraps the errno
		fmt.Fprintln(os.Stderr, "fetch the model first:", err)
	case errors.Is(err, realizar.ErrUnsupported), errors.Is(err, realizar.ErrFormat):
		fmt.Fprintln(os.Stderr, "another file is needed:", err)
	case errors.As(err, &failure):
		fmt.Fprintln(os.Stderr, failure.Code, failure.Message)
	}
}

// --8<-- [end:errors]

func main() {
	ctx, path := context.Background(), os.Args[1]
	model, err := realizar.Load(ctx, path, nil)
	check(err)
	check(chat(ctx, model))
	fmt.Println()
	check(options(ctx, model))
	check(streaming(ctx, model))
	check(stopping(ctx, model))
	person, err := structured(ctx, model)
	check(err)
	if person.Age < 0 || person.Age > 150 {
		log.Fatal(person)
	}
	city, err := tools(ctx, model)
	check(err)
	if !slices.Contains([]string{"Paris", "Tokyo"}, city) {
		log.Fatal(city)
	}
	similarity, err := embeddings(ctx, model)
	check(err)
	if similarity < 0.5 {
		log.Fatal(similarity)
	}
	if err := pictures(ctx, model, path, path); !errors.Is(err, realizar.ErrUnsupported) {
		log.Fatal(err)
	}
	check(adapters(ctx, model, os.Args[2]))
	check(saving(ctx, model))
	kept, err := prefixes(ctx, model, os.Args[3])
	check(err)
	if kept.Hits == 0 {
		log.Fatal(kept)
	}
	check(batches(ctx, model))
	check(frames(ctx, model))
	story, err := fetched(ctx, "hf:tests/story")
	check(err)
	check(story.Close())
	check(plan(ctx, path))
	check(memory(ctx, path))
	check(gpus(ctx, path))
	one, err := said(ctx, path, 1)
	check(err)
	three, err := said(ctx, path, 3)
	check(err)
	if one == "" || one != three {
		log.Fatal("threads change what is said")
	}
	loadOrExplain(ctx, "none.gguf")
	fmt.Println("\nall ran")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
