// The tests of what callbacks and arguments may do wrong.
package realizar

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

type moved func(bytes []byte) (int, error)

func (m moved) Write(bytes []byte) (int, error) { return m(bytes) }
func (m moved) Read(bytes []byte) (int, error)  { return m(bytes) }

// panics is what a call panics with.
func panics(call func()) (value any) {
	defer func() { value = recover() }()
	call()
	return nil
}

func TestAPanicOfACallbackGoesOnBehindTheCall(t *testing.T) {
	model := load(t, chatModel(t, ""))
	session := newSession(t, model, 64)
	must(t, session.Prefill(t.Context(), []uint32{1, 403}))
	talk := newConversation(t, model, ConversationOptions{})
	wrong := moved(func([]byte) (int, error) { panic("moved") })
	for name, call := range map[string]func(){
		"save":         func() { _ = session.Save(wrong) },
		"load":         func() { _, _ = model.LoadSession(wrong, nil) },
		"conversation": func() { _ = talk.Save(wrong) },
		"restore":      func() { _, _ = model.LoadConversation(wrong, nil) },
		"progress": func() {
			_, _ = Load(t.Context(), storyModel, &LoadOptions{Progress: func(uint64, uint64) error { panic("moved") }})
		},
	} {
		if value := panics(call); value != "moved" {
			t.Error(name, value)
		}
	}
	// Nothing stays locked.
	must(t, session.Prefill(t.Context(), []uint32{407}), talk.Add("user", prompt), session.Save(io.Discard))
	runtime, err := NewRuntime(&RuntimeOptions{Threads: 1, Log: func(LogLevel, string) { panic("log") }})
	must(t, err)
	defer runtime.Close()
	logged, err := Load(t.Context(), storyModel, &LoadOptions{Runtime: runtime})
	must(t, err)
	logged.Close()
}

func TestAWriterThatTakesAPartIsNoSuccess(t *testing.T) {
	session := newSession(t, load(t, storyModel), 64)
	must(t, session.Prefill(t.Context(), []uint32{1, 403}))
	short := moved(func(bytes []byte) (int, error) { return len(bytes) / 2, nil })
	if err := session.Save(short); !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
}

func TestTextsThatAreNotUTF8AreRefused(t *testing.T) {
	model := load(t, chatModel(t, ""))
	talk := newConversation(t, model, ConversationOptions{})
	type named struct{ Role, Content string }
	for _, message := range []any{
		map[string]any{"role": "user", "content": "a\xff"}, map[string]any{"role": "user", "content": []any{map[string]string{"type": "text", "text": "\xc3"}}},
		Message{"user", "\xed\xa0\x80"}, &Message{"user", "\xff"}, map[string]any{"role": "user", "content": "x", "na\xffme": "x"}, []Message{{"user", "\xff"}},
		[1]any{named{"user", "\xff"}},
	} {
		if err := talk.AddMessages(message); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "not UTF-8") {
			t.Error(message, err)
		}
		if _, err := model.RenderChat(&Transcript{Messages: []any{message}}); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "not UTF-8") {
			t.Error(message, err)
		}
	}
	must(t, talk.AddMessages(Message{"user", "\ufffd \x00 größe"}))
	if got := messages(t, talk)[0]["content"]; got != "\ufffd \x00 größe" {
		t.Errorf("%q", got)
	}
}

func TestNumbersOfMessagesAreNotRounded(t *testing.T) {
	talk := newConversation(t, load(t, chatModel(t, plainTemplate)), ConversationOptions{})
	call := map[string]any{"id": "a", "type": "function", "function": map[string]any{"name": "go", "arguments": map[string]any{"by": uint64(1<<53 + 1)}}}
	must(t, talk.AddMessages(Message{"user", "x"}, map[string]any{"role": "assistant", "content": "", "tool_calls": []any{call}}))
	all := messages(t, talk)
	text, err := json.Marshal(all[1])
	must(t, err)
	if !strings.Contains(string(text), "9007199254740993") {
		t.Errorf("%s", text)
	}
}

func TestALoopHasItsReplyForItself(t *testing.T) {
	model := load(t, chatModel(t, ""))
	talk := newConversation(t, model, ConversationOptions{})
	var said strings.Builder
	for piece, err := range talk.Say(t.Context(), prompt, nil) {
		must(t, err)
		said.WriteString(piece)
		if _, err := talk.Parts(); !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
		if _, err := talk.Step(NoLimit); !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
		if _, err := StepConversations([]*Conversation{talk}, NoLimit); !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
		if said.Len() > 40 {
			break
		}
	}
	if kept := messages(t, talk)[1]["content"]; kept != said.String() {
		t.Errorf("got %q of %q", &said, kept)
	}
	_, err := talk.Parts()
	must(t, err)
}

// resident is the kilobytes of memory after so many chats.
func resident(t *testing.T, model *Model, chats int) int {
	for range chats {
		c, err := model.NewConversation(&ConversationOptions{System: "Be brief."})
		must(t, err)
		ask(t, c, prompt, &ReplyOptions{MaxTokens: 3})
		c.Close()
	}
	runtime.GC()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("the resident set is the one of Linux")
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	must(t, err)
	return kilobytes
}

// The KV cache of each chat takes half a megabyte.
func TestMemoryOfManyChatsIsGivenBack(t *testing.T) {
	model := load(t, chatModel(t, thinkingTemplate))
	before := resident(t, model, 100)
	if grown := resident(t, model, 200) - before; grown > 16_000 {
		t.Errorf("%d KB", grown)
	}
}

func TestMemoryIsForWhatThereIs(t *testing.T) {
	session := newSession(t, load(t, storyModel), 64)
	if _, err := session.Logprobs(math.MaxInt32); !errors.Is(err, ErrNotReady) {
		t.Error(err)
	}
	must(t, session.Prefill(t.Context(), []uint32{1, 403}))
	if all, err := session.Logprobs(math.MaxInt32); err != nil || len(all) != 512 {
		t.Error(len(all), err)
	}
	var saved bytes.Buffer
	must(t, session.Save(&saved))
}
