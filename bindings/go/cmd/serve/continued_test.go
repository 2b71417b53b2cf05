package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"realizar.dev/go"
)

// begun is a request that ends with a text of the assistant, in the form of an API.
func begun(model, said, fields string) string {
	return fmt.Sprintf(`{"model": %q, "temperature": 0, "max_tokens": 40, "messages": [{"role": "user", "content": "Once upon a time"},
		{"role": "assistant", "content": %s}]%s}`, model, said, fields)
}

// The reply is the rest of the text that the model writes without a prefill, in every form of the text, whole and
// streamed.
func TestALastMessageOfTheAssistantIsContinued(t *testing.T) {
	s := serve(t)
	const said = ", there was a little girl named"
	want := strings.TrimPrefix(story, said)
	check := func(what, text string) {
		t.Helper()
		if len(text) < 40 || !strings.HasPrefix(want, text) {
			t.Errorf("%s: %q", what, text)
		}
	}
	quoted := fmt.Sprintf("%q", said)
	answer := s.complete(t, begun("plain", quoted, ""))
	check("chat", content(answer))
	whole := s.complete(t, body("plain", "Once upon a time", `"temperature": 0, "max_tokens": 1`))
	before := at(whole, "usage", "prompt_tokens").(float64)
	if n := at(answer, "usage", "prompt_tokens").(float64); n <= before || at(answer, "usage", "completion_tokens") != 40.0 {
		t.Error(answer)
	}
	check("parts", content(s.complete(t, begun("plain", `[{"type": "text", "text": `+quoted+`}]`, ""))))
	check("vLLM", content(s.complete(t, begun("plain", quoted, `, "continue_final_message": true, "add_generation_prompt": false`))))
	check("stream", content(s.joined(t, begun("plain", quoted, ""))))
	check("messages", at(s.ask(t, "/v1/messages", begun("plain", quoted, "")), "content", 0, "text").(string))
	check("tools", content(s.complete(t, begun("plain", quoted, `, "tools": [`+goTool+`], "tool_choice": "none"`))))
	// Stop strings end the new text only.
	stopped := s.complete(t, begun("plain", quoted, `, "stop": [" She", "little"]`))
	if content(stopped) != " Lily." || at(stopped, "choices", 0, "finish_reason") != "stop" {
		t.Error(stopped)
	}
	two := s.complete(t, begun("plain", quoted, `, "n": 2, "logprobs": true`))
	check("choice 0", at(two, "choices", 0, "message", "content").(string))
	check("choice 1", at(two, "choices", 1, "message", "content").(string))
	if rows, _ := at(two, "choices", 1, "logprobs", "content").([]any); len(rows) != 40 {
		t.Error(len(rows))
	}
	// The model begins a new message if the request asks for one, and after an empty message.
	for _, fields := range []string{`, "add_generation_prompt": true`, `, "continue_final_message": false`} {
		if text := content(s.complete(t, begun("plain", quoted, fields))); text == "" {
			t.Error(fields)
		}
	}
	if text := content(s.complete(t, begun("plain", `""`, ""))); !strings.HasPrefix(story, text) || len(text) < 40 {
		t.Errorf("%q", text)
	}
	// A template with reasoning writes none before the text.
	quiet := s.complete(t, begun("thinking", quoted, ""))
	if at(quiet, "choices", 0, "message", "reasoning_content") != nil || content(quiet) == "" {
		t.Error(quiet)
	}
}

func TestWhatCannotBeContinuedIsRefused(t *testing.T) {
	s := serve(t)
	for _, c := range []struct{ path, body, word string }{
		{"/v1/chat/completions", begun("plain", `"x"`, `, "response_format": {"type": "json_object"}`), `"response_format"`},
		{"/v1/chat/completions", begun("plain", `"x"`, `, "tools": [`+goTool+`], "tool_choice": "required"`), "tool call"},
		{"/v1/chat/completions", begun("thinking", `"x"`, `, "reasoning_effort": "high"`), "reasoning"},
		{"/v1/chat/completions", begun("thinking", `"x"`, `, "chat_template_kwargs": {"enable_thinking": true}`), "begins replies with reasoning"},
		{"/v1/chat/completions", begun("plain", `"x"`, `, "continue_final_message": true, "add_generation_prompt": true`), "set one"},
		{"/v1/chat/completions", body("plain", "x", `"continue_final_message": true`), "assistant"},
		{"/v1/chat/completions", `{"model": "plain", "messages": [{"role": "assistant", "content": "x"}]}`, "messages[0] is the only message"},
		{"/v1/chat/completions", begun("plain", fmt.Sprintf("%q", strings.Repeat("x ", 2000)), ""), "512"},
		{"/v1/messages", begun("plain", `"x "`, ""), "messages.1: final assistant content cannot end with trailing whitespace"},
		{"/v1/messages", begun("plain", `"x"`, `, "output_config": {"format": {"type": "json_schema", "schema": {}}}`), "output_config.format"},
		{"/v1/messages", begun("thinking", `"x"`, `, "thinking": {"type": "enabled", "budget_tokens": 5}`), "reasoning"},
	} {
		status, answer, _ := s.post(t, c.path, c.body)
		if said, _ := at(answer, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(said, c.word) {
			t.Errorf("%s %.300s: %d %v", c.path, c.body, status, answer)
		}
	}
}

// An image is shown before the text that is continued.
func TestAMessageAfterAPictureIsContinued(t *testing.T) {
	s := serve(t, "-mmproj", "plain="+encoderFile(t, "vision/llava"))
	const said = " there was a"
	l := s.leased(t, "plain")
	file, err := os.ReadFile(data + "media/rgb.png")
	must(t, err)
	media, err := l.encoders["image"].EncodeImage(t.Context(), file, nil)
	must(t, err)
	defer media.Close()
	prompt, err := l.NewChatPrompt(&realizar.Transcript{Messages: []any{map[string]any{
		"role": "user", "content": []any{map[string]any{"type": "image", "media": 0}, map[string]any{"type": "text", "text": "Once"}},
	}}}, media)
	must(t, err)
	defer prompt.Close()
	session, err := l.NewSession(nil)
	must(t, err)
	defer session.Close()
	must(t, session.PrefillPrompt(t.Context(), prompt, 0))
	tokens, err := l.Tokenize(said, false, false)
	must(t, err)
	job, err := session.NewJob(t.Context(), tokens, &realizar.JobOptions{MaxTokens: 12})
	must(t, err)
	defer job.Close()
	want := ""
	for piece, err := range job.Stream() {
		must(t, err)
		want += piece
	}
	request := strings.Replace(shown("", "plain", pictureURL(t, "rgb.png"), "Once"), `]}]}`, fmt.Sprintf(`]}, {"role": "assistant", "content": %q}]}`, said), 1)
	for range 2 {
		answer := s.complete(t, request)
		if content(answer) != want || want == "" || at(answer, "usage", "prompt_tokens") != float64(prompt.Len()+len(tokens)) {
			t.Errorf("%q %v", want, answer)
		}
	}
}
