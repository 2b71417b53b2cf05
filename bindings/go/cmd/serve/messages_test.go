package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const anthropicTool = `{"name": "go", "description": "Goes", "cache_control": {"type": "ephemeral"}, "input_schema": {"type": "object",
	"properties": {"by": {"enum": ["car", "bus"]}}, "required": ["by"], "additionalProperties": false}}`

// assembled returns the message that the events of a stream describe.
func assembled(t *testing.T, events []map[string]any) (message map[string]any) {
	t.Helper()
	var blocks []any
	kinds, input := "", ""
	for _, event := range events {
		kinds += event["type"].(string) + " "
		switch event["type"] {
		case "message_start":
			message = event["message"].(map[string]any)
		case "content_block_start":
			if at(event, "index") != float64(len(blocks)) {
				t.Error(event)
			}
			blocks, input = append(blocks, event["content_block"]), ""
		case "content_block_delta":
			block := blocks[len(blocks)-1].(map[string]any)
			for _, name := range []string{"text", "thinking", "signature"} {
				if text, ok := at(event, "delta", name).(string); ok {
					block[name] = block[name].(string) + text
				}
			}
			if text, ok := at(event, "delta", "partial_json").(string); ok {
				input += text
			}
		case "content_block_stop":
			if block := blocks[len(blocks)-1].(map[string]any); block["type"] == "tool_use" {
				var object map[string]any
				must(t, json.Unmarshal([]byte(input), &object))
				block["input"] = object
			}
		case "message_delta":
			message["stop_reason"], message["stop_sequence"] = at(event, "delta", "stop_reason"), at(event, "delta", "stop_sequence")
			message["usage"] = event["usage"]
		}
	}
	if !strings.HasPrefix(kinds, "message_start ping content_block_start content_block_delta ") ||
		!strings.HasSuffix(kinds, " content_block_stop message_delta message_stop ") {
		t.Error(kinds)
	}
	message["content"] = blocks
	return message
}

func TestAMessageIsTheAnswerOfAChat(t *testing.T) {
	s := serve(t)
	chat := s.chat(t, "plain", once, `"temperature": 0, "max_tokens": 30`)
	const request = `{"model": "plain", "max_tokens": 30, "temperature": 0, "messages": [{"role": "user", "content": "Once upon a time"}]}`
	message := s.ask(t, "/v1/messages", request)
	if at(message, "content", 0, "text") != content(chat) || message["role"] != "assistant" || message["type"] != "message" ||
		message["stop_reason"] != "max_tokens" || message["model"] != "plain" || !strings.HasPrefix(message["id"].(string), "msg_") {
		t.Error(message)
	}
	usage := message["usage"]
	if at(usage, "input_tokens").(float64)+at(usage, "cache_read_input_tokens").(float64) != at(chat, "usage", "prompt_tokens") || at(usage, "output_tokens") != 30.0 {
		t.Error(usage)
	}
	// System text, and consecutive messages of one role, whose parts become lines.
	chat = s.complete(t, `{"model": "plain", "max_tokens": 9, "temperature": 0, "messages": [{"role": "system", "content": "One\nday"},
		{"role": "user", "content": "a\nb\nc"}, {"role": "assistant", "content": "d", "reasoning_content": "e"}, {"role": "user", "content": "f"}]}`)
	again := `{"model": "plain", "max_tokens": 9, "temperature": 0, "system": [{"type": "text", "text": "One", "cache_control": {"type": "ephemeral"}},
		{"type": "text", "text": "day"}], "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
		{"role": "user", "content": "c"}, {"role": "assistant", "content": [{"type": "thinking", "thinking": "e", "signature": "x"},
		{"type": "text", "text": "d"}]}, {"role": "user", "content": "f"}], "metadata": {"user_id": "u"}}`
	message = s.ask(t, "/v1/messages", again)
	if at(message, "content", 0, "text") != content(chat) {
		t.Error(message, chat)
	}
	counted := strings.Replace(again, `"max_tokens": 9, "temperature": 0, `, "", 1)
	if tokens := s.ask(t, "/v1/messages/count_tokens", counted)["input_tokens"]; tokens != at(chat, "usage", "prompt_tokens") {
		t.Error(tokens, chat)
	}
	// One stop string, and several.
	for fields, stop := range map[string]string{`[" She"]`: " She", `["never", "named", " She"]`: "named", `["med Li", "named Lily"]`: "med Li"} {
		message := s.ask(t, "/v1/messages", strings.TrimSuffix(request, "}")+`, "stop_sequences": `+fields+`}`)
		text := at(message, "content", 0, "text").(string)
		if message["stop_reason"] != "stop_sequence" || message["stop_sequence"] != stop || !strings.HasPrefix(story, text+stop) {
			t.Error(message)
		}
	}
}

func TestAStreamedMessageIsTheSame(t *testing.T) {
	s := serve(t)
	for _, fields := range []string{
		`"model": "plain"`, `"model": "plain", "stop_sequences": ["zz", "e"]`, `"model": "thinking", "thinking": {"type": "enabled", "budget_tokens": 6}`,
		`"model": "thinking", "thinking": {"type": "disabled"}, "tool_choice": {"type": "any", "disable_parallel_tool_use": true}, "tools": [` + anthropicTool + `]`,
		`"model": "thinking", "output_config": {"format": {"type": "json_schema", "schema": {"enum": ["a", "b"]}}}`,
		`"model": "thinking", "thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}`,
	} {
		request := `{"max_tokens": 60, "temperature": 0, "messages": [{"role": "user", "content": "Hi"}], ` + fields + `}`
		whole, stream := plainOf(t, s.ask(t, "/v1/messages", request)), plainOf(t, assembled(t, s.events(t, "/v1/messages", request)))
		if whole != stream {
			t.Errorf("%s\n%s\n%s", request, whole, stream)
		}
		// The tokens counted in advance equal the tokens counted afterwards.
		events := s.events(t, "/v1/messages", request)
		usage, counted := events[len(events)-2]["usage"], s.ask(t, "/v1/messages/count_tokens", request)["input_tokens"]
		if sum := at(usage, "input_tokens").(float64) + at(usage, "cache_read_input_tokens").(float64); sum != counted ||
			at(events[0], "message", "usage", "input_tokens") != counted {
			t.Error(request, usage, counted, events[0])
		}
	}
}

func TestMessagesCallTools(t *testing.T) {
	s := serve(t)
	messages := []any{map[string]any{"role": "user", "content": "Go"}}
	request := func() string {
		text, err := json.Marshal(messages)
		must(t, err)
		return fmt.Sprintf(`{"model": "thinking", "messages": %s, "tools": [%s], "thinking": {"type": "disabled"}, "max_tokens": 60, "temperature": 0,
			"tool_choice": {"type": "tool", "name": "go", "disable_parallel_tool_use": true}}`, text, anthropicTool)
	}
	for range 3 {
		message := s.ask(t, "/v1/messages", request())
		call := at(message, "content", 0)
		if by := at(call, "input", "by"); by != "car" && by != "bus" || at(call, "name") != "go" || message["stop_reason"] != "tool_use" {
			t.Fatal(message)
		}
		messages = append(messages, map[string]any{"role": "assistant", "content": message["content"]}, map[string]any{"role": "user", "content": []any{
			map[string]any{"type": "tool_result", "tool_use_id": at(call, "id"), "is_error": true, "content": "no"},
			map[string]any{"type": "text", "text": "Again"},
		}})
	}
	// The prompt is that of a chat with the same messages.
	var chat []any
	for _, each := range messages {
		switch blocks := at(each, "content").(type) {
		case string:
			chat = append(chat, each)
		case []any:
			if call := blocks[0].(map[string]any); call["type"] == "tool_use" {
				input, err := json.Marshal(call["input"])
				must(t, err)
				chat = append(chat, map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{
					"id": call["id"], "type": "function", "function": map[string]any{"name": "go", "arguments": string(input)}}}})
			} else {
				chat = append(chat, map[string]any{"role": "tool", "tool_call_id": call["tool_use_id"], "content": "Error: no"},
					map[string]any{"role": "user", "content": "Again"})
			}
		}
	}
	text, err := json.Marshal(chat)
	must(t, err)
	answer := s.complete(t, fmt.Sprintf(`{"model": "thinking", "messages": %s, "tools": [%s], "tool_choice": "required", "parallel_tool_calls": false,
		"reasoning_effort": "none", "temperature": 0}`, text, goTool))
	tokens := at(s.ask(t, "/v1/messages", request()), "usage")
	if sum := at(tokens, "input_tokens").(float64) + at(tokens, "cache_read_input_tokens").(float64); sum != at(answer, "usage", "prompt_tokens") {
		t.Error(tokens, answer)
	}
}

func TestThreadsGoOn(t *testing.T) {
	s := serve(t)
	const fields = `"model": "thinking", "max_tokens": 40, "temperature": 0, "thinking": {"type": "disabled"}, `
	first := s.ask(t, "/v1/messages", `{`+fields+`"thread": {"type": "create"}, "system": "S", "tools": [`+anthropicTool+`], "tool_choice": {"type": "any",
		"disable_parallel_tool_use": true}, "messages": [{"role": "user", "content": "Go"}]}`)
	result := fmt.Sprintf(`{"role": "user", "content": [{"type": "tool_result", "tool_use_id": %q, "content": "done"}]}`, at(first, "content", 0, "id"))
	said, err := json.Marshal(first["content"])
	must(t, err)
	whole := s.ask(t, "/v1/messages", `{`+fields+`"system": "S", "tools": [`+anthropicTool+`], "tool_choice": {"type": "none"}, "messages": [{"role": "user",
		"content": "Go"}, {"role": "assistant", "content": `+string(said)+`}, `+result+`]}`)
	goOn := `{` + fields + `"thread": {"type": "continue", "previous_message_id": "` + first["id"].(string) + `"}, "tool_choice": {"type": "none"}, "messages": [` + result + `]}`
	stream := assembled(t, s.events(t, "/v1/messages", goOn))
	again := fmt.Sprintf(`{%s"thread": {"type": "continue", "previous_message_id": %q}, "messages": [{"role": "user", "content": "And?"}]}`, fields, stream["id"])
	s.ask(t, "/v1/messages", again) // after a streamed message
	if whole, stream := plainOf(t, whole), plainOf(t, stream); whole != stream {
		t.Errorf("%s\n%s", whole, stream)
	}
	for body, want := range map[string]string{
		`"thread": {"type": "continue", "previous_message_id": "x"}`: "thread_not_found", `"thread": {"type": "y"}`: "", `"compaction": {}`: "",
		`"thread": {"type": "continue", "previous_message_id": "x"}, "system": "s"`: "",
	} {
		status, answer, _ := s.post(t, "/v1/messages", `{`+fields+`"messages": [{"role": "user", "content": "x"}], `+body+`}`)
		if code, _ := at(answer, "error", "details", "error_code").(string); status/100 != 4 || code != want {
			t.Error(body, status, answer)
		}
	}
}
