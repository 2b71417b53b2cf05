package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"realizar.dev/go"
)

// finished returns the response at the end of a stream, and checks the events against it.
func finished(t *testing.T, events []map[string]any) map[string]any {
	t.Helper()
	last := events[len(events)-1]["response"].(map[string]any)
	texts := map[int]string{}
	for i, event := range events {
		if event["sequence_number"] != float64(i) {
			t.Error(i, event)
		}
		if delta, ok := event["delta"].(string); ok {
			texts[int(event["output_index"].(float64))] += delta
		}
		if event["type"] == "response.output_item.done" {
			index := int(event["output_index"].(float64))
			if !reflect.DeepEqual(event["item"], at(last, "output", index)) {
				t.Error(event, last)
			}
			text := at(event, "item", "arguments")
			if text == nil {
				text = at(event, "item", "content", 0, "text")
			}
			if text != texts[index] {
				t.Errorf("%q %v", texts[index], event)
			}
		}
	}
	if events[0]["type"] != "response.created" || events[1]["type"] != "response.in_progress" || len(texts) != len(last["output"].([]any)) {
		t.Error(events)
	}
	return last
}

func TestAStreamedResponseIsTheSame(t *testing.T) {
	s := serve(t)
	const tool = `{"type": "function", "name": "go", "strict": true, "parameters": {"type": "object", "properties": {"by": {"enum": ["car", "bus"]}},
		"required": ["by"], "additionalProperties": false}}`
	for fields, want := range map[string]string{
		`"model": "plain", "max_output_tokens": 20`:                                                                                                                      "response.incomplete",
		`"model": "plain", "max_output_tokens": 20, "top_logprobs": 2, "include": ["message.output_text.logprobs"]`:                                                      "response.incomplete",
		`"model": "thinking", "max_output_tokens": 20, "reasoning": {"effort": "low", "summary": "auto"}`:                                                                "response.incomplete",
		`"model": "thinking", "reasoning": {"effort": "none"}, "text": {"format": {"type": "json_schema", "name": "n", "strict": true, "schema": {"enum": ["a", "b"]}}}`: "response.completed",
		`"model": "thinking", "reasoning": {"effort": "none"}, "parallel_tool_calls": false, "tool_choice": "required", "tools": [` + tool + `]`:                         "response.completed",
	} {
		request := `{"input": "Hi", "temperature": 0, "metadata": {"a": "b"}, ` + fields + `}`
		whole := s.ask(t, "/v1/responses", request)
		events := s.events(t, "/v1/responses", request)
		stream := finished(t, events)
		counted := s.ask(t, "/v1/responses/input_tokens", request)["input_tokens"]
		if used := at(whole, "usage", "input_tokens"); counted != used {
			t.Error(request, counted, used)
		}
		if events[len(events)-1]["type"] != want || at(whole, "metadata", "a") != "b" {
			t.Error(request, events[len(events)-1])
		}
		if whole, stream := plainOf(t, whole), plainOf(t, stream); whole != stream {
			t.Errorf("%s\n%s\n%s", request, whole, stream)
		}
	}
}

func TestAStreamThatFailsTellsIt(t *testing.T) {
	piece := event{Part: realizar.Part{Kind: realizar.PartContent, Text: "a"}}
	web := httptest.NewRecorder()
	response := &responseReply{request: &responseRequest{Model: "m"}, out: newStream(web), id: "resp_x", status: "in_progress"}
	if err := response.fail(context.DeadlineExceeded); err != context.DeadlineExceeded || web.Body.Len() > 0 {
		t.Error(err, web.Body) // the error has its own status, because nothing has been sent
	}
	must(t, response.add(&piece))
	var told *toldError
	if err := response.fail(context.DeadlineExceeded); !errors.As(err, &told) || told.status != http.StatusGatewayTimeout {
		t.Error(err)
	}
	last := web.Body.String()[strings.LastIndex(web.Body.String(), "event: "):]
	if !strings.HasPrefix(last, "event: response.failed\n") || !strings.Contains(last, `"status":"failed"`) || !strings.Contains(last, `"code":"server_error"`) {
		t.Error(last)
	}
	web = httptest.NewRecorder()
	out := newStream(web)
	message := &messageReply{message: map[string]any{"content": []any{}}, send: func(name string, value map[string]any) error { return out.send(name, value) }}
	must(t, message.add(nil, &piece))
	if err := out.fail(anthropic, context.DeadlineExceeded); !errors.As(err, &told) {
		t.Error(err)
	}
	if last := web.Body.String(); !strings.Contains(last, "event: error\n") || !strings.Contains(last, `"type":"timeout_error"`) {
		t.Error(last)
	}
}

func TestResponsesGoOn(t *testing.T) {
	s := serve(t)
	first := s.ask(t, "/v1/responses", `{"model": "plain", "input": "Once upon a time", "temperature": 0, "max_output_tokens": 12, "instructions": "Say"}`)
	text := at(first, "output", 0, "content", 0, "text").(string)
	id := first["id"].(string)
	second := s.ask(t, "/v1/responses", fmt.Sprintf(
		`{"model": "plain", "input": [{"role": "user", "content": [{"type": "input_text", "text": "And"}]}], "temperature": 0, "max_output_tokens": 9, "previous_response_id": %q}`, id))
	// The answer equals the answer to all messages without the instructions.
	input, err := json.Marshal([]any{
		map[string]any{"role": "user", "content": once}, map[string]any{"type": "message", "role": "assistant", "id": "x", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}}}, map[string]any{"role": "user", "content": "And"},
	})
	must(t, err)
	whole := s.ask(t, "/v1/responses", fmt.Sprintf(`{"model": "plain", "input": %s, "temperature": 0, "max_output_tokens": 9, "store": false}`, input))
	if at(second, "output", 0, "content", 0, "text") != at(whole, "output", 0, "content", 0, "text") || at(second, "usage", "input_tokens") != at(whole, "usage", "input_tokens") {
		t.Error(second, whole)
	}
	count := s.ask(t, "/v1/responses/input_tokens", fmt.Sprintf(`{"model": "plain", "input": %s}`, input))
	if count["input_tokens"] != at(whole, "usage", "input_tokens") || count["object"] != "response.input_tokens" {
		t.Error(count, whole)
	}
	for _, c := range []struct {
		method string
		id     any
		want   int
	}{
		{http.MethodGet, id, http.StatusOK}, {http.MethodGet, whole["id"], http.StatusNotFound}, // which is not stored
		{http.MethodDelete, id, http.StatusOK}, {http.MethodDelete, id, http.StatusNotFound}, {http.MethodGet, id, http.StatusNotFound},
		{http.MethodGet, second["id"], http.StatusOK},
	} {
		request, err := http.NewRequest(c.method, fmt.Sprint(s.url, "/v1/responses/", c.id), nil)
		must(t, err)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		var answer map[string]any
		must(t, json.NewDecoder(response.Body).Decode(&answer))
		response.Body.Close()
		if response.StatusCode != c.want || c.want == http.StatusOK && answer["id"] != c.id {
			t.Error(c, answer)
		}
	}
	status, answer, _ := s.post(t, "/v1/responses", fmt.Sprintf(`{"model": "plain", "input": "x", "previous_response_id": %q}`, id))
	if status != http.StatusBadRequest || at(answer, "error", "code") != "previous_response_not_found" {
		t.Error(status, answer)
	}
	// Calls and their results are messages of a chat.
	called := `[{"role": "user", "content": "Go"}, {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
		{"type": "function_call", "call_id": "c", "name": "go", "arguments": "{\"by\": \"car\"}"},
		{"type": "function_call", "call_id": "d", "name": "go", "arguments": "{\"by\": \"bus\"}"},
		{"type": "function_call_output", "call_id": "c", "output": "done"}, {"type": "function_call_output", "call_id": "d", "output": [{"type": "input_text", "text": "ok"}]}]`
	var all items
	must(t, json.Unmarshal([]byte(called), &all))
	messages, err := all.messages(nil, &toolbox{})
	must(t, err)
	want := []message{{Role: "user", Content: "Go"}, {Role: "assistant", ReasoningContent: "hm", ToolCalls: []toolCall{
		{"c", "function", function{"go", `{"by": "car"}`}}, {"d", "function", function{"go", `{"by": "bus"}`}}}},
		{Role: "tool", Content: "done", Name: "go", ToolCallID: "c"}, {Role: "tool", Content: "ok", Name: "go", ToolCallID: "d"}}
	if !reflect.DeepEqual(messages, want) {
		t.Errorf("%+v", messages)
	}
}

func TestWhatIsKeptHasABound(t *testing.T) {
	var kept keeper[*storedResponse]
	put := func(name string, size int) {
		kept.put(name, &storedResponse{messages: []message{{Content: strings.Repeat("x", size)}}})
	}
	for i := range 20 {
		put(fmt.Sprint(i), maxKeptBytes/8)
		if _, found := kept.get("0"); !found { // it is requested again and again
			t.Error(i)
		}
	}
	_, old := kept.get("5")
	_, young := kept.get("19")
	if kept.bytes > maxKeptBytes || kept.order.Len() != 7 || len(kept.all) != 7 || old || !young {
		t.Error(kept.bytes, kept.order.Len())
	}
	if put("large", maxKeptBytes); kept.bytes != 0 || kept.order.Len() != 0 || len(kept.all) != 0 {
		t.Error(kept.bytes)
	}
}

// Responses may be read, continued and deleted concurrently; deleted responses leave no items.
func TestStoredResponsesAreUsedAtOnce(t *testing.T) {
	s := serve(t)
	var group sync.WaitGroup
	call := func(method, path, body string) (int, map[string]any) {
		request, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
		must(t, err)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		defer response.Body.Close()
		var answer map[string]any
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			t.Error(err)
		}
		return response.StatusCode, answer
	}
	ask := func(fields string) (int, map[string]any) {
		return call(http.MethodPost, "/v1/responses", `{"model": "plain", "max_output_tokens": 2, `+fields+`}`)
	}
	for round := range 4 {
		_, first := ask(`"input": "Once"`)
		id, item := first["id"].(string), at(first, "output", 0, "id")
		deleted := make(chan bool, 2)
		for i := range 12 {
			group.Add(1)
			go func() {
				defer group.Done()
				var status int
				var answer map[string]any
				allowed := http.StatusBadRequest
				switch i % 4 {
				case 0:
					status, answer = ask(fmt.Sprintf(`"input": "Then", "previous_response_id": %q`, id))
				case 1:
					status, answer = ask(fmt.Sprintf(`"input": [{"type": "item_reference", "id": %q}, {"role": "user", "content": "x"}]`, item))
				case 2:
					allowed = http.StatusNotFound
					status, answer = call(http.MethodGet, "/v1/responses/"+id, "")
				default:
					if allowed = http.StatusNotFound; i < 8 {
						status, answer = call(http.MethodDelete, "/v1/responses/"+id, "")
						deleted <- status == http.StatusOK
					} else {
						status, answer = call(http.MethodDelete, "/v1/responses/é%00%2F"+id, "")
					}
				}
				if status != http.StatusOK && status != allowed {
					t.Error(round, i, status, answer)
				}
			}()
		}
		group.Wait()
		if one, two := <-deleted, <-deleted; one == two {
			t.Error("deleted so often: ", one, two)
		}
		if _, found := s.items.get(fmt.Sprint(item)); found {
			t.Error("an item of a response that is deleted")
		}
	}
	items := 0
	for e := s.stored.order.Front(); e != nil; e = e.Next() {
		items += len(e.Value.(*kept[*storedResponse]).value.items)
	}
	if n := s.items.order.Len(); n != items || n == 0 {
		t.Error(n, items)
	}
	// Calls with the same id: the results belong to the last one, and nothing fails.
	status, answer := ask(`"input": [{"type": "function_call", "call_id": "é😀", "name": "f", "arguments": "{}"},
		{"type": "function_call", "call_id": "é😀", "name": "g", "arguments": "{}"}, {"type": "function_call_output", "call_id": "é😀", "output": "x"}]`)
	if status != http.StatusOK {
		t.Error(status, answer)
	}
}
