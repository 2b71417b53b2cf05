// The tests of conversations.
package realizar

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// The same for weights that have the adapter merged in.
	adaptedStory = ", there was a little girl named Lily. She loved to draw animals with her family. One day, she went to the park with her mommy."
	calls        = "{% for c in m.tool_calls or [] %}<call>{{ '{\"name\": \"' ~ c.function.name ~ '\", \"arguments\": ' }}" +
		"{{ c.function.arguments | tojson }}{{ '}' }}</call>{% endfor %}"
	// The texts of the messages behind each other.
	plainTemplate = "{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}{{ m.content or '' }}" +
		calls + "{% endfor %}"
	// A template with reasoning, which forgets that of earlier turns.
	thinkingTemplate = "{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}<{{ m.role }}>" +
		"{% if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}" +
		calls + "{% endfor %}{% if add_generation_prompt %}<assistant>{% if enable_thinking %}<think>{% endif %}{% endif %}"
)

// chatModel is the tiny model with a chat template.
func chatModel(t *testing.T, template string) string {
	t.Helper()
	file, err := os.ReadFile(storyModel)
	must(t, err)
	key := "tokenizer.chat_template"
	template += "{#"
	// What is put in is a multiple of 32 bytes long, so that everything behind keeps its alignment.
	for (8+len(key)+4+8+len(template)+2)%32 != 0 {
		template += " "
	}
	template += "#}"
	le := binary.LittleEndian
	const typeString = 8
	var out bytes.Buffer
	out.Write(file[:16])
	out.Write(le.AppendUint64(nil, le.Uint64(file[16:])+1))
	out.Write(le.AppendUint64(nil, uint64(len(key))))
	out.WriteString(key)
	out.Write(le.AppendUint32(nil, typeString))
	out.Write(le.AppendUint64(nil, uint64(len(template))))
	out.WriteString(template)
	out.Write(file[24:])
	path := filepath.Join(t.TempDir(), "chat.gguf")
	must(t, os.WriteFile(path, out.Bytes(), 0o600))
	return path
}

// nothing allows no token.
func nothing() Sampling {
	biases := map[uint32]float32{}
	for token := range uint32(512) {
		biases[token] = float32(math.Inf(-1))
	}
	return Sampling{LogitBias: biases}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, fs.ErrPermission }

func newConversation(t *testing.T, model *Model, options ConversationOptions) *Conversation {
	t.Helper()
	if options.Cache.Capacity == 0 {
		options.Cache.Capacity = 256
	}
	c, err := model.NewConversation(&options)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// reply is the parts of a whole reply of each kind, joined.
func reply(t *testing.T, c *Conversation, options *ReplyOptions) map[PartKind]string {
	t.Helper()
	parts, last := map[PartKind]string{}, Part{}
	for part, err := range c.Reply(t.Context(), options) {
		must(t, err)
		parts[part.Kind] += part.Text
		last = part
	}
	if last.Kind != PartEnd {
		t.Errorf("%+v", last)
	}
	return parts
}

func ask(t *testing.T, c *Conversation, text string, options *ReplyOptions) string {
	t.Helper()
	must(t, c.Add("user", text))
	return reply(t, c, options)[PartContent]
}

func messages(t *testing.T, c *Conversation) []map[string]any {
	t.Helper()
	all, err := c.Messages(0)
	must(t, err)
	return all
}

func info(t *testing.T, c *Conversation) ConversationInfo {
	t.Helper()
	info, err := c.Info()
	must(t, err)
	return info
}

func TestAReplyIsWhatAHostMakesByHand(t *testing.T) {
	model := load(t, chatModel(t, thinkingTemplate))
	c := newConversation(t, model, ConversationOptions{System: "Be brief.", Transcript: Transcript{Messages: []any{Message{"user", "Hi"}}}})
	before := ConversationInfo{}
	for i := range 2 {
		var all []any
		for _, message := range messages(t, c) {
			all = append(all, message)
		}
		tokens, err := model.TokenizeChat(&Transcript{Messages: all})
		must(t, err)
		want := written(t, newSession(t, model, 256), tokens, &JobOptions{MaxTokens: 12})
		if text := reply(t, c, &ReplyOptions{MaxTokens: 12, Sampling: &Sampling{}})[PartContent]; text != strings.TrimLeft(want, " ") || text == "" {
			t.Errorf("%q %q", text, want)
		}
		now := info(t, c)
		if now.Prompt != len(tokens) || now.Tokens != 12 || now.End != EndLength || now.Reused < before.Prompt || now.FirstToken <= 0 {
			t.Errorf("%+v", now)
		}
		last := messages(t, c)[2+2*i]
		if last["role"] != "assistant" || last["finish_reason"] != "length" {
			t.Error(last)
		}
		before = now
		must(t, c.Add("user", "And now?"))
	}
}

func TestSayTellsTheStory(t *testing.T) {
	model := load(t, chatModel(t, plainTemplate))
	c := newConversation(t, model, ConversationOptions{Cache: SessionOptions{Capacity: 100}})
	text := ""
	for piece, err := range c.Say(t.Context(), prompt, nil) {
		must(t, err)
		text += piece
	}
	all := messages(t, c)
	if !strings.HasPrefix(text, story[:150]) || all[1]["content"] != text || all[1]["finish_reason"] != "context" {
		t.Errorf("%q %v", text, all)
	}
	// What does not fit leaves no trace.
	for _, err := range c.Say(t.Context(), prompt, nil) {
		var full *Error
		if !errors.Is(err, ErrContextFull) || !errors.As(err, &full) || full.Needed <= 64 {
			t.Error(err)
		}
	}
	if now := messages(t, c); !reflect.DeepEqual(now, all) {
		t.Error(now)
	}
	// Stops, drafts and samplers.
	must(t, c.Rewind(1))
	for _, options := range []*ReplyOptions{
		{Stops: []string{"never", " She"}}, {Stops: []string{" She"}, Draft: DraftLookup},
		{Stops: []string{" She"}, Draft: DraftModel, DraftModel: model, DraftMax: 4},
		{Stops: []string{" She"}, Sampling: &Sampling{Temperature: 1, TopK: 1, LogitBias: map[uint32]float32{3: -1}}},
	} {
		if text := reply(t, c, options)[PartContent]; text != ", there was a little girl named Lily." {
			t.Errorf("%+v: %q", options, text)
		}
		must(t, c.Rewind(0))
		text := ""
		for piece, err := range c.Say(t.Context(), prompt, options) {
			must(t, err)
			text += piece
		}
		if text != ", there was a little girl named Lily." {
			t.Errorf("what is said: %+v: %q", options, text)
		}
		must(t, c.Rewind(1))
	}
	adapter, err := model.LoadAdapter(filepath.Dir(storyModel) + "/story-adapter.gguf")
	must(t, err)
	changed := newConversation(t, model, ConversationOptions{Adapters: []ScaledAdapter{{adapter, 1}}})
	adapter.Close()
	if text := ask(t, changed, prompt, &ReplyOptions{MaxTokens: 100}); !strings.HasPrefix(text, adaptedStory) {
		t.Errorf("%q", text)
	}
}

func TestARealModel(t *testing.T) {
	path := os.Getenv("MODEL")
	if path == "" {
		t.Skip("MODEL names no model")
	}
	c := newConversation(t, load(t, path), ConversationOptions{Cache: SessionOptions{Capacity: 2048}})
	options := &ReplyOptions{MaxTokens: 40, Sampling: &Sampling{}}
	first := ask(t, c, "What is the capital of France, and what is it famous for?", options)
	if !strings.Contains(first, "Paris") {
		t.Errorf("%q", first)
	}
	must(t, c.Rewind(1))
	pieces := 0
	for range c.Reply(t.Context(), nil) {
		if pieces++; pieces == 5 {
			break
		}
	}
	if again := reply(t, c, options)[PartContent]; again != first {
		t.Errorf("after a reply that was left %q", again)
	}
}

func TestToolsAreCalled(t *testing.T) {
	model, single := load(t, chatModel(t, thinkingTemplate)), false
	c := newConversation(t, model, ConversationOptions{Cache: SessionOptions{Capacity: 400}, Transcript: Transcript{
		Messages: []any{Message{"user", "Go"}}, ToolChoice: "required", ParallelToolCalls: &single, Variables: map[string]any{"a": 1},
		Tools: []any{map[string]any{"type": "function", "function": map[string]any{"name": "go", "parameters": map[string]any{
			"type": "object", "properties": map[string]any{"by": map[string]any{"enum": []string{"car", "bus"}}},
			"required": []string{"by"}, "additionalProperties": false}}}},
	}})
	ids := map[any]bool{}
	for turn := range 3 {
		parts := reply(t, c, &ReplyOptions{Reasoning: ReasoningOff})
		message := messages(t, c)[1+2*turn]
		call := message["tool_calls"].([]any)[0].(map[string]any)
		function := call["function"].(map[string]any)
		var by struct{ By string }
		must(t, json.Unmarshal([]byte(parts[PartToolArguments]), &by))
		if parts[PartToolName] != "go" || by.By != "car" && by.By != "bus" || message["finish_reason"] != "tool_calls" ||
			function["name"] != "go" || function["arguments"] != parts[PartToolArguments] || call["id"] != parts[PartToolID] {
			t.Error(parts, message)
		}
		ids[call["id"]] = true
		// The template has no place for results that it could lose.
		must(t, c.AddMessages(map[string]any{"role": "user", "tool_call_id": call["id"], "content": "done"}))
	}
	if len(ids) != 3 {
		t.Error(ids)
	}
}

func TestASchemaBindsTheContent(t *testing.T) {
	model := load(t, chatModel(t, thinkingTemplate))
	c := newConversation(t, model, ConversationOptions{})
	must(t, c.Add("user", "Hi"))
	const schema = `{"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"], "additionalProperties": false}`
	for _, reasoning := range []Reasoning{ReasoningModel, ReasoningOn} {
		parts := reply(t, c, &ReplyOptions{
			GrammarKind: GrammarJSONSchema, Grammar: schema, MaxTokens: 60, Logprobs: 2, Reasoning: reasoning, ReasoningTokens: 6,
		})
		var n struct{ N int }
		must(t, json.Unmarshal([]byte(parts[PartContent]), &n))
		if n.N > 9 || reasoning == ReasoningOn && parts[PartReasoning] == "" {
			t.Error(parts)
		}
		rows, err := c.Logprobs()
		must(t, err)
		var chosen []uint32
		for _, row := range rows {
			if chosen = append(chosen, row.Token); len(row.Likeliest) != 2 || row.Likeliest[0].Logprob < row.Likeliest[1].Logprob {
				t.Errorf("%+v", row)
			}
		}
		if text, err := model.Detokenize(chosen, false); err != nil || strings.TrimLeft(text, " \n") != parts[PartContent] {
			t.Errorf("%q %v %v", text, parts, err)
		}
		if rows, err := c.Logprobs(); len(rows) != 0 || err != nil {
			t.Error(rows, err)
		}
		must(t, c.Rewind(1))
	}
	compiled, err := model.NewGrammar(GrammarChoices, `["red", "blue"]`, 0)
	must(t, err)
	defer compiled.Close()
	must(t, c.Rewind(1))
	if text := reply(t, c, &ReplyOptions{Compiled: compiled, Reasoning: ReasoningOff})[PartContent]; text != "red" && text != "blue" {
		t.Errorf("%q", text)
	}
	must(t, c.Rewind(1))
	if text := reply(t, c, &ReplyOptions{GrammarKind: GrammarChoices, Grammar: `["red", "blue"]`, Reasoning: ReasoningOff})[PartContent]; text != "red" && text != "blue" {
		t.Errorf("%q", text)
	}
}

func TestReasoningHasABound(t *testing.T) {
	c := newConversation(t, load(t, chatModel(t, thinkingTemplate)), ConversationOptions{})
	must(t, c.Add("user", "Hi"))
	parts := reply(t, c, &ReplyOptions{Reasoning: ReasoningOn, ReasoningTokens: 5, MaxTokens: 30})
	on := info(t, c)
	if on.ReasoningTokens != 5 || on.Tokens != 30 || parts[PartReasoning] == "" || parts[PartContent] == "" {
		t.Errorf("%+v %v", on, parts)
	}
	if message := messages(t, c)[1]; message["reasoning_content"] != parts[PartReasoning] || message["content"] != parts[PartContent] {
		t.Error(message)
	}
	must(t, c.Rewind(1))
	if parts := reply(t, c, &ReplyOptions{Reasoning: ReasoningOff, MaxTokens: 4}); parts[PartReasoning] != "" || info(t, c).Prompt >= on.Prompt {
		t.Errorf("%+v %v", info(t, c), parts)
	}
}

func TestRepliesThatAreLeft(t *testing.T) {
	c := newConversation(t, load(t, chatModel(t, plainTemplate)), ConversationOptions{})
	said := ""
	for piece, err := range c.Say(t.Context(), prompt, nil) {
		must(t, err)
		if said += piece; len(said) > 20 {
			break
		}
	}
	all := messages(t, c)
	if all[1]["content"] != said || all[1]["finish_reason"] != "cancelled" || !strings.HasPrefix(story, said) {
		t.Error(said, all)
	}
	must(t, c.Rewind(1))
	for _, keep := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		said, last := "", error(nil)
		for part, err := range c.Reply(ctx, &ReplyOptions{Keep: keep}) {
			if last = err; len(said) > 20 {
				cancel()
			} else {
				said += part.Text
			}
		}
		all := messages(t, c)
		if !errors.Is(last, ErrCancelled) || !errors.Is(last, context.Canceled) || (len(all) == 2) != keep {
			t.Error(last, all)
		}
		if keep && (all[1]["finish_reason"] != "cancelled" || !strings.HasPrefix(all[1]["content"].(string), said)) {
			t.Error(said, all)
		}
		for _, err := range c.Reply(ctx, nil) {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		// An error of Say leaves the messages as they were.
		for _, err := range c.Say(ctx, "more", nil) {
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if now := messages(t, c); !reflect.DeepEqual(now, all) {
			t.Error(now)
		}
	}
	// A loop that panics leaves the conversation usable.
	must(t, c.Rewind(1))
	func() {
		defer func() { _ = recover() }()
		for range c.Reply(t.Context(), nil) {
			panic("enough")
		}
	}()
	if text := reply(t, c, &ReplyOptions{MaxTokens: 9})[PartContent]; !strings.HasPrefix(story, text) || len(messages(t, c)) != 2 {
		t.Error(text, messages(t, c))
	}
	long := newConversation(t, load(t, chatModel(t, plainTemplate)), ConversationOptions{Cache: SessionOptions{Capacity: 8192}})
	must(t, long.Add("user", strings.Repeat(prompt, 500)))
	late, stop := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer stop()
	for _, err := range long.Reply(late, nil) {
		if !errors.Is(err, ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "cancel") {
			t.Error(err)
		}
	}
}

func TestAReplyThatWasCutGoesOn(t *testing.T) {
	model := load(t, chatModel(t, thinkingTemplate))
	whole, cut := newConversation(t, model, ConversationOptions{}), newConversation(t, model, ConversationOptions{})
	text := ask(t, whole, "Hi", &ReplyOptions{MaxTokens: 24})
	begun := ask(t, cut, "Hi", &ReplyOptions{MaxTokens: 7})
	if begun == "" || !strings.HasPrefix(text, begun) {
		t.Errorf("%q %q", begun, text)
	}
	for _, n := range []int{1, 16} {
		begun += reply(t, cut, &ReplyOptions{MaxTokens: n, Continue: true})[PartContent]
	}
	if begun != text || !reflect.DeepEqual(messages(t, whole), messages(t, cut)) {
		t.Errorf("%q %q", begun, text)
	}
	// One that was given up and kept goes on too.
	must(t, cut.Add("user", "More"), cut.Begin(t.Context(), &ReplyOptions{MaxTokens: 20, Keep: true}))
	for range 4 {
		more, err := cut.Step(NoLimit)
		if must(t, err); !more {
			t.Error("an early end")
		}
	}
	reply(t, cut, &ReplyOptions{MaxTokens: 16, Continue: true})
	ask(t, whole, "More", &ReplyOptions{MaxTokens: 20})
	if !reflect.DeepEqual(messages(t, whole), messages(t, cut)) {
		t.Error(messages(t, whole), messages(t, cut))
	}
	// And so does one whose loop was left, time after time.
	leave := func(loop iter.Seq2[Part, error]) (n int) {
		for _, err := range loop {
			must(t, err)
			if n = info(t, cut).Tokens; n > 2 {
				break
			}
		}
		return n
	}
	said := func(yield func(Part, error) bool) {
		for piece, err := range cut.Say(t.Context(), "Once", nil) {
			if !yield(Part{Text: piece}, err) {
				return
			}
		}
	}
	replied := func(yield func(Part, error) bool) {
		must(t, cut.Add("user", "Once"))
		cut.Reply(t.Context(), &ReplyOptions{Keep: true})(yield)
	}
	for _, loop := range []iter.Seq2[Part, error]{said, replied} {
		n := leave(loop)
		for range 2 {
			n += leave(cut.Reply(t.Context(), &ReplyOptions{Keep: true, Continue: true}))
		}
		reply(t, cut, &ReplyOptions{MaxTokens: 30 - n, Continue: true})
		ask(t, whole, "Once", &ReplyOptions{MaxTokens: 30})
		if !reflect.DeepEqual(messages(t, whole), messages(t, cut)) {
			t.Error(messages(t, whole), messages(t, cut))
		}
	}
	must(t, whole.Add("user", "x"))
	if err := whole.Begin(t.Context(), &ReplyOptions{Continue: true}); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "cannot be continued") {
		t.Error(err)
	}
}

func TestForksAndSavedConversationsGoOnAlike(t *testing.T) {
	model := load(t, chatModel(t, thinkingTemplate))
	c := newConversation(t, model, ConversationOptions{System: "S"})
	ask(t, c, "Hi", &ReplyOptions{MaxTokens: 9})
	fork, err := c.Fork()
	must(t, err)
	defer fork.Close()
	var state bytes.Buffer
	must(t, c.Save(&state))
	loaded, err := model.LoadConversation(bytes.NewReader(state.Bytes()), nil)
	must(t, err)
	defer loaded.Close()
	c.Close()
	reply(t, fork, &ReplyOptions{MaxTokens: 5, Continue: true})
	reply(t, loaded, &ReplyOptions{MaxTokens: 5, Continue: true})
	one, two := ask(t, fork, "Go on", &ReplyOptions{MaxTokens: 9}), ask(t, loaded, "Go on", &ReplyOptions{MaxTokens: 9})
	if one != two || !reflect.DeepEqual(messages(t, fork), messages(t, loaded)) || info(t, fork).Reused < 20 || info(t, loaded).Reused < 20 {
		t.Errorf("%q %q", one, two)
	}
	must(t, fork.Begin(t.Context(), nil))
	// An unfinished reply is not in a fork.
	again, err := fork.Fork()
	must(t, err)
	if info(t, again).Unfinished || !reflect.DeepEqual(messages(t, again), messages(t, fork)) {
		t.Errorf("%+v", info(t, again))
	}
	again.Close()
	if err := fork.Save(io.Discard); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	// What a reader or writer says is the error.
	if _, err := model.LoadConversation(bytes.NewReader(state.Bytes()[:1000]), nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if err := loaded.Save(failingWriter{}); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	if _, err := model.LoadConversation(bytes.NewReader(state.Bytes()), &ConversationOptions{System: "S"}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	state.Bytes()[300]++
	if _, err := model.LoadConversation(&state, nil); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

func TestManyConversationsReplyAsEachDoesAlone(t *testing.T) {
	model := load(t, chatModel(t, thinkingTemplate))
	question := func(i int) string { return "Question " + strings.Repeat("?", i) }
	var all []*Conversation
	for i := range 5 {
		c := newConversation(t, model, ConversationOptions{Cache: SessionOptions{Capacity: 128}})
		must(t, c.Add("user", question(i)))
		all = append(all, c)
	}
	nothing := nothing()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i, c := range all[:3] {
		must(t, c.Begin(t.Context(), &ReplyOptions{MaxTokens: 6 + i}))
	}
	must(t, all[3].Begin(t.Context(), &ReplyOptions{Sampling: &nothing}), all[4].Begin(ctx, nil))
	more, err := StepConversations(all, 50*time.Microsecond)
	if must(t, err); !more {
		t.Error("an early end")
	}
	cancel()
	for more && info(t, all[2]).End == EndNone {
		more, err = StepConversations(all, NoLimit)
		must(t, err)
	}
	for i, c := range all[:3] {
		alone := newConversation(t, model, ConversationOptions{})
		ask(t, alone, question(i), &ReplyOptions{MaxTokens: 6 + i})
		if !reflect.DeepEqual(messages(t, c), messages(t, alone)) {
			t.Error(messages(t, c), messages(t, alone))
		}
	}
	// One that fails ends alone, and one whose context has ended is left out.
	if _, err := all[3].Step(NoLimit); err == nil || all[3].Err() == nil || info(t, all[3]).End != EndFailed {
		t.Error(err)
	}
	if _, err := all[4].Step(NoLimit); !errors.Is(err, context.Canceled) || !errors.Is(info(t, all[4]).Stopped, context.Canceled) {
		t.Error(err)
	}
	if _, err := StepConversations([]*Conversation{all[0], all[0]}, 0); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	if more, err := StepConversations(nil, NoLimit); more || err != nil {
		t.Error(more, err)
	}
}

func TestTheContextOfAConversationEndsThoseOfItsForks(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := newConversation(t, load(t, chatModel(t, plainTemplate)), ConversationOptions{Context: ctx})
	must(t, c.Add("user", prompt))
	fork, err := c.Fork()
	must(t, err)
	c.Close()
	must(t, fork.Begin(t.Context(), nil))
	_, err = fork.Step(NoLimit)
	must(t, err)
	cancel()
	if _, err := fork.Step(NoLimit); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if now := info(t, fork); !errors.Is(now.Stopped, context.Canceled) || !now.Unfinished {
		t.Errorf("%+v", now)
	}
}

func TestOldTurnsAreForgottenWhole(t *testing.T) {
	c := newConversation(t, load(t, chatModel(t, thinkingTemplate)), ConversationOptions{
		System: "S", Overflow: OverflowForget, Cache: SessionOptions{Capacity: 128, KType: CacheF32, VType: CacheF32}})
	for range 8 {
		ask(t, c, "A question of some length", &ReplyOptions{MaxTokens: 8})
	}
	now := info(t, c)
	if now.Messages != 17 || now.FirstInPrompt == 0 || messages(t, c)[now.FirstInPrompt]["role"] != "user" || now.Capacity != 128 || now.Len > 128 {
		t.Errorf("%+v", now)
	}
	must(t, c.Add("user", strings.Repeat("x", 300)))
	if err := c.Begin(t.Context(), nil); !errors.Is(err, ErrContextFull) {
		t.Error(err)
	}
}

func TestWrongConversationsAreNamed(t *testing.T) {
	model := load(t, chatModel(t, thinkingTemplate))
	c := newConversation(t, model, ConversationOptions{})
	must(t, c.Add("user", "Hi"), c.AddMessages())
	before := messages(t, c)
	part := map[string]any{"role": "user", "content": []any{map[string]any{"type": "image_url"}}}
	for word, err := range map[string]error{
		"messages[0]":      c.AddMessages(1),
		"messages[1].role": c.AddMessages(Message{"user", "a"}, map[string]any{"content": "b"}),
		"rewound to 2":     c.Rewind(2),
		"NUL":              c.Add("us\x00er", "a"),
		"UTF-8":            c.Add("user", "\xff"),
		"reasoning is 7":   c.Begin(t.Context(), &ReplyOptions{Reasoning: 7}),
		"draft is 9":       c.Begin(t.Context(), &ReplyOptions{Draft: 9}),
		"at most 32":       c.Begin(t.Context(), &ReplyOptions{Logprobs: 33}),
		"GrammarKind is 0": c.Begin(t.Context(), &ReplyOptions{Grammar: "x"}),
		"top_p":            c.Begin(t.Context(), &ReplyOptions{Sampling: &Sampling{TopP: 2}}),
		"stop string 1":    c.Begin(t.Context(), &ReplyOptions{Stops: []string{"a", "\x00"}}),
	} {
		if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), word) {
			t.Error(word, err)
		}
	}
	if err := c.AddMessages(part); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "content[0].media is no") {
		t.Error(err)
	}
	if now := messages(t, c); !reflect.DeepEqual(now, before) {
		t.Error(now)
	}
	if more, err := c.Step(0); more || err != nil {
		t.Error(more, err)
	}
	if parts, err := c.Parts(); len(parts) != 0 || err != nil {
		t.Error(parts, err)
	}
	for _, options := range []*ConversationOptions{{Overflow: 5}, {System: "\xff"}, {Transcript: Transcript{Messages: []any{1}}}, {Cache: SessionOptions{KType: 99}}} {
		if _, err := model.NewConversation(options); !errors.Is(err, ErrInvalidArgument) {
			t.Error(err)
		}
	}
	if _, err := load(t, storyModel).NewConversation(nil); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	if _, err := model.RenderChat(&Transcript{Messages: []any{1}}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	transcript := &Transcript{Messages: []any{Message{"user", prompt + "</s>"}}}
	if text, err := model.RenderChat(transcript); err != nil || text != "<s><user>"+prompt+"</s><assistant>" {
		t.Errorf("%q %v", text, err)
	}
	if tokens, err := model.TokenizeChat(transcript); err != nil || tokens[0] != 1 || slices.Contains(tokens[1:], 1) || slices.Contains(tokens, 2) {
		t.Error(tokens, err)
	}
}

func TestConversationsAreClosedInTheMiddle(t *testing.T) {
	model := load(t, chatModel(t, plainTemplate))
	c, last := newConversation(t, model, ConversationOptions{}), error(nil)
	for _, err := range c.Say(t.Context(), prompt, nil) {
		last = err
		model.Close()
		c.Close()
		c.Close()
	}
	if _, err := c.Info(); last != ErrClosed || err != ErrClosed || c.Add("user", "x") != ErrClosed {
		t.Error(last, err)
	}
	if _, err := model.NewConversation(nil); err != ErrClosed {
		t.Error(err)
	}
	// A model that is closed leaves a conversation alone, and the collector frees what is left in the middle of a reply.
	model = load(t, chatModel(t, plainTemplate))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 20 {
		c, err := model.NewConversation(&ConversationOptions{Context: ctx, Cache: SessionOptions{Capacity: 256}})
		must(t, err, c.Add("user", prompt), c.Begin(ctx, nil))
		_, err = c.Step(NoLimit)
		must(t, err)
		runtime.GC()
	}
	c = newConversation(t, model, ConversationOptions{})
	text := ""
	for piece, err := range c.Say(t.Context(), prompt, nil) {
		must(t, err)
		runtime.GC()
		if text += piece; len(text) > 60 {
			break
		}
		model.Close()
	}
	if !strings.HasPrefix(story, text) {
		t.Errorf("%q", text)
	}
}

func TestASecondCallIsBusy(t *testing.T) {
	c := newConversation(t, load(t, chatModel(t, plainTemplate)), ConversationOptions{Cache: SessionOptions{Capacity: 8192}})
	for _, err := range c.Say(t.Context(), prompt, nil) {
		must(t, err)
		if err := errors.Join(c.Add("user", "x"), c.AddMessages(), c.Rewind(0), c.Begin(t.Context(), nil)); !errors.Is(err, ErrBusy) ||
			strings.Count(err.Error(), "in use") != 4 {
			t.Error(err)
		}
		for _, err := range c.Say(t.Context(), "x", nil) {
			if !errors.Is(err, ErrBusy) {
				t.Error(err)
			}
		}
		if now := info(t, c); now.Messages != 1 || !now.Unfinished {
			t.Errorf("%+v", now)
		}
		break
	}
	// One step at a time too.
	must(t, c.Rewind(0), c.Add("user", strings.Repeat(prompt, 200)), c.Begin(t.Context(), &ReplyOptions{MaxTokens: 1}))
	var group sync.WaitGroup
	errs := make([]error, 8)
	begin := make(chan struct{})
	for i := range errs {
		group.Add(1)
		go func() {
			defer group.Done()
			<-begin
			_, errs[i] = c.Step(NoLimit)
		}()
	}
	close(begin)
	group.Wait()
	busy := 0
	for _, err := range errs {
		if errors.Is(err, ErrBusy) {
			busy++
		} else if err != nil {
			t.Error(err)
		}
	}
	if busy == 0 {
		t.Error("all of them stepped")
	}
}
