package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"realizar.dev/go"
)

// The request fields of OpenAI's and Anthropic's published schemas, with values that the schemas allow.
var published = map[string]string{
	"/v1/chat/completions": `"audio": {"voice": "alloy", "format": "wav"}, "modalities": ["text", "audio"], "moderation": {"model": "m"},
		"prediction": {"type": "content", "content": "x"}, "prompt_cache_key": "k", "prompt_cache_options": {"mode": "implicit"},
		"prompt_cache_retention": "24h", "safety_identifier": "s", "service_tier": "flex", "store": true, "user": "u", "verbosity": "low",
		"web_search_options": {}, "metadata": {"a": "b"}, "logit_bias": {}, "stream_options": {"include_obfuscation": false}, "stop": null,
		"seed": 3, "tools": null, "tool_choice": null, "response_format": {"type": "text"}, "max_tokens": 2`,
	"/v1/responses": `"background": false, "client_metadata": {"a": "b"}, "context_management": [{"type": "compaction"}], "conversation": null,
		"include": ["web_search_call.results", "reasoning.encrypted_content", "file_search_call.results"], "max_tool_calls": 3,
		"moderation": {"model": "m"}, "prompt": null, "prompt_cache_key": "k", "prompt_cache_options": {}, "prompt_cache_retention": "24h",
		"reasoning": {"summary": "auto", "generate_summary": "auto", "context": "auto", "mode": "auto"}, "safety_identifier": "s",
		"service_tier": "auto", "store": false, "stream_options": {"include_obfuscation": false}, "text": {"verbosity": "low"}, "top_logprobs": 0,
		"truncation": "auto", "user": "u", "max_output_tokens": 2`,
	"/v1/messages": `"cache_control": {"type": "ephemeral"}, "context_management": {"edits": []}, "diagnostics": {}, "inference_geo": "eu",
		"metadata": {"user_id": "u"}, "output_config": {"effort": "max"}, "service_tier": "auto", "speed": "fast", "user_profile_id": "u",
		"workspace_id": "w", "billing_policy": {}, "thinking": {"type": "adaptive", "display": "omitted"}, "container": null, "mcp_servers": [],
		"max_tokens": 2`,
	"/v1/completions": `"user": "u", "best_of": 1, "suffix": null, "max_tokens": 2`,
}

func TestFieldsOfThePublishedSchemasAreTaken(t *testing.T) {
	s := serve(t)
	for path, fields := range published {
		input := map[string]string{
			"/v1/responses": `"input": "x"`, "/v1/completions": `"prompt": "x"`,
		}[path]
		if input == "" {
			input = `"messages": [{"role": "user", "content": "x"}]`
		}
		s.ask(t, path, `{"model": "thinking", `+input+`, `+fields+`}`)
	}
	for _, effort := range []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"} {
		s.chat(t, "thinking", "x", fmt.Sprintf(`"reasoning_effort": %q, "max_tokens": 2`, effort))
		s.ask(t, "/v1/responses", fmt.Sprintf(`{"model": "thinking", "input": "x", "reasoning": {"effort": %q}, "max_output_tokens": 2}`, effort))
	}
}

// A warning is logged once, and clients cannot fill the log.
func TestWarningsAreSaidOnce(t *testing.T) {
	said.Lock()
	before := said.all
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	said.all = nil
	said.Unlock()
	for i := range 3 {
		warnOnce("the field %q", fmt.Sprintf("messages[%d].content[12].x[y]", i))
	}
	if known := said.all["requests"]; len(known) != 1 || !known[`the field "messages..content..x[y]"`] {
		t.Error(known)
	}
	// A long subject is truncated before it is processed.
	warnOnce("%q", strings.Repeat("[0]", 1<<22))
	for i := range 2 * maxWarnings {
		warnOnce("%q", fmt.Sprint("a", i, strings.Repeat("x", 1000)))
	}
	// Warnings about clients' requests leave room for the library's messages.
	sayOnce("the library", "it has room")
	if len(said.all["requests"]) != maxWarnings || !said.all["the library"]["it has room"] {
		t.Error(len(said.all["requests"]), said.all["the library"])
	}
	for text := range said.all["requests"] {
		if len(text) > 140 {
			t.Error(text)
		}
	}
	said.all = before
}

// toolsOf returns the names and parameters of the functions that the library gets from a request.
func toolsOf(t *realizar.Transcript) (all []string) {
	for _, one := range t.Tools {
		all = append(all, one.(tool).Function.Name)
	}
	return all
}

func TestToolsOfEveryTypeBecomeFunctions(t *testing.T) {
	const tools = `[{"type": "function", "name": "go", "parameters": null, "strict": true}, {"type": "web_search", "external_web_access": true},
		{"type": "namespace", "name": "mail", "description": "d", "tools": [{"type": "function", "name": "send", "parameters": {"type": "object"}},
		{"type": "custom", "name": "raw"}]}, {"type": "namespace", "name": "mcp__files__", "tools": [{"type": "function", "name": "read"}]},
		{"type": "custom", "name": "digits", "format": {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"}},
		{"type": "mcp", "server_label": "l"}, {"type": "web_search_preview_2025_03_11"}, {"type": "local_shell"}, {"type": "image_generation"},
		{"type": "code_interpreter", "container": {"type": "auto"}}, {"type": "apply_patch"}, {"type": "tool_search"}, {"type": "computer"}]`
	for choice, want := range map[string]struct {
		tools  []string
		choice any
	}{
		`"auto"`: {[]string{"go", "mail__send", "mail__raw", "mcp__files__read", "digits"}, "auto"},
		`{"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "go"}, {"type": "custom", "name": "digits"},
			{"type": "web_search"}, {"type": "function", "name": "read"}]}`: {[]string{"go", "mcp__files__read", "digits"}, "required"},
		`{"type": "allowed_tools", "mode": "auto", "tools": []}`: {nil, nil},
		`{"type": "function", "name": "send", "namespace": "mail"}`: {
			[]string{"go", "mail__send", "mail__raw", "mcp__files__read", "digits"},
			map[string]any{"type": "function", "function": map[string]any{"name": "mail__send"}}},
	} {
		var request responseRequest
		must(t, json.Unmarshal([]byte(`{"input": "x", "tools": `+tools+`, "tool_choice": `+choice+`}`), &request))
		must(t, request.tools.add("tools", "", request.Tools))
		asked, err := request.generation([]message{{Role: "user", Content: "x"}})
		must(t, err)
		if all := toolsOf(asked.Transcript); !slices.Equal(all, want.tools) || !reflect.DeepEqual(asked.Transcript.ToolChoice, want.choice) {
			t.Errorf("%s: %v %v", choice, all, asked.Transcript.ToolChoice)
		}
		if choice == `"auto"` {
			text, err := json.Marshal(asked.Transcript.Tools[4])
			must(t, err)
			if want := `{"type":"function","function":{"name":"digits","parameters":{"additionalProperties":false,"properties":{"input":` +
				`{"pattern":"^(?:[0-9]+)$","type":"string"}},"required":["input"],"type":"object"}}}`; string(text) != want {
				t.Error(string(text))
			}
			if first := asked.Transcript.Tools[0].(tool).Function; first.Strict == nil || !*first.Strict || first.Parameters != nil {
				t.Error(first)
			}
		}
	}
}

// A custom tool gets a text that follows its grammar, and its output is a message of the history.
func TestCustomToolsAreCalled(t *testing.T) {
	s := serve(t)
	const fields = `"model": "thinking", "temperature": 0, "parallel_tool_calls": false, "tool_choice": "required"`
	const flat = `[{"type": "namespace", "name": "sums", "tools": [{"type": "custom", "name": "digits", "format": {"type": "grammar", "syntax": "regex",
		"definition": "[0-9]{3}"}}]}]`
	request := `{` + fields + `, "input": "Hi", "reasoning": {"effort": "none"}, "tools": ` + flat + `}`
	whole := s.ask(t, "/v1/responses", request)
	call := at(whole, "output", 0)
	input, _ := at(call, "input").(string)
	if at(call, "type") != "custom_tool_call" || at(call, "name") != "digits" || at(call, "namespace") != "sums" || len(input) != 3 ||
		strings.Trim(input, "0123456789") != "" {
		t.Fatal(whole)
	}
	events := s.events(t, "/v1/responses", request)
	last := events[len(events)-1]["response"]
	spelled := mustJSON(t, at(last, "output", 0))
	id, item, callID := at(last, "id"), at(last, "output", 0, "id"), at(last, "output", 0, "call_id")
	if whole, stream := plainOf(t, whole), plainOf(t, last); whole != stream {
		t.Errorf("%s\n%s", whole, stream)
	}
	var kinds []string
	for _, event := range events {
		kinds = append(kinds, event["type"].(string))
	}
	if want := []string{"response.created", "response.in_progress", "response.output_item.added", "response.custom_tool_call_input.delta",
		"response.custom_tool_call_input.done", "response.output_item.done", "response.completed"}; !slices.Equal(kinds, want) {
		t.Error(kinds)
	}
	// The call and its result come back, by the previous response and by references to items.
	result := fmt.Sprintf(`{"type": "custom_tool_call_output", "call_id": %q, "output": "done"}`, callID)
	more := `{` + strings.Replace(fields, "required", "none", 1) + `, "max_output_tokens": 5, "tools": ` + flat + `, `
	by := s.ask(t, "/v1/responses", fmt.Sprintf(`%s"previous_response_id": %q, "input": [%s]}`, more, id, result))
	reference := s.ask(t, "/v1/responses", fmt.Sprintf(`%s"input": [{"role": "user", "content": "Hi"}, {"type": "item_reference", "id": %q}, %s]}`,
		more, item, result))
	itself := s.ask(t, "/v1/responses", fmt.Sprintf(`%s"input": [{"role": "user", "content": "Hi"}, %s, %s]}`, more, spelled, result))
	tokens := at(by, "usage", "input_tokens")
	if at(reference, "usage", "input_tokens") != tokens || at(itself, "usage", "input_tokens") != tokens ||
		at(reference, "output", 0, "content", 0, "text") != at(by, "output", 0, "content", 0, "text") {
		t.Error(by, reference, itself)
	}
	// The same in a chat.
	chat := body("thinking", "Hi", `"temperature": 0, "parallel_tool_calls": false, "tool_choice": {"type": "custom", "custom": {"name": "digits"}},
		"reasoning_effort": "none", "tools": [{"type": "custom", "custom": {"name": "digits", "format": {"type": "grammar", "grammar":
		{"syntax": "regex", "definition": "[0-9]{3}"}}}}]`)
	answer := s.complete(t, chat)
	one := at(answer, "choices", 0, "message", "tool_calls", 0)
	if text, _ := at(one, "custom", "input").(string); at(one, "type") != "custom" || at(one, "custom", "name") != "digits" || len(text) != 3 {
		t.Fatal(answer)
	}
	said, err := json.Marshal(at(answer, "choices", 0, "message"))
	must(t, err)
	again := fmt.Sprintf(`{"model": "thinking", "max_tokens": 3, "messages": [{"role": "user", "content": "Hi"}, %s, {"role": "tool", "tool_call_id": %q,
		"content": "x"}]}`, said, at(one, "id"))
	s.complete(t, again)
	streamed := ""
	for _, chunk := range s.events(t, "/v1/chat/completions", chat) {
		text, _ := at(chunk, "choices", 0, "delta", "tool_calls", 0, "custom", "input").(string)
		streamed += text
	}
	if streamed != at(one, "custom", "input") {
		t.Errorf("%q %v", streamed, one)
	}
}

func TestInputsOfCallsThatBrokeOff(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"input": "a\"b\n"}`: "a\"b\n", `{"input": "half a wo`: "half a wo", `{"input": "x\`: "x", `{"input": "x\u00`: "x", `{"in`: "", ``: "",
		`{"input": `: "", `{"input": "`: "", `{"input": "\ud83d\ude`: "\ufffd",
	} {
		if got := inputOf(arguments); got != want {
			t.Errorf("%q: %q", arguments, got)
		}
	}
}

// Anthropic's blocks that become text, and blocks of other services, which are left out.
func TestBlocksOfDocuments(t *testing.T) {
	var m messagesRequest
	must(t, json.Unmarshal([]byte(`{"messages": [{"role": "user", "content": [{"type": "document", "title": "T", "context": "C", "source":
		{"type": "text", "media_type": "text/plain", "data": "D"}, "citations": {"enabled": true}}, {"type": "document", "source": {"type": "content",
		"content": [{"type": "text", "text": "E"}]}}, {"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": "Rg=="}},
		{"type": "document", "source": {"type": "content", "content": "G"}}, {"type": "text", "text": "Q"}]},
		{"role": "assistant", "content": [{"type": "redacted_thinking", "data": "xyz"}, {"type": "server_tool_use", "id": "s", "name": "web_search",
		"input": {}}, {"type": "web_search_tool_result", "tool_use_id": "s", "content": {"type": "web_search_tool_result_error", "error_code": "x"}},
		{"type": "text", "text": "A"}, {"type": "tool_use", "id": "t", "name": "Find", "input": {"a": 1}}]},
		{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_reference", "tool_name": "Read"},
		{"type": "search_result", "source": "http://x/", "title": "S", "content": [{"type": "text", "text": "R"}]}]}]}]}`), &m))
	transcript, err := m.transcript()
	must(t, err)
	want := []any{message{Role: "user", Content: "T\nC\nD\nE\nF\nG\nQ"},
		message{Role: "assistant", Content: "A", ToolCalls: []toolCall{{"t", "function", function{"Find", `{"a": 1}`}}}},
		message{Role: "tool", Content: "Read\nS\nhttp://x/\nR", Name: "Find", ToolCallID: "t"}}
	if !reflect.DeepEqual(transcript.Messages, want) {
		t.Errorf("%+v", transcript.Messages)
	}
	// Documents of text of OpenAI's.
	const file = `"file_data": "data:text/plain;base64,RG9j", "filename": "a.txt"`
	var chat chatRequest
	must(t, json.Unmarshal([]byte(`{"messages": [{"role": "user", "content": [{"type": "file", "file": {`+file+`}}]}]}`), &chat))
	first, err := chat.Messages[0].read("m")
	must(t, err)
	var all items
	must(t, json.Unmarshal([]byte(`[{"role": "user", "content": [{"type": "input_file", `+file+`}]}, {"type": "web_search_call", "id": "w", "status": "completed",
		"action": {"type": "search", "query": "q"}}, {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}},
		{"type": "compaction", "encrypted_content": "x"}, {"type": "reasoning", "summary": [], "encrypted_content": "y"}]`), &all))
	messages, err := all.messages(nil, &toolbox{})
	must(t, err)
	if parts := []any{textPart{"text", "a.txt\nDoc"}}; len(messages) != 1 || !reflect.DeepEqual(messages[0].Content, parts) || !reflect.DeepEqual(first.Content, parts) {
		t.Errorf("%+v %+v", messages, first)
	}
}

// First requests with the structure of coding agents' requests and our own texts, and the turn after a tool call.
func TestAgentsAreAnswered(t *testing.T) {
	s := serve(t, "-context", "8192")
	ends := map[string]int{} // a bias that soon ends texts and objects
	for _, text := range []string{`"`, `}`} {
		tokens, err := s.leased(t, "thinking").Tokenize(text, true, false)
		must(t, err)
		ends[fmt.Sprint(tokens[len(tokens)-1])] = 50
	}
	for name, path := range map[string]string{
		"claude-code": "/v1/messages", "codex": "/v1/responses", "opencode": "/v1/chat/completions", "pi": "/v1/chat/completions",
	} {
		text, err := os.ReadFile("testdata/" + name + ".json")
		must(t, err)
		var request map[string]any
		must(t, json.Unmarshal(text, &request))
		limit := map[string]string{"/v1/messages": "max_tokens", "/v1/responses": "max_output_tokens"}[path]
		if limit == "" {
			limit = "max_tokens"
		}
		if request["max_completion_tokens"] != nil {
			limit = "max_completion_tokens"
		}
		// As the agent sends it, except for the length of the reply.
		request[limit] = 8
		for _, model := range []string{"plain", "thinking"} { // without and with reasoning in the template
			request["model"] = model
			events := s.events(t, path, strings.Replace(string(mustJSON(t, request)), `"stream":true,`, "", 1))
			if len(events) < 2 {
				t.Errorf("%s: %v", name, events)
			}
		}
		// With a generated call, whose result is sent back.
		delete(request, limit)
		request["stream"] = false
		turn := agentTurns[path]
		turn.force(request)
		request["logit_bias"] = ends
		answer := s.ask(t, path, string(mustJSON(t, request)))
		turn.goOn(t, request, answer)
		s.ask(t, path, string(mustJSON(t, request)))
	}
}

func mustJSON(t *testing.T, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	must(t, err)
	return text
}

// agentTurns append the answer of a request, and the result of its tool call, to the request.
var agentTurns = map[string]struct {
	force func(request map[string]any)
	goOn  func(t *testing.T, request, answer map[string]any)
}{
	"/v1/messages": {func(request map[string]any) {
		request["max_tokens"] = 2000
		request["thinking"] = map[string]any{"type": "disabled"}
		request["tool_choice"] = map[string]any{"type": "tool", "name": "Glance", "disable_parallel_tool_use": true}
	}, func(t *testing.T, request, answer map[string]any) {
		content := answer["content"].([]any)
		id := at(content[len(content)-1], "id")
		if at(content[len(content)-1], "name") != "Glance" || id == nil {
			t.Fatal(answer)
		}
		request["messages"] = append(request["messages"].([]any), map[string]any{"role": "assistant", "content": content},
			map[string]any{"role": "user", "content": []any{map[string]any{"tool_use_id": id, "type": "tool_result", "content": "1\thm",
				"cache_control": map[string]any{"type": "ephemeral"}}}})
		request["tool_choice"], request["max_tokens"] = map[string]any{"type": "auto"}, 4
	}},
	"/v1/responses": {func(request map[string]any) {
		request["reasoning"] = map[string]any{"effort": "none", "summary": "auto"}
		request["tool_choice"] = map[string]any{"type": "function", "name": "stop", "namespace": "team"}
		request["parallel_tool_calls"] = false
	}, func(t *testing.T, request, answer map[string]any) {
		output := answer["output"].([]any)
		call := output[len(output)-1]
		if at(call, "name") != "stop" || at(call, "namespace") != "team" || at(call, "type") != "function_call" {
			t.Fatal(answer)
		}
		request["input"] = append(append(request["input"].([]any), output...), map[string]any{
			"type": "function_call_output", "call_id": at(call, "call_id"), "output": []any{map[string]any{"type": "input_text", "text": "ok"}}})
		request["tool_choice"], request["max_output_tokens"] = "auto", 4
	}},
	"/v1/chat/completions": {func(request map[string]any) {
		request["reasoning_effort"] = "none"
		request["tool_choice"], request["parallel_tool_calls"] = map[string]any{"type": "function", "function": map[string]any{"name": "peek"}}, false
	}, func(t *testing.T, request, answer map[string]any) {
		said := at(answer, "choices", 0, "message").(map[string]any)
		if at(said, "tool_calls", 0, "function", "name") != "peek" {
			t.Fatal(answer)
		}
		request["messages"] = append(request["messages"].([]any), said,
			map[string]any{"role": "tool", "tool_call_id": at(said, "tool_calls", 0, "id"), "content": "hm"})
		request["tool_choice"], request["max_completion_tokens"] = "auto", 4
	}},
}

// The input of a custom tool is sent once, when its call has ended, however the events before it are split.
func TestTheInputOfACustomToolIsToldAtItsEnd(t *testing.T) {
	s := serve(t)
	l := s.leased(t, "plain")
	part := func(kind realizar.PartKind, text string) event {
		return event{Part: realizar.Part{Kind: kind, Text: text}}
	}
	rows := event{Logprobs: []realizar.TokenLogprobs{{Logprob: realizar.Logprob{Token: 5}}}}
	name, next := part(realizar.PartToolName, "note"), part(realizar.PartToolName, "other")
	first, last := part(realizar.PartToolArguments, `{"input": "a \u00`), part(realizar.PartToolArguments, `e9 b"}`)
	over := event{Outcome: &outcome{End: realizar.EndToken, Called: true}}
	var box toolbox
	must(t, box.putCustom("tools[0]", &customTool{Name: "note"}, ""))
	must(t, box.putCustom("tools[1]", &customTool{Name: "other"}, ""))
	for i, events := range [][]event{
		{name, rows, first, rows, last, rows, over},
		{name, first, last, over},
		{name, first, rows, last, rows, part(realizar.PartContent, "x"), over},
		{name, first, last, rows, next, rows, first, rows, last, over},
		{name, rows, first, rows, over}, // a truncated call
	} {
		all := func(yield func(event, error) bool) {
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		}
		out := httptest.NewRecorder()
		c := completion{request: &chatRequest{Logprobs: true, tools: box}, lease: l, choices: make([]choice, 1)}
		must(t, c.stream(out, all))
		inputs, told := map[float64]string{}, map[float64]int{}
		for _, line := range strings.Split(out.Body.String(), "\n") {
			var chunk map[string]any
			if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &chunk) != nil {
				continue
			}
			for n := 0; ; n++ {
				call, ok := at(chunk, "choices", 0, "delta", "tool_calls", n).(map[string]any)
				if !ok {
					break
				}
				if text, _ := at(call, "custom", "input").(string); text != "" {
					inputs[call["index"].(float64)] += text
					told[call["index"].(float64)]++
				}
			}
		}
		want := map[float64]string{0: "a é b"}
		switch i {
		case 3:
			want[1] = "a é b"
		case 4:
			want[0] = "a "
		}
		if !reflect.DeepEqual(inputs, want) || told[0] != 1 {
			t.Error(i, inputs, told, out.Body.String())
		}
	}
}
