package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"realizar.dev/go"
)

// asked are requests of each API for one reply.
var asked = map[string]string{
	"/v1/chat/completions": `{"model": "plain", "max_tokens": 4, "messages": [{"role": "user", "content": %q}]}`,
	"/v1/completions":      `{"model": "plain", "max_tokens": 4, "prompt": %q}`,
	"/v1/responses":        `{"model": "plain", "max_output_tokens": 4, "input": %q}`,
	"/v1/messages":         `{"model": "plain", "max_tokens": 4, "messages": [{"role": "user", "content": %q}]}`,
}

func streamed(body string) string { return strings.TrimSuffix(body, "}") + `, "stream": true}` }

// A request that can never succeed is rejected with a status that keeps clients from sending it again.
func TestWhatIsTooLargeIsTheClientsFault(t *testing.T) {
	s := serve(t)
	var words []string
	for i := range 30000 {
		words = append(words, fmt.Sprintf("%q", fmt.Sprint("a word ", i*i)))
	}
	schema := `{"type": "object", "properties": {"a": {"enum": [` + strings.Join(words, ",") + `]}}, "required": ["a"], "additionalProperties": false}`
	ask := `"messages": [{"role": "user", "content": "x"}], "max_tokens": 4`
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model": "plain", ` + ask + `, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": ` + schema + `}}}`,
		"/v1/messages":         `{"model": "plain", ` + ask + `, "output_config": {"format": {"type": "json_schema", "schema": ` + schema + `}}}`,
		"/v1/responses": `{"model": "plain", "input": "x", "tool_choice": "required", "tools": [{"type": "function", "name": "f", "strict": true,
			"parameters": ` + schema + `}]}`,
	} {
		for _, body := range []string{body, streamed(body)} {
			status, answer, header := s.post(t, path, body)
			if status != http.StatusBadRequest || at(answer, "error", "type") != "invalid_request_error" || header.Get("Retry-After") != "" {
				t.Errorf("%s: %d %v", path, status, answer)
			}
		}
	}
	// Errors that may pass are reported as before.
	e := asAPIError(&realizar.Error{Code: realizar.ErrLimit, Message: "memory"})
	if e.status != http.StatusServiceUnavailable || e.retryAfter == 0 {
		t.Error(e)
	}
}

// The errors have the words that clients look for, with the right numbers.
func TestAPromptThatIsTooLong(t *testing.T) {
	s := serve(t)
	text := strings.Repeat("word ", 700)
	size := 0
	for path, body := range asked {
		body := fmt.Sprintf(body, text)
		for _, body := range []string{body, streamed(body)} {
			status, answer, _ := s.post(t, path, body)
			said, _ := at(answer, "error", "message").(string)
			form := `^This model's maximum context length is 512 tokens\. However, your (?:messages|prompt) resulted in (\d+) tokens\.$`
			if path == "/v1/messages" {
				form = `^prompt is too long: (\d+) tokens > 512 maximum$`
			} else if at(answer, "error", "code") != "context_length_exceeded" {
				t.Error(path, answer)
			}
			found := regexp.MustCompile(form).FindStringSubmatch(said)
			if status != http.StatusBadRequest || found == nil || at(answer, "error", "type") != "invalid_request_error" {
				t.Fatal(path, status, answer)
			}
			var n int
			_, err := fmt.Sscan(found[1], &n)
			must(t, err)
			if size == 0 {
				size = n
			}
			if n != size || n < 700 {
				t.Error(path, n, size)
			}
		}
	}
	counted := s.ask(t, "/v1/messages/count_tokens", `{"model": "plain", "messages": [{"role": "user", "content": "`+text+`"}]}`)
	if counted["input_tokens"] != float64(size) {
		t.Error(counted, size)
	}
}

// A stream begins while its request waits for a slot, and then sends signs. Errors in the request itself are reported
// by a status before the stream begins.
func TestAStreamBeginsBeforeItsFirstToken(t *testing.T) {
	before := signEvery
	signEvery = 5 * time.Millisecond
	defer func() { signEvery = before }()
	s := serve(t, "-slots", "1", "-queue", "1")
	l := s.leased(t, "plain")
	for path, body := range asked {
		leave, err := l.engine.enter(t.Context())
		must(t, err)
		long := fmt.Sprintf(body, strings.Repeat("word ", 700))
		if status, answer, _ := s.post(t, path, streamed(long)); status != http.StatusBadRequest {
			t.Error(path, status, answer)
		}
		response, err := http.Post(s.url+path, "application/json", strings.NewReader(streamed(fmt.Sprintf(body, "Once"))))
		must(t, err)
		if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatal(path, response)
		}
		signs, lines := 0, bufio.NewScanner(response.Body)
		for signs < 3 && lines.Scan() {
			if text := lines.Text(); text == ":" && path != "/v1/messages" || text == "event: ping" && path == "/v1/messages" {
				signs++
			} else if strings.Contains(text, "delta") {
				t.Error(path, text)
			}
		}
		leave()
		whole := ""
		for lines.Scan() {
			whole += lines.Text() + "\n"
		}
		response.Body.Close()
		ends := map[string]string{"/v1/messages": "message_stop", "/v1/responses": "response.incomplete"}[path]
		if ends == "" {
			ends = "[DONE]"
		}
		if signs != 3 || !strings.Contains(whole, ends) {
			t.Errorf("%s: %d %q", path, signs, whole)
		}
	}
	// A grammar is checked too.
	leave, err := l.engine.enter(t.Context())
	must(t, err)
	defer leave()
	for _, fields := range []string{
		`"response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": true, "schema": {"type": "what"}}}`,
		`"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "f", "strict": true, "parameters": {"type": "what"}}}]`,
	} {
		if status, answer, _ := s.post(t, "/v1/chat/completions", streamed(body("plain", "x", fields))); status != http.StatusBadRequest {
			t.Error(fields, status, answer)
		}
	}
}

func TestPagesAreAnsweredAtNamesOfTheService(t *testing.T) {
	s := serve(t, "-host", "models.lan")
	keys := filepath.Join(t.TempDir(), "keys")
	must(t, os.WriteFile(keys, []byte("key\n"), 0o600))
	withKeys := serve(t, "-keys", keys)
	for _, c := range []struct {
		host, origin, site string
		want               int
	}{
		{"127.0.0.1:8080", "", "", 200}, {"serve:8080", "", "", 200}, {"evil.example", "", "", 200}, // programs, such as in other containers
		{"evil.example", "http://evil.example", "same-origin", 403}, {"evil.example:8080", "http://evil.example:8080", "", 403},
		{"evil.example", "", "same-origin", 403}, {"evil.example", "", "none", 403}, {"serve:8080", "http://serve:8080", "same-origin", 403},
		{"127.0.0.1:8080", "http://127.0.0.1:8080", "same-origin", 200}, {"[::1]:8080", "http://[::1]:8080", "same-origin", 200},
		{"localhost:8080", "http://localhost:8080", "same-origin", 200}, {"LOCALHOST:8080", "http://localhost:8080", "", 200},
		{"app.localhost", "http://app.localhost", "", 200}, {"192.168.1.5", "http://192.168.1.5:80", "", 200}, {"localhost:8080", "", "none", 200},
		{"models.lan:8080", "http://models.lan:8080", "same-origin", 200}, {"models.lan.", "http://models.lan.", "", 200},
		{"models.lan", "https://models.lan", "same-origin", 200}, {"notmodels.lan", "http://notmodels.lan", "", 403},
		{"127.0.0.1:8080", "http://127.0.0.1:3000", "same-site", 403}, {"127.0.0.1:8080", "http://127.0.0.1:3000", "", 403},
		{"127.0.0.1:8080", "http://evil.example", "", 403}, {"127.0.0.1:8080", "null", "", 403}, {"127.0.0.1:8080", "", "cross-site", 403},
		{"localhost.evil.example", "http://localhost.evil.example", "", 403},
		{"127.0.0.1:8080", "https://models.lan", "same-origin", 200}, // behind a proxy that has the name
	} {
		for path, want := range map[string]int{"/v1/models": c.want, "/health": c.want, "/metrics": c.want, "/nothing": max(c.want, 403)} {
			request, err := http.NewRequest(http.MethodGet, s.url+path, nil)
			must(t, err)
			request.Host = c.host
			for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
				if value != "" {
					request.Header.Set(name, value)
				}
			}
			if path == "/nothing" && c.want == 200 {
				want = 404
			}
			response, err := http.DefaultClient.Do(request)
			must(t, err)
			response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%+v %s: %d", c, path, response.StatusCode)
			}
			request.URL.Host = strings.TrimPrefix(withKeys.url, "http://")
			request.Header.Set("Authorization", "bearer key")
			if path == "/v1/models" {
				response, err := http.DefaultClient.Do(request)
				must(t, err)
				response.Body.Close()
				if response.StatusCode != 200 {
					t.Errorf("with keys %+v: %d", c, response.StatusCode)
				}
			}
		}
	}
}

func TestAContextThatHasNoRoomIsRefusedAtTheStart(t *testing.T) {
	s := serve(t, "-context", "1000000", "-memory", "500000000")
	if err := s.models.loadFirst(t.Context()); err == nil || !strings.Contains(err.Error(), "memory") {
		t.Error(err)
	}
	// Loaded on demand, the error is not temporary.
	status, answer, header := s.post(t, "/v1/chat/completions", body("plain", "x", ``))
	if status != http.StatusInternalServerError || header.Get("Retry-After") != "" {
		t.Error(status, answer)
	}
}

// A truncated call contains the received part of its name and arguments, and is accepted in a history.
func TestACallThatIsCut(t *testing.T) {
	s := serve(t)
	seen := map[string]bool{}
	for n := 1; n < 40; n += 2 {
		request := body("thinking", "Hi", fmt.Sprintf(`"temperature": 0, "max_tokens": %d, "reasoning_effort": "none", "tool_choice": "required", "tools": [%s]`, n, goTool))
		answer := s.complete(t, request)
		said := at(answer, "choices", 0, "message").(map[string]any)
		arguments, called := at(said, "tool_calls", 0, "function", "arguments").(string)
		text, _ := said["content"].(string)
		if strings.Contains(text, "<call>") || strings.Contains(text, "{") {
			t.Errorf("%d: %v", n, answer)
		}
		if !called {
			seen["no name"] = true
			continue
		}
		if json.Valid([]byte(arguments)) {
			break
		}
		seen["cut"] = true
		if at(answer, "choices", 0, "finish_reason") != "length" {
			t.Error(answer)
		}
		history := fmt.Sprintf(`{"model": "thinking", "max_tokens": 3, "messages": [{"role": "user", "content": "Hi"}, %s, {"role": "user", "content": "Go on"}]}`, mustJSON(t, said))
		if tokens := at(s.complete(t, history), "usage", "prompt_tokens"); tokens == nil {
			t.Error(tokens)
		}
		s.ask(t, "/v1/responses", fmt.Sprintf(`{"model": "thinking", "max_output_tokens": 3, "input": [{"role": "user", "content": "Hi"}, {"type": "function_call",
			"call_id": "c", "name": "go", "arguments": %q, "status": "incomplete"}, {"role": "user", "content": "Go on"}]}`, arguments))
		whole := plainOf(t, s.complete(t, request))
		if stream := plainOf(t, s.joined(t, request)); !strings.Contains(stream, fmt.Sprintf("%q", arguments)) || !strings.Contains(whole, fmt.Sprintf("%q", arguments)) {
			t.Errorf("%s\n%s", whole, stream)
		}
	}
	if len(seen) != 2 {
		t.Error(seen)
	}
	for text, want := range map[string]string{`{"a": 1}`: `{"a": 1}`, `{"a": `: `{}`, ``: `{}`, `null`: `{}`, `[1]`: `{}`, `"x"`: `{}`} {
		if got := wholeArguments(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// A message has reasoning only if the request asks for it, provided that the template can switch reasoning off.
func TestMessagesThinkWhenTheyAreAskedTo(t *testing.T) {
	const said = "{% if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}"
	const always = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>" + said + "{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant><think>{% endif %}"
	const byItself = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>" + said + "{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>" +
		"{% if enable_thinking is not defined or enable_thinking %}<think>{% endif %}{% endif %}"
	// A template that switches reasoning only if the conversation has no system message.
	const sometimes = "{{ bos_token }}{% if messages[0].role != 'system' and thinking %}Write <think> and </think>{% endif %}" +
		"{% for m in messages %}<{{ m.role }}>" + said + "{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
	s := serve(t, "-m", "always="+chatModel(t, always), "-m", "switch="+chatModel(t, byItself), "-m", "sometimes="+chatModel(t, sometimes))
	for _, c := range []struct{ model, thinking, kind string }{
		{"switch", ``, "text"}, {"switch", `, "thinking": {"type": "disabled"}`, "text"}, {"switch", `, "thinking": {"type": "adaptive"}`, "thinking"},
		{"switch", `, "thinking": {"type": "enabled", "budget_tokens": 5}`, "thinking"}, {"always", ``, "thinking"}, {"plain", ``, "text"}, {"thinking", ``, "text"},
		{"always", `, "thinking": {"type": "disabled"}`, "thinking"}, {"plain", `, "thinking": {"type": "disabled"}`, "text"},
		{"plain", `, "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}`, "text"}, // as Claude Code sends it
		{"plain", `, "thinking": {"type": "enabled", "budget_tokens": 5}`, "text"}, {"sometimes", ``, "text"},
		{"sometimes", `, "system": "Be good"`, "text"}, {"sometimes", `, "system": "Be good", "thinking": {"type": "disabled"}`, "text"},
		{"sometimes", `, "system": "Be good", "thinking": {"type": "adaptive"}`, "text"},
	} {
		request := fmt.Sprintf(`{"model": %q, "max_tokens": 12, "temperature": 0, "messages": [{"role": "user", "content": "Hi"}]%s}`, c.model, c.thinking)
		message := s.ask(t, "/v1/messages", request)
		if kind := at(message, "content", 0, "type"); kind != c.kind {
			t.Error(c, message)
		}
		counted := s.ask(t, "/v1/messages/count_tokens", request)["input_tokens"]
		if sum := at(message, "usage", "input_tokens").(float64) + at(message, "usage", "cache_read_input_tokens").(float64); sum != counted {
			t.Error(c, sum, counted)
		}
	}
	// A chat without reasoning is valid if the template adds no text about reasoning to it. Otherwise the template must
	// be able to switch reasoning off.
	s.complete(t, strings.Replace(body("sometimes", "Hi", `"max_tokens": 3, "reasoning_effort": "none"`), `[{`, `[{"role": "system", "content": "Be good"}, {`, 1))
	for model, effort := range map[string]string{"always": "none", "plain": "low"} {
		if status, answer, _ := s.post(t, "/v1/chat/completions", body(model, "Hi", fmt.Sprintf(`"reasoning_effort": %q`, effort))); status != http.StatusBadRequest {
			t.Error(model, status, answer)
		}
	}
	// By default chats reason as the template determines.
	if answer := s.chat(t, "switch", "Hi", `"max_tokens": 5, "temperature": 0`); at(answer, "choices", 0, "message", "reasoning_content") == nil {
		t.Error(answer)
	}
}

// A request whose tools may not be called is accepted although the template cannot write tools.
func TestToolsThatMayNotBeCalledNeedNoTemplate(t *testing.T) {
	const without = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"
	s := serve(t, "-m", "without="+chatModel(t, without))
	fields := `"max_tokens": 3, "tools": [` + goTool + `]`
	s.chat(t, "without", "Hi", fields+`, "tool_choice": "none"`)
	s.ask(t, "/v1/messages", `{"model": "without", "max_tokens": 3, "messages": [{"role": "user", "content": "x"}], "tool_choice": {"type": "none"}, "tools": [`+anthropicTool+`]}`)
	if status, answer, _ := s.post(t, "/v1/chat/completions", body("without", "Hi", fields)); status != http.StatusBadRequest {
		t.Error(status, answer)
	}
}

func TestCompressedBodies(t *testing.T) {
	s := serve(t, "-body", "100000")
	send := func(coding string, data []byte) (int, string) {
		request, err := http.NewRequest(http.MethodPost, s.url+"/v1/chat/completions", bytes.NewReader(data))
		must(t, err)
		request.Header.Set("Content-Encoding", coding)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		must(t, err)
		return response.StatusCode, string(text)
	}
	pack := func(open func(w io.Writer) io.WriteCloser, text string) []byte {
		var out bytes.Buffer
		w := open(&out)
		_, err := io.WriteString(w, text)
		must(t, err)
		must(t, w.Close())
		return out.Bytes()
	}
	zip := func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }
	plain := body("plain", "Hi", `"max_tokens": 1`)
	whole := pack(zip, plain)
	large := body("plain", strings.Repeat("x", 1<<20), ``)
	for _, c := range []struct {
		coding string
		data   []byte
		want   int
	}{
		{"gzip", whole, 200}, {"GZIP", whole, 200}, {"deflate", pack(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }, plain), 200},
		{"identity", []byte(plain), 200}, {"gzip", pack(zip, large), 413}, {"gzip", []byte(plain), 400}, {"gzip", whole[:len(whole)/2], 400},
		{"gzip", nil, 400}, {"br", whole, 415}, {"gzip, gzip", whole, 415},
	} {
		if status, text := send(c.coding, c.data); status != c.want {
			t.Error(c.coding, len(c.data), status, text)
		}
	}
}

// Concurrent bodies take no more memory together than the requests that can run or wait.
func TestBodiesHaveABoundTogether(t *testing.T) {
	if most := (&options{slots: 8, queue: 64, body: 1 << 62, models: repeated{"a=b"}}).maxBodies(1); most != math.MaxInt64 {
		t.Error(most)
	}
	s := serve(t, "-slots", "1", "-queue", "0", "-body", "500000") // two models, so 1,000,000 bytes
	large := body("plain", strings.Repeat("x", 400000), ``)
	var half []net.Conn
	for range 2 {
		half = append(half, s.raw(t, "POST /v1/chat/completions HTTP/1.1\r\nX: y", ""))
	}
	for _, connection := range half {
		_, err := fmt.Fprintf(connection, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 499999\r\n\r\n%s", large)
		must(t, err)
	}
	until(t, "the bodies do not come", func() bool { return s.bodies.Load() >= 2*400000 })
	for path, answer := range asked {
		long := fmt.Sprintf(answer, strings.Repeat("y", 300000))
		if status, answer, header := s.post(t, path, long); status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
			t.Error(path, status, answer)
		}
	}
	s.chat(t, "plain", "Hi", `"max_tokens": 1`) // there is room for this one
	for _, connection := range half {
		connection.Close()
	}
	until(t, "bytes of bodies that are gone", func() bool { return s.bodies.Load() == 0 })
	if status, answer, _ := s.post(t, "/v1/chat/completions", large); status != http.StatusBadRequest { // it is too long for the context
		t.Error(status, answer)
	}
}

func TestErrorsHaveTheFormOfTheClient(t *testing.T) {
	s := serve(t)
	for _, path := range []string{"/v1/models/none", "/v1/nothing"} {
		for version, kind := range map[string]any{"": nil, "2023-06-01": "error"} {
			request, err := http.NewRequest(http.MethodGet, s.url+path, nil)
			must(t, err)
			if version != "" {
				request.Header.Set("Anthropic-Version", version)
			}
			response, err := http.DefaultClient.Do(request)
			must(t, err)
			var answer map[string]any
			must(t, json.NewDecoder(response.Body).Decode(&answer))
			response.Body.Close()
			if response.StatusCode != http.StatusNotFound || answer["type"] != kind || version != "" && at(answer, "error", "type") != "not_found_error" {
				t.Error(path, version, answer)
			}
		}
	}
}

// A second signal does not wait for the requests that run.
func TestASecondSignalEndsTheRequests(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	o, err := parse([]string{"-threads", "2", "-context", "1000000", "-drain", "10m", "-m", "plain=" + chatModel(t, plainTemplate)})
	must(t, err)
	caught := make(chan os.Signal, 4) // so that no signal ends the test
	signal.Notify(caught, os.Interrupt)
	defer signal.Stop(caught)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, o, listener) }()
	url := "http://" + listener.Addr().String()
	until(t, "not ready", func() bool {
		response, err := http.Get(url + "/health")
		must(t, err)
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	response, err := http.Post(url+"/v1/chat/completions", "", strings.NewReader(streamed(body("plain", "Once", `"temperature": 0`))))
	must(t, err)
	defer response.Body.Close()
	stop()
	over := false
	until(t, "the end", func() bool {
		raise(t, syscall.SIGINT)
		select {
		case err := <-ended:
			must(t, err)
			over = true
		case <-time.After(20 * time.Millisecond):
		}
		return over
	})
	text, _ := io.ReadAll(response.Body)
	if !strings.Contains(string(text), `"code":"stopping"`) {
		t.Errorf("%q", text[max(0, len(text)-300):])
	}
}

// Token counting is limited to a number of concurrent requests, and does not wait for a client that has disconnected.
func TestCountingHasABound(t *testing.T) {
	s := serve(t, "-slots", "1")
	l := s.leased(t, "plain")
	l.engine.counting <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := l.promptSize(ctx, &generation{Transcript: &realizar.Transcript{Messages: []any{message{Role: "user", Content: "x"}}}})
		ended <- err
	}()
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
	<-l.engine.counting
	// At most as many requests wait as may wait for a slot.
	most := int64(l.engine.slots + l.engine.maxQueue)
	l.engine.reading.Add(most)
	if status, answer, _ := s.post(t, "/v1/messages/count_tokens", `{"model": "plain", "messages": [{"role": "user", "content": "x"}]}`); status != http.StatusTooManyRequests {
		t.Error(status, answer)
	}
	l.engine.reading.Add(-most)
	s.ask(t, "/v1/messages/count_tokens", `{"model": "plain", "messages": [{"role": "user", "content": "x"}]}`)
	// A request releases its model after its answer.
	until(t, "one user of the model", func() bool {
		s.models.mu.Lock()
		defer s.models.mu.Unlock()
		return s.models.byName["plain"].users == 1
	})
}

// Every text that a client chooses counts toward the size of a stored response.
func TestStoredResponsesCountAllTexts(t *testing.T) {
	text := strings.Repeat("x", 10_000)
	call := toolCall{ID: text, Function: function{Name: text, Arguments: text}}
	response := storedResponse{messages: []message{{Content: text, Name: text, ReasoningContent: text, ToolCallID: text, ToolCalls: []toolCall{call}}}}
	if size := response.size(); size < 7*len(text) {
		t.Error(size)
	}
}

// Prompts with the same beginning share its computation although their last messages differ. Images count as tokens.
func TestPromptsThatBeginAlike(t *testing.T) {
	s := serve(t, "-mmproj", "plain="+encoderFile(t, "vision/llava"))
	url := pictureURL(t, "rgb.png")
	cached := func(answer map[string]any) float64 {
		n, _ := at(answer, "usage", "prompt_tokens_details", "cached_tokens").(float64)
		return n
	}
	ask := func(text string) map[string]any {
		return s.complete(t, fmt.Sprintf(`{"model": "plain", "max_tokens": 4, "temperature": 0, "messages": [{"role": "system", "content": %q},
			{"role": "user", "content": %q}]}`, strings.Repeat("Tell a story of a dog. ", 20), text))
	}
	first := ask("One")
	again := ask("Another")
	if n := cached(again); cached(first) != 0 || n < 64 || n >= at(again, "usage", "prompt_tokens").(float64) {
		t.Error(first, again)
	}
	l := s.leased(t, "plain")
	before, err := l.Metrics()
	must(t, err)
	if n := cached(s.complete(t, shown("", "plain", url, "Once"))); n != 0 {
		t.Error(n)
	}
	fresh := serve(t, "-mmproj", "plain="+encoderFile(t, "vision/llava"))
	for _, text := range []string{"Then they", "Dog", "Once upon"} {
		answer, alone := s.complete(t, shown("", "plain", url, text)), fresh.complete(t, shown("", "plain", url, text))
		if n := cached(answer); n < 64 || content(answer) != content(alone) {
			t.Error(n, answer, alone)
		}
		fresh.models.unloadIdle(0)
	}
	if other := s.complete(t, shown("", "plain", pictureURL(t, "palette.png"), "Once")); cached(other) > 8 {
		t.Error(other)
	}
	after, err := l.Metrics()
	must(t, err)
	if after.Encode.Count != before.Encode.Count+2 {
		t.Error(before.Encode.Count, after.Encode.Count)
	}
}

// sized is a value with a size in bytes.
type sized int

func (s sized) size() int { return int(s) }

// The images of the last conversation are kept even if they exceed the limit for other images. A larger limit applies
// to them; above it, the first images stay.
func TestPicturesOfTheLastConversationAreKept(t *testing.T) {
	var all keeper[sized]
	forgotten := 0
	put := func(name string, bytes int) {
		forgotten += len(all.put(name, sized(bytes)))
	}
	has := func(names string, count int) {
		t.Helper()
		for _, name := range strings.Fields(names) {
			if _, found := all.get(name); !found {
				t.Error(name)
			}
		}
		bytes := 0
		for e := all.order.Front(); e != nil; e = e.Next() {
			bytes += e.Value.(*kept[sized]).bytes
		}
		if all.order.Len() != len(strings.Fields(names)) || len(all.all) != all.order.Len() || bytes != all.bytes || forgotten != count {
			t.Error(names, all.order.Len(), len(all.all), bytes, all.bytes, forgotten)
		}
	}
	all.hold(names("a b c"))
	for _, name := range []string{"a", "b", "c", "d"} {
		put(name, maxKeptBytes/2)
	}
	has("a b c", 1)
	all.hold(names("e"))
	put("e", maxKeptBytes/2)
	has("e", 4)
	all.hold(names("large"))
	put("large", 2*maxKeptBytes)
	has("large", 5)
	all.hold(names("large x y"))
	put("x", maxKeptBytes)
	put("y", 2*maxKeptBytes) // too large
	has("large x", 6)
	put("x", 1) // replaces the other value
	has("large x", 7)
	if left := all.clear(); len(left) != 2 {
		t.Error(len(left))
	}
	has("", 7)
}

// Images that no request uses and that are not cached are freed; images in use stay.
func TestPicturesAreFreed(t *testing.T) {
	s := serve(t, "-mmproj", "plain="+encoderFile(t, "vision/llava"))
	l := s.leased(t, "plain")
	e := l.encoders["image"]
	file, err := readPicture(pictureURL(t, "rgb.png"))
	must(t, err)
	media, release, err := l.media(t.Context(), []*mediaItem{file, file})
	must(t, err)
	one, _ := e.kept.get(file.Sum)
	if n := one.owners.Load(); n != 3 || media[0] != media[1] {
		t.Error(n)
	}
	for _, forgotten := range e.kept.clear() {
		forgotten.release()
	}
	if _, err := media[0].Info(); err != nil {
		t.Error(err)
	}
	release()
	if _, err := media[0].Info(); !errors.Is(err, realizar.ErrClosed) {
		t.Error(err)
	}
	// Images that do not fit in the context are not encoded.
	before, err := l.Metrics()
	must(t, err)
	parts := []string{}
	for i := range 60 {
		name := []string{"rgb.png", "palette.png"}[i%2]
		parts = append(parts, fmt.Sprintf(`{"type": "image_url", "image_url": %q}`, pictureURL(t, name)))
	}
	many := `{"model": "plain", "max_tokens": 3, "messages": [{"role": "user", "content": [` + strings.Join(parts, ",") + `]}]}`
	status, answer, _ := s.post(t, "/v1/chat/completions", many)
	said, _ := at(answer, "error", "message").(string)
	if status != http.StatusBadRequest || at(answer, "error", "code") != "context_length_exceeded" || !strings.Contains(said, "512 tokens") {
		t.Error(status, answer)
	}
	after, err := l.Metrics()
	must(t, err)
	if after.Encode.Count > before.Encode.Count+2 {
		t.Error(before.Encode.Count, after.Encode.Count)
	}
	for _, forgotten := range e.kept.clear() {
		if n := forgotten.owners.Load(); n != 1 {
			t.Error(n)
		}
		forgotten.release()
	}
}
