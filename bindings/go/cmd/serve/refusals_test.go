package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// refused are requests that must be rejected, with the status, the field and the code.
var refused = []struct {
	body        string
	status      int
	param, code any
}{
	{``, 400, nil, nil},
	{`{"model": "plain", "messages": [{"role": "us`, 400, nil, nil},
	{`[]`, 400, nil, nil},
	{`{"model": "plain"}`, 400, "messages", nil},
	{`{"messages": [{"role": "user", "content": "x"}]}`, 400, "model", nil},
	{`{"model": 1}`, 400, "model", nil},
	{`{"model": "plain", "messages": {}}`, 400, "messages", nil},
	{`{"model": "plain", "messages": [1]}`, 400, "messages", nil},
	{`{"model": "plain", "messages": [{"role": "king", "content": "x"}]}`, 400, "messages[0].role", nil},
	{`{"model": "plain", "messages": [{"role": "user"}]}`, 400, "messages[0].content", nil},
	{`{"model": "plain", "messages": [{"role": "user", "content": 5}]}`, 400, "messages[0].content", nil},
	{`{"model": "plain", "messages": [{"role": "tool", "content": "x"}]}`, 400, "messages[0].tool_call_id", nil},
	{`{"model": "plain", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "data:"}}]}]}`,
		400, "messages[0].content[1]", nil},
	{body("other", "x", ``), 404, "model", "model_not_found"},
	{body("plain", "x", `"colour": "red"`), 400, "colour", nil},
	{body("plain", "x", `"Max_Tokens": 5`), 400, "Max_Tokens", nil},
	{body("plain", "x", `"stream_options": {"include_use": true}`), 400, "stream_options.include_use", nil},
	{`{"model": "plain", "messages": [{"role": "user", "content": [{"type": "text", "Text": "x"}]}]}`, 400, "messages[0].content[0].Text", nil},
	{`{"model": "plain", "messages": [{"role": "user", "content": []}]}`, 400, "messages[0].content", nil},
	{body("plain", "x", `"tools": [`+goTool+`, `+goTool+`]`), 400, "tools[1]", nil},
	{body("plain", "x", `"temperature": 3`), 400, "temperature", nil},
	{body("plain", "x", `"temperature": "hot"`), 400, "temperature", nil},
	{body("plain", "x", `"top_p": -1`), 400, "top_p", nil},
	{body("plain", "x", `"max_tokens": 0`), 400, "max_tokens", nil},
	{body("plain", "x", `"n": 0`), 400, "n", nil},
	{body("plain", "x", `"n": 1000000`), 400, "n", nil},
	{body("plain", "x", `"stop": ["a", ""]`), 400, "stop", nil},
	{body("plain", "x", `"logit_bias": {"512": 1}`), 400, "logit_bias", nil},
	{body("plain", "x", `"logit_bias": {"5": 101}`), 400, "logit_bias", nil},
	{body("plain", "x", `"top_logprobs": 3`), 400, "top_logprobs", nil},
	{body("plain", "x", `"response_format": {"type": "yaml"}`), 400, "response_format.type", nil},
	{body("plain", "x", `"response_format": {"type": "json_schema"}`), 400, "response_format.json_schema", nil},
	{body("plain", "x", `"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": {"type": "colour"}}}`), 400, "response_format", nil},
	{body("plain", "x", `"tools": [{"type": "hammer"}]`), 400, "tools[0]", nil},
	{body("plain", "x", `"tool_choice": "required"`), 400, "tool_choice", nil},
	{body("thinking", "x", `"tools": [`+goTool+`], "tool_choice": {"type": "function", "function": {"name": "come"}}`), 400, "tool_choice", nil},
	{body("plain", "x", `"reasoning_effort": "vast"`), 400, "reasoning_effort", nil},
	{body("plain", "x", `"modalities": ["audio"]`), 400, "modalities", nil},
	{body("plain", strings.Repeat("word ", 600), ``), 400, "messages", "context_length_exceeded"},
	{body("plain", "x", ``) + "{}", 400, nil, nil},
	{strings.Repeat("[", 100000), 400, nil, nil},
	{body("plain", "x", `"metadata": `+strings.Repeat(`{"a":`, 200)+"1"+strings.Repeat("}", 200)), 400, nil, nil},
	{`{"model": "` + strings.Repeat("x", 1<<20) + `"}`, 413, nil, nil},
}

func TestBadRequestsAreRefused(t *testing.T) {
	s := serve(t, "-body", "500000")
	for _, request := range refused {
		status, answer, _ := s.post(t, "/v1/chat/completions", request.body)
		fault := at(answer, "error")
		if status != request.status || at(fault, "param") != request.param || at(fault, "code") != request.code ||
			at(fault, "type") != "invalid_request_error" || at(fault, "message") == "" {
			t.Errorf("%.200s: %d %v", request.body, status, answer)
		}
	}
	for path, allowed := range map[string]string{"/v1/nothing": "", "/": "GET", "/v1/models": "GET", "/v1/responses/x": "GET, DELETE"} {
		want := http.StatusNotFound
		if allowed != "" {
			want = http.StatusMethodNotAllowed
		}
		status, answer, header := s.post(t, path, "{}")
		if status != want || at(answer, "error", "type") != "invalid_request_error" || strings.Join(header.Values("Allow"), ", ") != allowed {
			t.Error(path, status, answer, header)
		}
	}
	// All slots are free again, and a new request is answered.
	if busy := testutil.ToFloat64(s.metrics.busy.WithLabelValues("plain")); busy != 0 {
		t.Error(busy)
	}
	if text := content(s.chat(t, "plain", "Once upon a time", `"temperature": 0, "max_tokens": 20`)); !strings.HasPrefix(story, text) || text == "" {
		t.Errorf("%q", text)
	}
}

// Long values are truncated in errors, and errors contain no type names of this program.
func TestErrorsAreShort(t *testing.T) {
	s := serve(t)
	long := `"` + strings.Repeat("xé", 5000) + `"`
	const chat = `"messages": [{"role": "user", "content": "x"}], "max_tokens": 5`
	for _, c := range []struct{ path, body string }{
		{"/v1/chat/completions", `"model": ` + long + `, "messages": []`},
		{"/v1/chat/completions", `"messages": [{"role": ` + long + `, "content": "x"}]`},
		{"/v1/chat/completions", `"messages": [{"role": "user", "content": [{"type": ` + long + `}]}]`},
		{"/v1/chat/completions", chat + `, "reasoning_effort": ` + long},
		{"/v1/chat/completions", chat + `, ` + long + `: 1`},
		{"/v1/chat/completions", chat + `, "logit_bias": {` + long + `: 1}`},
		{"/v1/chat/completions", chat + `, "tools": [{"type": "function", "function": {"name": ` + long + `}}]`},
		{"/v1/chat/completions", chat + `, "tool_choice": ` + long},
		{"/v1/chat/completions", chat + `, "response_format": {"type": ` + long + `}`},
		{"/v1/chat/completions", chat + `, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {"type": ` + long + `}}}`},
		{"/v1/chat/completions", `"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": ` + long + `}]}]`},
		{"/v1/chat/completions", `"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"format": ` + long + `}}]}]`},
		{"/v1/responses", `"input": "x", "previous_response_id": ` + long},
		{"/v1/responses", `"input": [{"type": ` + long + `}]`},
		{"/v1/responses", `"input": [{"role": "user", "content": [{"type": ` + long + `}]}]`},
		{"/v1/responses", `"input": [{"type": "item_reference", "id": ` + long + `}]`},
		{"/v1/responses", `"input": [{"type": "function_call_output", "call_id": ` + long + `, "output": "x"}]`},
		{"/v1/responses", `"input": "x", "include": [` + long + `]`},
		{"/v1/messages", `"max_tokens": 5, "messages": [{"role": ` + long + `, "content": "x"}]`},
		{"/v1/messages", `"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": ` + long + `}]}]`},
		{"/v1/messages", `"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": ` + long + `}]}]`},
		{"/v1/messages", chat + `, "thread": {"type": "continue", "previous_message_id": ` + long + `}`},
		{"/v1/messages", chat + `, "thread": {"type": ` + long + `}`},
		{"/v1/embeddings", `"input": "x", "pooling": ` + long},
		{"/v1/embeddings", `"input": [` + strings.Repeat(`"x",`, maxInputs) + `"x"], "pooling": "mean"`},
		{"/rerank", `"query": "x", "documents": [` + strings.Repeat(`"x",`, maxInputs) + `"x"]`},
		{"/v1/chat/completions", chat + `, "stop": 5`}, {"/v1/chat/completions", chat + `, "stop": {}`}, {"/v1/chat/completions", `"messages": 5`},
		{"/v1/chat/completions", `"messages": [5]`}, {"/v1/chat/completions", chat + `, "tools": [5]`}, {"/v1/chat/completions", chat + `, "stream_options": []`},
		{"/v1/responses", `"input": 5`}, {"/v1/responses", `"input": [5]`}, {"/v1/responses", `"input": [{"role": "user", "content": 5}]`},
		{"/v1/messages", chat + `, "system": 5`}, {"/v1/messages", `"max_tokens": 5, "messages": [{"role": "user", "content": [5]}]`},
		{"/v1/messages", chat + `, "tools": [5]`}, {"/v1/completions", `"prompt": {}`}, {"/rerank", `"query": [], "documents": ["x"]`},
		{"/v1/chat/completions", ``}, {"/v1/responses", ``}, {"/v1/messages", ``},
	} {
		request := `{"model": "plain", ` + c.body + `}`
		if strings.HasPrefix(c.body, `"model"`) {
			request = `{` + c.body + `}`
		} else if c.body == "" {
			request = `[1]`
		}
		status, answer, _ := s.post(t, c.path, request)
		text := string(mustJSON(t, answer))
		if status != http.StatusBadRequest && status != http.StatusNotFound || len(text) > 4000 || strings.Contains(text, "main.") || strings.Contains(text, "Go ") {
			t.Errorf("%s %.300s: %d %d %.600s", c.path, request, status, len(text), text)
		}
	}
}

func TestACutBodyIsRefused(t *testing.T) {
	s := serve(t)
	for _, request := range []string{
		"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"model\": ",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"mod",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n{\"mod\r\n0\r\n\r\n",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n{",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\n{",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("a", 50000) + "\r\n{\r\n0\r\n\r\n",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{",
	} {
		connection, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		must(t, err)
		_, err = io.WriteString(connection, request)
		for _, err := range []error{err, connection.(*net.TCPConn).CloseWrite()} {
			// The service may have answered and closed the connection already.
			isClosed := errors.Is(err, syscall.ENOTCONN) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
			if err != nil && !isClosed {
				t.Error(err)
			}
		}
		response, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err == nil && response.StatusCode != http.StatusBadRequest {
			t.Error(response)
		}
		connection.Close()
	}
	s.chat(t, "plain", "Hi", `"max_tokens": 1`)
}

func TestWhatIsNotSupportedIsNamed(t *testing.T) {
	s := serve(t)
	const text = `"messages": [{"role": "user", "content": "x"}], "max_tokens": 5, `
	for _, c := range []struct {
		path, body, word string
		status           int
	}{
		{"/v1/completions", `"prompt": "x", "suffix": "y"`, "suffix", 400},
		{"/v1/completions", `"prompt": "x", "best_of": 3`, "best_of", 400},
		{"/v1/completions", `"prompt": "x", "logprobs": 21`, "logprobs", 400},
		{"/v1/completions", `"prompt": "x", "n": 1000`, "n", 400},
		{"/v1/completions", `"prompt": "x", "max_tokens": 0`, "max_tokens", 400},
		{"/v1/completions", `"prompt": []`, "prompts", 400},
		{"/v1/completions", `"prompt": [1, "x"]`, "tokens", 400},
		{"/v1/completions", `"prompt": [99999]`, "99999", 400},
		{"/v1/completions", `"prompt": "x", "wrong": 1`, "wrong", 400},
		{"/v1/completions", `"prompt": "` + strings.Repeat("x ", 2000) + `"`, "512", 400},
		{"/v1/embeddings", `"input": "x"`, "pooling", 400},
		{"/v1/embeddings", `"input": []`, "input", 400},
		{"/v1/embeddings", `"input": "x", "pooling": "max"`, "pooling", 400},
		{"/v1/embeddings", `"input": "x", "pooling": "mean", "dimensions": 1000`, "dimensions", 400},
		{"/v1/embeddings", `"input": "x", "encoding_format": "hex"`, "encoding_format", 400},
		{"/rerank", `"query": "x", "documents": ["y"]`, "pooling", 400},
		{"/rerank", `"documents": ["y"]`, "query", 400},
		{"/rerank", `"query": "x", "documents": [1]`, "document", 400},
		{"/rerank", `"query": "x", "documents": ["y"], "top_n": 0`, "top_n", 400},
		{"/v1/messages", `"messages": [{"role": "user", "content": "x"}]`, "max_tokens", 400},
		{"/v1/messages", `"max_tokens": 5, "messages": []`, "messages", 400},
		{"/v1/messages", `"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]`, "source", 400},
		{"/v1/messages", `"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "q"}]}]`, "tool_use_id", 400},
		{"/v1/messages", text + `"tools": [{"type": "hammer", "name": "go"}]`, "hammer", 400},
		{"/v1/messages", text + `"tools": [{"type": "web_search_20250305", "name": "web_search"}], "tool_choice": {"type": "any"}`, "tool_choice", 400},
		{"/v1/messages", `"max_tokens": 5, "messages": [{"role": "user", "content": []}]`, "content", 400},
		{"/v1/messages", text + `"tool_choice": {"type": "some"}`, "some", 400},
		{"/v1/messages", text + `"thinking": {"type": "enabled", "budget_tokens": 5}`, "budget_tokens", 400},
		{"/v1/messages", text + `"mcp_servers": [{}]`, "mcp_servers", 400},
		{"/v1/messages", text + `"container": "x"`, "container", 400},
		{"/v1/messages", text + `"wrong": "x"`, "wrong", 400},
		{"/v1/messages/count_tokens", `"messages": [{"role": "user", "content": [{"type": "document"}]}]`, "source", 400},
		{"/v1/messages", `"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "base64",
			"media_type": "application/pdf", "data": "JVBERi0="}}]}]`, "application/pdf", 400},
		{"/v1/messages", text + `"Model": "thinking"`, "\"model\"", 400},
		{"/v1/responses", `"input": "x", "background": true`, "background", 400},
		{"/v1/responses", `"input": "x", "conversation": "c"`, "conversation", 400},
		{"/v1/responses", `"input": "x", "tools": [{"type": "hammer"}]`, "hammer", 400},
		{"/v1/responses", `"input": "x", "tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}`, "tool_choice", 400},
		{"/v1/responses", `"input": "x", "tools": [{"type": "web_search"}], "tool_choice": "required"`, "tool_choice", 400},
		{"/v1/responses", `"input": "x", "tools": [{"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "bnf", "definition": "x"}}]`, "bnf", 400},
		{"/v1/responses", `"input": "x", "tools": [{"type": "namespace", "name": "n", "tools": [{"type": "namespace", "name": "m", "tools": []}]}]`, "tools[0].tools[0]", 400},
		{"/v1/responses", `"input": "x", "Stream": true`, "\"stream\"", 400},
		{"/v1/responses", `"input": [{"role": "user", "Content": "x"}]`, "input[0].Content", 400},
		{"/v1/responses", `"input": [{"role": "user", "content": []}]`, "content", 400},
		{"/v1/responses", `"input": "x", "text": {"formt": {}}`, "text.formt", 400},
		{"/v1/responses", `"input": "x", "tool_choice": "required"`, "tool", 400},
		{"/v1/responses", `"input": "x", "truncation": "middle"`, "truncation", 400},
		{"/v1/responses", `"input": "x", "include": ["everything"]`, "everything", 400},
		{"/v1/responses", `"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "u"}]}]`, "input_image", 400},
		{"/v1/responses", `"input": [{"type": "item_reference", "id": "x"}]`, "reference", 400},
		{"/v1/responses", `"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]`, "call_id", 400},
		{"/v1/responses", `"input": "x", "text": {"format": {"type": "xml"}}`, "text.format", 400},
		{"/v1/responses", `"input": "x", "reasoning": {"effort": "much"}`, "much", 400},
		{"/v1/responses", `"instructions": "x", "input": []`, "", 200},
		{"/v1/responses", `"store": true`, "input", 400},
	} {
		status, answer, _ := s.post(t, c.path, `{"model": "plain", `+c.body+`}`)
		said, _ := at(answer, "error", "message").(string)
		kind := at(answer, "error", "type")
		if status != c.status || !strings.Contains(said, c.word) || status != 200 && kind != "invalid_request_error" ||
			(answer["type"] == "error") != (status != 200 && strings.HasPrefix(c.path, "/v1/messages")) {
			t.Errorf("%s %s: %d %v", c.path, c.body, status, answer)
		}
	}
	adapted := serve(t, "-lora", "poet=plain,"+data+"story-adapter.gguf")
	for path, fields := range map[string]string{"/v1/embeddings": `"input": "x", "pooling": "mean"`, "/rerank": `"query": "x", "documents": ["y"]`} {
		status, answer, _ := adapted.post(t, path, `{"model": "poet", `+fields+`}`)
		if said, _ := at(answer, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(said, "adapter") {
			t.Error(path, answer)
		}
	}
	for path, body := range map[string]string{
		"/v1/completions": `"prompt": "x"`, "/v1/embeddings": `"input": "x"`, "/rerank": `"query": "x", "documents": ["y"]`,
		"/v1/messages": text + `"stream": true`, "/v1/messages/count_tokens": `"messages": [{"role": "user", "content": "x"}]`, "/v1/responses": `"input": "x"`,
	} {
		status, answer, _ := s.post(t, path, `{"model": "nobody", `+body+`}`)
		want := "invalid_request_error"
		if strings.HasPrefix(path, "/v1/messages") {
			want = "not_found_error"
		}
		if status != http.StatusNotFound || at(answer, "error", "type") != want {
			t.Error(path, status, answer)
		}
	}
}

// mutants returns copies of a value, each with one inner value replaced or removed.
func mutants(value any, wrong []any) (all []any) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			with := func(inner any) map[string]any {
				mutant := maps.Clone(value)
				mutant[name] = inner
				return mutant
			}
			for _, mutant := range append(mutants(inner, wrong), wrong...) {
				all = append(all, with(mutant))
			}
			without := with(nil)
			delete(without, name)
			all = append(all, without)
		}
	case []any:
		for i, inner := range value {
			for _, mutant := range append(mutants(inner, wrong), wrong...) {
				list := slices.Clone(value)
				list[i] = mutant
				all = append(all, list)
			}
		}
	}
	return all
}

// Whatever value a field of a request has, the request is answered or rejected, and nothing else happens.
func TestWrongValuesAreRefused(t *testing.T) {
	s := serve(t, "-m", "pooled="+pooledModel(t, 1))
	wrong := []any{nil, true, -1, 1e300, 0.5, "", "x\x00", []any{}, map[string]any{}, []any{nil}, map[string]any{"type": "x"}, [][]int{{1}, {}}, []any{1, "x"}}
	answered, n := 0, 0
	for path, body := range map[string]string{
		"/v1/completions": `{"model": "plain", "prompt": ["Once", "x"], "max_tokens": 2, "n": 2, "stop": ["q"], "logprobs": 1, "seed": 1,
			"logit_bias": {"5": 1}, "stream_options": {"include_usage": true}, "stream": true}`,
		"/v1/embeddings": `{"model": "pooled", "input": ["x", "y"], "dimensions": 3, "encoding_format": "base64", "pooling": "mean"}`,
		"/rerank":        `{"model": "pooled", "query": "x", "documents": ["y", {"text": "z"}], "top_n": 1, "return_documents": true}`,
		"/v1/messages": `{"model": "thinking", "max_tokens": 8, "system": [{"type": "text", "text": "s"}], "messages": [{"role": "user", "content": "x"},
			{"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": "b"}, {"type": "text", "text": "c"},
			{"type": "tool_use", "id": "i", "name": "go", "input": {"by": "car"}}]}, {"role": "user", "content": [{"type": "tool_result",
			"tool_use_id": "i", "content": [{"type": "text", "text": "d"}], "is_error": true}]}], "tools": [` + anthropicTool + `],
			"tool_choice": {"type": "tool", "name": "go"}, "stop_sequences": ["q", "r"], "thinking": {"type": "enabled", "budget_tokens": 2},
			"output_config": {"effort": "low"}, "temperature": 0, "stream": true}`,
		"/v1/messages/count_tokens": `{"model": "thinking", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}`,
		"/v1/responses": `{"model": "thinking", "max_output_tokens": 8, "instructions": "s", "input": [{"role": "user", "content": [{"type": "input_text",
			"text": "x"}]}, {"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]}, {"type": "function_call", "call_id": "i", "name": "go",
			"arguments": "{}"}, {"type": "function_call_output", "call_id": "i", "output": "d"}], "tools": [{"type": "function", "name": "go",
			"parameters": {"type": "object"}}], "tool_choice": {"type": "function", "name": "go"}, "reasoning": {"effort": "low"}, "metadata": {"a": "b"},
			"text": {"format": {"type": "text"}}, "include": ["message.output_text.logprobs"], "top_logprobs": 1, "store": true, "stream": true}`,
	} {
		var whole map[string]any
		must(t, json.Unmarshal([]byte(body), &whole))
		for _, mutant := range append(mutants(whole, wrong), whole) {
			text, err := json.Marshal(mutant)
			must(t, err)
			response, err := http.Post(s.url+path, "application/json", bytes.NewReader(text))
			must(t, err)
			answer, err := io.ReadAll(response.Body)
			must(t, err)
			response.Body.Close()
			n++
			switch status := response.StatusCode; {
			case status == http.StatusOK:
				answered++
				if bytes.Contains(answer, []byte("an internal error")) {
					t.Errorf("%s %s: %s", path, text, answer)
				}
			case status != http.StatusBadRequest && status != http.StatusNotFound || !json.Valid(answer):
				t.Errorf("%s %s: %d %s", path, text, status, answer)
			}
		}
	}
	if answered < 100 || n-answered < 500 {
		t.Error(answered, n)
	}
}
