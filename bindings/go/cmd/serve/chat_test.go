package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// joined requests a stream and joins its chunks to an answer that is not streamed.
func (s *service) joined(t *testing.T, body string) map[string]any {
	t.Helper()
	var answer map[string]any
	choices := map[int]map[string]any{}
	for _, chunk := range s.events(t, "/v1/chat/completions", strings.TrimSuffix(body, "}")+`, "stream_options": {"include_usage": true}}`) {
		if chunk["object"] != "chat.completion.chunk" || answer != nil && chunk["id"] != answer["id"] {
			t.Error(chunk)
		}
		answer = chunk
		for _, piece := range chunk["choices"].([]any) {
			index := int(at(piece, "index").(float64))
			if choices[index] == nil {
				if at(piece, "delta", "role") != "assistant" {
					t.Error(piece)
				}
				choices[index] = map[string]any{"index": float64(index), "message": map[string]any{"refusal": nil}, "logprobs": nil}
			}
			join(choices[index], piece.(map[string]any))
		}
	}
	all := make([]any, len(choices))
	for i, choice := range choices {
		if message := choice["message"].(map[string]any); message["tool_calls"] != nil && message["content"] == "" {
			message["content"] = nil
		}
		all[i] = choice
	}
	answer["choices"], answer["object"] = all, "chat.completion"
	return answer
}

// join adds a chunk to a choice.
func join(choice, piece map[string]any) {
	message := choice["message"].(map[string]any)
	for name, value := range piece["delta"].(map[string]any) {
		if name != "tool_calls" {
			before, _ := message[name].(string)
			message[name] = before + value.(string)
			continue
		}
		for _, call := range value.([]any) {
			list, _ := message[name].([]any)
			if index := int(at(call, "index").(float64)); index == len(list) {
				delete(call.(map[string]any), "index")
				message[name] = append(list, call)
			} else {
				function := at(list[index], "function").(map[string]any)
				function["arguments"] = function["arguments"].(string) + at(call, "function", "arguments").(string)
			}
		}
	}
	choice["finish_reason"] = piece["finish_reason"]
	if rows, ok := at(piece, "logprobs", "content").([]any); ok {
		before, _ := at(choice, "logprobs", "content").([]any)
		choice["logprobs"] = map[string]any{"content": append(before, rows...), "refusal": nil}
	}
}

// comparable removes from an answer what differs between two equal requests.
func comparable(t *testing.T, answer map[string]any) string {
	t.Helper()
	delete(answer, "id")
	delete(answer, "created")
	delete(answer["usage"].(map[string]any), "prompt_tokens_details") // a second request finds more in the cache
	for _, choice := range answer["choices"].([]any) {
		all, _ := at(choice, "message", "tool_calls").([]any)
		for _, call := range all {
			delete(call.(map[string]any), "id")
		}
	}
	text, err := json.MarshalIndent(answer, "", " ")
	must(t, err)
	return string(text)
}

func TestAnAnswerIsThatOfTheModel(t *testing.T) {
	s := serve(t)
	answer := s.chat(t, "plain", "Once upon a time", `"temperature": 0, "max_tokens": 40`)
	text := content(answer)
	if len(text) < 60 || !strings.HasPrefix(story, text) {
		t.Errorf("%q", text)
	}
	usage := at(answer, "usage")
	if at(answer, "choices", 0, "finish_reason") != "length" || at(usage, "prompt_tokens") != 5.0 || at(usage, "completion_tokens") != 40.0 ||
		at(usage, "total_tokens") != 45.0 || answer["object"] != "chat.completion" || answer["model"] != "plain" {
		t.Error(answer)
	}
	if text := content(s.chat(t, "plain", "Once upon a time", `"temperature": 0, "max_completion_tokens": 60, "max_tokens": 1, "stop": " She"`)); text != ", there was a little girl named Lily." {
		t.Errorf("%q", text)
	}
	answer = s.chat(t, "plain", "Once upon a time", `"temperature": 0, "stop": ["never", " She"]`)
	if text := content(answer); text != ", there was a little girl named Lily." || at(answer, "choices", 0, "finish_reason") != "stop" {
		t.Errorf("%q", text)
	}
}

func TestAStreamIsTheSameAnswer(t *testing.T) {
	s := serve(t)
	for _, request := range []string{
		body("plain", "Once upon a time", `"temperature": 0, "max_tokens": 50`),
		body("plain", "Once", `"temperature": 1, "seed": 7, "max_tokens": 50, "n": 3`),
		body("plain", "Once", `"temperature": 1, "seed": 7, "max_tokens": 30, "logprobs": true, "top_logprobs": 3`),
		body("thinking", "Hi", `"temperature": 0, "max_tokens": 60, "reasoning_effort": "low", "reasoning": {"max_tokens": 6}`),
		body("thinking", "Hi", `"temperature": 0, "tool_choice": "required", "parallel_tool_calls": false, "tools": [`+goTool+`]`),
		body("thinking", "Hi", `"temperature": 0, "max_tokens": 60, "response_format": {"type": "json_object"}`),
		body("plain", "Once upon a time", `"temperature": 0, "stop": " She"`),
	} {
		whole, stream := comparable(t, s.complete(t, request)), comparable(t, s.joined(t, request))
		if whole != stream {
			t.Errorf("%s\n%s\n%s", request, whole, stream)
		}
	}
}

func TestSeedsAndChoices(t *testing.T) {
	s := serve(t)
	fields := `"temperature": 1, "max_tokens": 30, "n": 3, "seed": `
	texts := func(fields string) (texts []string) {
		for i, choice := range s.chat(t, "plain", "Once", fields)["choices"].([]any) {
			if at(choice, "index") != float64(i) {
				t.Error(choice)
			}
			texts = append(texts, at(choice, "message", "content").(string))
		}
		return texts
	}
	one, again, two := texts(fields+"1"), texts(fields+"1"), texts(fields+"2")
	if len(one) != 3 || !reflect.DeepEqual(one, again) || one[0] == one[1] || one[1] == one[2] || one[0] == two[0] {
		t.Errorf("%q\n%q\n%q", one, again, two)
	}
	without := `"temperature": 1, "max_tokens": 30`
	if one, two := texts(without), texts(without); one[0] == two[0] {
		t.Errorf("without a seed twice %q", one)
	}
	// A bias against the most likely token selects another token.
	answer := s.chat(t, "plain", "Once", `"temperature": 0, "max_tokens": 1, "logprobs": true`)
	l := s.leased(t, "plain")
	first := at(answer, "choices", 0, "logprobs", "content", 0, "token").(string)
	tried := 0
	for token := range uint32(l.info.VocabSize) {
		if text, err := l.TokenBytes(token); err != nil || string(text) != first {
			continue
		}
		tried++
		fields := fmt.Sprintf(`"temperature": 0, "max_tokens": 1, "logprobs": true, "logit_bias": {"%d": -100}`, token)
		if now := at(s.chat(t, "plain", "Once", fields), "choices", 0, "logprobs", "content", 0, "token"); now == first {
			t.Error(now)
		}
	}
	if tried == 0 {
		t.Error(first)
	}
}

func TestLogprobs(t *testing.T) {
	s := serve(t)
	answer := s.chat(t, "plain", "Once upon a time", `"temperature": 0, "max_tokens": 20, "logprobs": true, "top_logprobs": 2`)
	text, rows := "", at(answer, "choices", 0, "logprobs", "content").([]any)
	for _, row := range rows {
		var spelled []byte
		for _, b := range at(row, "bytes").([]any) {
			spelled = append(spelled, byte(b.(float64)))
		}
		text += string(spelled)
		top := at(row, "top_logprobs").([]any)
		if len(top) != 2 || at(top[0], "logprob") != at(row, "logprob") || at(top[0], "token") != at(row, "token") ||
			at(top[1], "logprob").(float64) > at(top[0], "logprob").(float64) || at(row, "logprob").(float64) > 0 {
			t.Error(row)
		}
	}
	if text != content(answer) || len(rows) != 20 {
		t.Errorf("%q %v", text, answer)
	}
	answer = s.chat(t, "plain", "Once", `"max_tokens": 2, "logprobs": true`)
	if top := at(answer, "choices", 0, "logprobs", "content", 0, "top_logprobs"); len(top.([]any)) != 0 {
		t.Error(answer)
	}
	if answer := s.chat(t, "plain", "Once", `"max_tokens": 2`); at(answer, "choices", 0, "logprobs") != nil {
		t.Error(answer)
	}
}

func TestToolsAndTheirResults(t *testing.T) {
	s := serve(t)
	messages := []any{map[string]any{"role": "user", "content": "Go"}}
	for range 3 {
		text, err := json.Marshal(messages)
		must(t, err)
		answer := s.complete(t, fmt.Sprintf(`{"model": "thinking", "messages": %s, "tools": [%s], "parallel_tool_calls": false,
			"tool_choice": {"type": "function", "function": {"name": "go"}}, "temperature": 0, "reasoning_effort": "none"}`, text, goTool))
		message := at(answer, "choices", 0, "message").(map[string]any)
		var by struct{ By string }
		arguments, _ := at(message, "tool_calls", 0, "function", "arguments").(string)
		if err := json.Unmarshal([]byte(arguments), &by); err != nil {
			t.Fatal(err, answer)
		}
		id, _ := at(message, "tool_calls", 0, "id").(string)
		if by.By != "car" && by.By != "bus" || at(message, "tool_calls", 0, "function", "name") != "go" || !strings.HasPrefix(id, "call_") ||
			at(answer, "choices", 0, "finish_reason") != "tool_calls" || len(at(message, "tool_calls").([]any)) != 1 {
			t.Fatal(answer)
		}
		// The message as clients send it back, with fields that have no effect. The template has no place for tool
		// results, so the result is a user message.
		message["annotations"], message["audio"], message["function_call"] = []any{}, nil, nil
		messages = append(messages, message, map[string]any{"role": "user", "content": "done"})
	}
	answer := s.chat(t, "thinking", "Hi", `"tool_choice": "none", "temperature": 0, "max_tokens": 5, "tools": [`+goTool+`]`)
	if at(answer, "choices", 0, "message", "tool_calls") != nil {
		t.Error(answer)
	}
}

func TestAFormOfTheContent(t *testing.T) {
	s := serve(t)
	const schema = `"max_tokens": 60, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {"type": "object",
		"properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"], "additionalProperties": false}}}`
	var n struct{ N *int }
	must(t, json.Unmarshal([]byte(content(s.chat(t, "plain", "Hi", schema))), &n))
	if n.N == nil || *n.N < 0 || *n.N > 9 {
		t.Error(n)
	}
	n.N = nil
	answer := s.chat(t, "thinking", "Hi", schema+`, "reasoning_effort": "high", "reasoning": {"max_tokens": 6}`)
	must(t, json.Unmarshal([]byte(content(answer)), &n))
	reasoning, _ := at(answer, "choices", 0, "message", "reasoning_content").(string)
	if count := at(answer, "usage", "completion_tokens_details", "reasoning_tokens"); n.N == nil || reasoning == "" || count == 0.0 {
		t.Error(answer)
	}
	answer = s.chat(t, "plain", "Hi", `"temperature": 0, "max_tokens": 300, "response_format": {"type": "json_object"}`)
	var object map[string]any
	if err := json.Unmarshal([]byte(content(answer)), &object); err != nil && at(answer, "choices", 0, "finish_reason") != "length" {
		t.Error(err, answer)
	}
	if !strings.HasPrefix(content(answer), "{") {
		t.Error(answer)
	}
}

// With continuous_usage_stats each chunk has the usage so far, and the last one that of the whole answer.
func TestEachChunkHasItsUsage(t *testing.T) {
	s := serve(t)
	for path, request := range map[string]string{
		"/v1/chat/completions": body("plain", "Once upon a time", `"max_tokens": 40, "n": 2, "temperature": 0`),
		"/v1/completions":      `{"model": "plain", "prompt": ["Once upon a time", "One day"], "n": 2, "max_tokens": 40, "temperature": 0}`,
	} {
		want := s.ask(t, path, request)["usage"]
		events := s.events(t, path, strings.TrimSuffix(request, "}")+`, "stream_options": {"include_usage": true, "continuous_usage_stats": true}}`)
		before := 0.0
		for i, event := range events {
			tokens, _ := at(event, "usage", "completion_tokens").(float64)
			if prompt, _ := at(event, "usage", "prompt_tokens").(float64); tokens < before || tokens < 1 || prompt < 3 {
				t.Error(path, event)
			}
			if last := i == len(events)-1; last && at(event, "usage", "completion_tokens") != at(want, "completion_tokens") || last && at(event, "usage", "prompt_tokens") != at(want, "prompt_tokens") {
				t.Error(path, event, want)
			}
			before = tokens
		}
		if len(events) < 3 {
			t.Error(path, events)
		}
		for _, event := range s.events(t, path, strings.TrimSuffix(request, "}")+`, "stream_options": {"continuous_usage_stats": true}}`) {
			if event["usage"] != nil {
				t.Error(path, event)
			}
		}
	}
}
