package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"realizar.dev/go"
)

const (
	data = "../../../../tests/data/"
	// The greedy continuation of the tiny model as an independent float64 implementation computes it, and the same for
	// weights that have the adapter merged in.
	story = ", there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red " +
		"ball. She wanted to play with it, but it was too high.\nLily's mom said, \"Lily, let's go to the park.\""
	adaptedStory = ", there was a little girl named Lily. She loved to draw animals with her family. One day, she went to the park with her mommy."
	calls        = "{% for c in m.tool_calls or [] %}<call>{{ '{\"name\": \"' ~ c.function.name ~ '\", \"arguments\": ' }}" +
		"{{ c.function.arguments | tojson }}{{ '}' }}</call>{% endfor %}"
	// The texts of the messages behind each other.
	plainTemplate = "{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}{{ m.content or '' }}" +
		calls + "{% endfor %}"
	// A template with reasoning.
	thinkingTemplate = "{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}<{{ m.role }}>" +
		"{% if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}" +
		calls + "{% endfor %}{% if add_generation_prompt %}<assistant>{% if enable_thinking %}<think>{% endif %}{% endif %}"
	goTool = `{"type": "function", "function": {"name": "go", "description": "Goes", "strict": true, "parameters": {"type": "object",
		"properties": {"by": {"enum": ["car", "bus"]}}, "required": ["by"], "additionalProperties": false}}}`
)

// chatModel is the tiny model with a chat template.
func chatModel(t *testing.T, template string) string {
	t.Helper()
	file, err := os.ReadFile(data + "stories260K-f32.gguf")
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// service is a server that tests talk to.
type service struct {
	*server
	url string
}

// serve starts a server with the plain model "plain", the reasoning one "thinking", and flags.
func serve(t *testing.T, flags ...string) *service {
	t.Helper()
	o, err := parse(append([]string{"-threads", "2", "-context", "512", "-m", "plain=" + chatModel(t, plainTemplate),
		"-m", "thinking=" + chatModel(t, thinkingTemplate)}, flags...))
	must(t, err)
	s, err := newServer(o)
	must(t, err)
	s.state.Store(ready)
	web := httptest.NewServer(s.handler())
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		s.models.close()
	})
	return &service{s, web.URL}
}

// leased is a model until the end of the test.
func (s *service) leased(t *testing.T, name string) *lease {
	t.Helper()
	l, err := s.models.lease(t.Context(), name)
	must(t, err)
	t.Cleanup(l.release)
	return l
}

// post sends a body and gives the answer.
func (s *service) post(t *testing.T, path, body string) (int, map[string]any, http.Header) {
	t.Helper()
	response, err := http.Post(s.url+path, "application/json", strings.NewReader(body))
	must(t, err)
	defer response.Body.Close()
	var answer map[string]any
	must(t, json.NewDecoder(response.Body).Decode(&answer))
	return response.StatusCode, answer, response.Header
}

// chat asks for a chat that has to succeed; fields are put behind those of the model and the message of a user.
func (s *service) chat(t *testing.T, model, text, fields string) map[string]any {
	t.Helper()
	return s.complete(t, body(model, text, fields))
}

func (s *service) complete(t *testing.T, body string) map[string]any {
	t.Helper()
	status, answer, _ := s.post(t, "/v1/chat/completions", body)
	if status != http.StatusOK {
		t.Fatalf("%d %v", status, answer)
	}
	return answer
}

func body(model, text, fields string) string {
	if fields != "" {
		fields = ", " + fields
	}
	return fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": %q}]%s}`, model, text, fields)
}

// at is what is at a path of maps and lists.
func at(value any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := value.(map[string]any)
			value = m[step]
		case int:
			l, _ := value.([]any)
			if step >= len(l) {
				return nil
			}
			value = l[step]
		}
	}
	return value
}

func content(answer map[string]any) string {
	text, _ := at(answer, "choices", 0, "message", "content").(string)
	return text
}

// joined asks for a stream and puts its pieces together as an answer that is not streamed.
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

// join adds a piece of a choice.
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

// comparable takes out of an answer what differs from one to the next.
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
	// A bias against the likeliest token has another one chosen.
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
		// As clients send a reply back, with fields that say nothing. The template has no place for results that it
		// could lose.
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

// refused are requests that have to be refused, with the status, the field and the code.
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
	{body("plain", "x", `"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "colour"}}}`), 400, nil, nil},
	{body("plain", "x", `"tools": [{"type": "hammer"}]`), 400, "tools[0]", nil},
	{body("plain", "x", `"tool_choice": "required"`), 400, "tool_choice", nil},
	{body("thinking", "x", `"tools": [`+goTool+`], "tool_choice": {"type": "function", "function": {"name": "come"}}`), 400, nil, nil},
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
	for path, allowed := range map[string]string{"/v1/nothing": "", "/": "", "/v1/models": "GET", "/v1/responses/x": "GET, DELETE"} {
		want := http.StatusNotFound
		if allowed != "" {
			want = http.StatusMethodNotAllowed
		}
		status, answer, header := s.post(t, path, "{}")
		if status != want || at(answer, "error", "type") != "invalid_request_error" || strings.Join(header.Values("Allow"), ", ") != allowed {
			t.Error(path, status, answer, header)
		}
	}
	// All slots are free again, and what was asked for last is answered.
	if busy := testutil.ToFloat64(s.metrics.busy.WithLabelValues("plain")); busy != 0 {
		t.Error(busy)
	}
	if text := content(s.chat(t, "plain", "Once upon a time", `"temperature": 0, "max_tokens": 20`)); !strings.HasPrefix(story, text) || text == "" {
		t.Errorf("%q", text)
	}
}

func TestACutBodyIsRefused(t *testing.T) {
	s := serve(t)
	for _, request := range []string{
		"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"model\": ",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"mod",
	} {
		connection, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		must(t, err)
		_, err = io.WriteString(connection, request)
		must(t, err)
		must(t, connection.(*net.TCPConn).CloseWrite())
		response, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err == nil && response.StatusCode != http.StatusBadRequest {
			t.Error(response)
		}
		connection.Close()
	}
	s.chat(t, "plain", "Hi", `"max_tokens": 1`)
}

func TestKeys(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	must(t, os.WriteFile(keys, []byte("# clients\n\nfirst\n second \n"), 0o600))
	s := serve(t, "-keys", keys)
	for _, attempt := range []struct {
		header, value string
		want          int
	}{
		{"Authorization", "Bearer first", 200}, {"Authorization", "Bearer second", 200}, {"X-Api-Key", "second", 200}, {"Authorization", "first", 401},
		{"Authorization", "Bearer third", 401}, {"Authorization", "Bearer ", 401}, {"Authorization", "Bearer # clients", 401}, {"X-Api-Key", "", 401},
	} {
		request, err := http.NewRequest(http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(body("plain", "Hi", `"max_tokens": 1`)))
		must(t, err)
		request.Header.Set(attempt.header, attempt.value)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		response.Body.Close()
		if response.StatusCode != attempt.want {
			t.Errorf("%+v: %d", attempt, response.StatusCode)
		}
	}
	for path, want := range map[string]int{"/v1/models": 401, "/health": 200, "/metrics": 200} {
		response, err := http.Get(s.url + path)
		must(t, err)
		response.Body.Close()
		if response.StatusCode != want {
			t.Error(path, response.StatusCode)
		}
	}
}

func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	s := serve(t)
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 200, "none": 200} {
		request, err := http.NewRequest(http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(body("plain", "Hi", `"max_tokens": 1`)))
		must(t, err)
		request.Header.Set("Sec-Fetch-Site", site)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		response.Body.Close()
		if response.StatusCode != want {
			t.Error(site, response.StatusCode)
		}
	}
}

func TestAFullQueueIsTold(t *testing.T) {
	s := serve(t, "-slots", "1", "-queue", "1")
	l := s.leased(t, "plain")
	leave, err := l.engine.enter(t.Context())
	must(t, err)
	// Who waits and hangs up leaves the queue.
	waiting, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.engine.enter(waiting); err != context.Canceled {
		t.Error(err)
	}
	answered := make(chan string)
	go func() {
		answered <- content(s.chat(t, "plain", "Once upon a time", `"temperature": 0, "max_tokens": 20`))
	}()
	queue := s.metrics.queue.WithLabelValues("plain")
	until(t, "nobody waits", func() bool { return testutil.ToFloat64(queue) == 1 })
	status, answer, header := s.post(t, "/v1/chat/completions", body("plain", "x", ``))
	if status != http.StatusTooManyRequests || header.Get("Retry-After") != "1" || at(answer, "error", "type") != "rate_limit_exceeded" {
		t.Error(status, answer, header)
	}
	leave()
	if text := <-answered; text == "" || !strings.HasPrefix(story, text) {
		t.Errorf("%q", text)
	}
	if n := testutil.ToFloat64(queue); n != 0 {
		t.Error(n)
	}
}

// until waits for something that another goroutine does, which has to come.
func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for n := 0; !reached(); n++ {
		if n == 10000 {
			t.Fatal(what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestWhoHangsUpFreesTheSlot(t *testing.T) {
	s := serve(t, "-slots", "1", "-queue", "0", "-context", "100000")
	for _, fields := range []string{`"stream": true, "temperature": 0`, `"temperature": 0`} {
		ctx, hangUp := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(body("plain", "Once upon a time", fields)))
		must(t, err)
		ended := make(chan error)
		go func() {
			response, err := http.DefaultClient.Do(request)
			if err == nil {
				_, err = io.Copy(io.Discard, response.Body)
			}
			ended <- err
		}()
		busy := s.metrics.busy.WithLabelValues("plain")
		until(t, "no reply has begun", func() bool { return testutil.ToFloat64(busy) == 1 })
		hangUp()
		if err := <-ended; err == nil {
			t.Error("the reply has ended before the client has hung up")
		}
		until(t, "the slot stays taken", func() bool { return testutil.ToFloat64(busy) == 0 })
		if text := content(s.chat(t, "plain", "Once upon a time", `"temperature": 0, "max_tokens": 20`)); text == "" || !strings.HasPrefix(story, text) {
			t.Errorf("%q", text)
		}
	}
	gone := s.metrics.requests.WithLabelValues("/v1/chat/completions", "499")
	until(t, "requests that nobody waits for any more", func() bool { return testutil.ToFloat64(gone) == 2 })
}

func TestADeadlineEndsARequest(t *testing.T) {
	s := serve(t, "-deadline", "300ms", "-context", "100000")
	status, answer, _ := s.post(t, "/v1/chat/completions", body("plain", "Once upon a time", `"temperature": 0`))
	if status != http.StatusGatewayTimeout || at(answer, "error", "code") != "timeout" {
		t.Error(status, answer)
	}
	response, err := http.Post(s.url+"/v1/chat/completions", "", strings.NewReader(body("plain", "Once upon a time", `"temperature": 0, "stream": true`)))
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	events := strings.Split(strings.TrimSpace(string(text)), "\n\n")
	if last := events[len(events)-1]; len(events) < 3 || !strings.Contains(last, `"code":"timeout"`) {
		t.Errorf("%q", last)
	}
}

func TestClientsAtOnceAreNotMixedUp(t *testing.T) {
	s := serve(t, "-slots", "4")
	request := func(i int) string {
		return body("plain", fmt.Sprintf("Once upon a time number %d", i%12), `"temperature": 1, "seed": 5, "max_tokens": 30`)
	}
	alone := map[int]string{}
	for i := range 12 {
		alone[i] = content(s.complete(t, request(i)))
	}
	var group sync.WaitGroup
	for i := range 48 {
		group.Add(1)
		go func() {
			defer group.Done()
			var answer map[string]any
			if i%2 == 0 {
				answer = s.complete(t, request(i))
			} else {
				answer = s.joined(t, request(i))
			}
			if text := content(answer); text != alone[i%12] {
				t.Errorf("%d: %q, alone %q", i, text, alone[i%12])
			}
		}()
	}
	group.Wait()
}

func TestWhatIsRememberedChangesNoAnswer(t *testing.T) {
	s, fresh := serve(t, "-slots", "2"), serve(t, "-slots", "1")
	turn := func(s *service, messages []any) (string, float64) {
		text, err := json.Marshal(messages)
		must(t, err)
		answer := s.complete(t, fmt.Sprintf(`{"model": "plain", "temperature": 0, "max_tokens": 12, "messages": %s}`, text))
		return content(answer), at(answer, "usage", "prompt_tokens_details", "cached_tokens").(float64)
	}
	var chats [3][]any // more than there are slots
	for i := range 9 {
		chat := &chats[i%3]
		*chat = append(*chat, map[string]any{"role": "user", "content": fmt.Sprintf("Tell me of %d.", i%3)})
		text, _ := turn(s, *chat)
		fresh.models.unloadIdle(0)
		want, none := turn(fresh, *chat)
		if text != want || none != 0 {
			t.Errorf("%q %q %v", text, want, none)
		}
		*chat = append(*chat, map[string]any{"role": "assistant", "content": text})
	}
	// The same chat goes on where it was, also with a second beginning of it aside.
	before := 0.0
	for i := range 3 {
		text, cached := turn(s, chats[2])
		if i > 0 && cached < before {
			t.Error(cached, before)
		}
		chats[2] = append(chats[2], map[string]any{"role": "assistant", "content": text}, map[string]any{"role": "user", "content": "And?"})
		before = cached
		turn(s, chats[2][:1])
	}
	if before == 0 {
		t.Error("nothing is remembered")
	}
}

func TestAStoreOutlastsTheService(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "store")
	request := body("plain", strings.Repeat("Once upon a time there was a dog. ", 8), `"temperature": 0, "max_tokens": 12`)
	text := `{"model": "plain", "prompt": ` + fmt.Sprintf("%q", strings.Repeat("The cat sat there. ", 12)) + `, "temperature": 0, "max_tokens": 12}`
	var answers [2][2]map[string]any
	for i := range answers {
		s := serve(t, "-store", folder)
		answers[i][0] = s.complete(t, request)
		_, answers[i][1], _ = s.post(t, "/v1/completions", text)
		s.models.unloadIdle(0)
	}
	for i, path := range [][]any{{"choices", 0, "message", "content"}, {"choices", 0, "text"}} {
		first, second := answers[0][i], answers[1][i]
		prompt := at(second, "usage", "prompt_tokens").(float64)
		if cached := at(second, "usage", "prompt_tokens_details", "cached_tokens"); cached != prompt-1 || prompt < 64 {
			t.Error(first, second)
		}
		if want := at(first, path...); want == "" || want != at(second, path...) {
			t.Error(first, second)
		}
	}
}

func TestChoicesShareTheirPrompt(t *testing.T) {
	request := body("plain", strings.Repeat("Once upon a time there was a dog. ", 8), `"temperature": 1, "seed": 3, "max_tokens": 12, "n": 3`)
	with := serve(t, "-store", t.TempDir()).complete(t, request)
	if cached, prompt := at(with, "usage", "prompt_tokens_details", "cached_tokens"), at(with, "usage", "prompt_tokens"); cached != prompt.(float64)-1 {
		t.Error(with)
	}
	if with, without := comparable(t, with), comparable(t, serve(t).complete(t, request)); with != without {
		t.Errorf("%s\n%s", with, without)
	}
}

func TestAdaptersAndModels(t *testing.T) {
	s := serve(t, "-lora", "drawing=plain,"+data+"story-adapter.gguf")
	for range 2 { // in turns, so that neither finds what the other remembers
		for model, want := range map[string]string{"plain": story, "drawing": adaptedStory} {
			if text := content(s.chat(t, model, "Once upon a time", `"temperature": 0, "max_tokens": 40`)); len(text) < 60 || !strings.HasPrefix(want, text) {
				t.Errorf("%s: %q", model, text)
			}
		}
	}
	response, err := http.Get(s.url + "/v1/models")
	must(t, err)
	defer response.Body.Close()
	var list struct{ Data []map[string]any }
	must(t, json.NewDecoder(response.Body).Decode(&list))
	if len(list.Data) != 3 || list.Data[0]["id"] != "plain" || list.Data[2]["parent"] != "plain" {
		t.Error(list)
	}
	for path, want := range map[string]int{"/v1/models/drawing": 200, "/v1/models/none": 404} {
		response, err := http.Get(s.url + path)
		must(t, err)
		response.Body.Close()
		if response.StatusCode != want {
			t.Error(path, response.StatusCode)
		}
	}
	for _, flags := range [][]string{
		{}, {"-m", "a"}, {"-m", "a=x", "-m", "a=y"}, {"-m", "a=x", "-lora", "b=c,d"}, {"-m", "a=x", "-lora", "b=a"}, {"-m", "a=x", "-lora", "b=a,f,big"},
	} {
		o, err := parse(flags)
		if err == nil {
			_, err = newServer(o)
		}
		if err == nil {
			t.Error(flags)
		}
	}
}

func TestMemoryIsForTheModelsInUse(t *testing.T) {
	s := serve(t)
	l, err := s.models.lease(t.Context(), "plain")
	must(t, err)
	plain := s.models.byName["plain"]
	s.models.memory = plain.loaded.size * 3 / 2
	status, answer, header := s.post(t, "/v1/chat/completions", body("thinking", "x", `"max_tokens": 1`))
	if status != http.StatusServiceUnavailable || at(answer, "error", "code") != "out_of_memory" || header.Get("Retry-After") == "" {
		t.Error(status, answer)
	}
	l.release()
	s.chat(t, "thinking", "x", `"max_tokens": 1`)
	if plain.loaded != nil {
		t.Error("both are loaded")
	}
	s.models.unloadIdle(0)
	if s.models.taken != 0 {
		t.Error(s.models.taken)
	}
	s.chat(t, "plain", "x", `"max_tokens": 1`)
}

func TestAContainerHasItsOwnMemory(t *testing.T) {
	group := t.TempDir()
	for _, bound := range []struct {
		max, current string
		want         uint64
	}{{"50000\n", "20000\n", 30000}, {"50000\n", "60000\n", 1}, {"max\n", "60000\n", 0}} {
		must(t, os.WriteFile(filepath.Join(group, "memory.max"), []byte(bound.max), 0o600))
		must(t, os.WriteFile(filepath.Join(group, "memory.current"), []byte(bound.current), 0o600))
		if free := freeMemory(group); free != bound.want && (bound.want != 0 || free < 1<<20) {
			t.Error(bound, free)
		}
	}
}

func TestAModelThatCannotBeLoaded(t *testing.T) {
	s := serve(t, "-m", "none=/no/such/file.gguf")
	status, answer, _ := s.post(t, "/v1/chat/completions", body("none", "x", ``))
	if message := at(answer, "error", "message").(string); status != http.StatusInternalServerError || strings.Contains(message, "/no/such") {
		t.Error(status, answer)
	}
	if err := s.models.loadAll(t.Context()); err == nil {
		t.Error("it is loaded")
	}
}

func TestErrorsOfAnthropic(t *testing.T) {
	e := &apiError{status: http.StatusTooManyRequests, message: "full"}
	text, err := json.Marshal(e.body(anthropic))
	if want := `{"error":{"message":"full","type":"rate_limit_error"},"type":"error"}`; err != nil || string(text) != want {
		t.Error(string(text), err)
	}
	for code, want := range map[realizar.Code]int{
		realizar.ErrInvalidArgument: 400, realizar.ErrUnsupported: 400, realizar.ErrOutOfMemory: 503, realizar.ErrDeadline: 504, realizar.ErrPanic: 500,
	} {
		if e := asAPIError(fmt.Errorf("wrapped: %w", &realizar.Error{Code: code, Message: "x"})); e.status != want {
			t.Error(code, e)
		}
	}
}

func TestTheEndIsOrderly(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	o, err := parse([]string{"-threads", "2", "-context", "512", "-m", "plain=" + chatModel(t, plainTemplate), "-idle", "1h"})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, o, listener) }()
	s := &service{url: "http://" + listener.Addr().String()}
	until(t, "not ready", func() bool {
		response, err := http.Get(s.url + "/health")
		must(t, err)
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	response, err := http.Post(s.url+"/v1/chat/completions", "", strings.NewReader(body("plain", "Once upon a time", `"temperature": 0, "stream": true`)))
	must(t, err)
	defer response.Body.Close()
	stop()
	text, err := io.ReadAll(response.Body)
	if err != nil || !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
		t.Errorf("%q %v", text, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := http.Get(s.url + "/health"); err == nil {
		t.Error("it still listens")
	}
}

func TestMetricsAreTold(t *testing.T) {
	s := serve(t)
	s.chat(t, "plain", "Once upon a time", `"temperature": 0, "max_tokens": 7`)
	response, err := http.Get(s.url + "/metrics")
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	for _, line := range []string{
		`realizar_requests_total{code="200",path="/v1/chat/completions"} 1`, `realizar_tokens_total{kind="prompt",model="plain"} 5`,
		`realizar_tokens_total{kind="completion",model="plain"} 7`, `realizar_time_to_first_token_seconds_count{model="plain"} 1`,
		`realizar_slots{model="plain"} 8`, `realizar_slots_busy{model="plain"} 0`, `realizar_queue_length{model="plain"} 0`,
	} {
		if !strings.Contains(string(text), line+"\n") {
			t.Error(line)
		}
	}
}
