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
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"realizar.dev/go"
	"realizar.dev/go/cmd/serve/internal/network"
)

const (
	data = "../../../../tests/data/"
	// The greedy continuation by the tiny model, computed by an independent float64 implementation, and the same for
	// weights with the adapter merged.
	story = ", there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red " +
		"ball. She wanted to play with it, but it was too high.\nLily's mom said, \"Lily, let's go to the park.\""
	adaptedStory = ", there was a little girl named Lily. She loved to draw animals with her family. One day, she went to the park with her mommy."
	calls        = "{% for c in m.tool_calls or [] %}<call>{{ '{\"name\": \"' ~ c.function.name ~ '\", \"arguments\": ' }}" +
		"{{ c.function.arguments | tojson }}{{ '}' }}</call>{% endfor %}"
	// Concatenates the texts of the messages.
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
	// The length of the insertion is a multiple of 32 bytes, so that all later data keep their alignment.
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

// service is a server under test.
type service struct {
	*server
	url string
}

// serve starts a server with the plain model "plain", the reasoning model "thinking", and flags.
func serve(t *testing.T, flags ...string) *service {
	t.Helper()
	o, err := parse(append([]string{"-threads", "2", "-context", "512", "-m", "plain=" + chatModel(t, plainTemplate),
		"-m", "thinking=" + chatModel(t, thinkingTemplate)}, flags...))
	must(t, err)
	return listening(t, o)
}

// listening starts a server with options.
func listening(t *testing.T, o *options) *service {
	t.Helper()
	s, err := newServer(o)
	must(t, err)
	s.state.Store(ready)
	web := httptest.NewUnstartedServer(s.handler())
	web.Listener, web.Config.ConnContext = network.Watch(web.Listener), network.WithConnection
	web.Start()
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		s.models.close()
	})
	return &service{s, web.URL}
}

// raise sends a signal to this process.
func raise(t *testing.T, signal os.Signal) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a process of Windows cannot send itself a signal")
	}
	process, err := os.FindProcess(os.Getpid())
	must(t, err)
	must(t, process.Signal(signal))
}

// leased returns a lease of a model until the end of the test.
func (s *service) leased(t *testing.T, name string) *lease {
	t.Helper()
	l, err := s.models.lease(t.Context(), name)
	must(t, err)
	t.Cleanup(l.release)
	return l
}

// post sends a body and returns the answer.
func (s *service) post(t *testing.T, path, body string) (int, map[string]any, http.Header) {
	t.Helper()
	response, err := http.Post(s.url+path, "application/json", strings.NewReader(body))
	must(t, err)
	defer response.Body.Close()
	var answer map[string]any
	must(t, json.NewDecoder(response.Body).Decode(&answer))
	return response.StatusCode, answer, response.Header
}

// ask sends a request that must succeed.
func (s *service) ask(t *testing.T, path, body string) map[string]any {
	t.Helper()
	status, answer, _ := s.post(t, path, body)
	if status != http.StatusOK {
		t.Fatalf("%s %s: %d %v", path, body, status, answer)
	}
	return answer
}

// events requests a stream and returns its events. Either every event has a name, or none has one and "[DONE]" ends the
// stream.
func (s *service) events(t *testing.T, path, body string) (events []map[string]any) {
	t.Helper()
	response, err := http.Post(s.url+path, "application/json", strings.NewReader(strings.TrimSuffix(body, "}")+`, "stream": true}`))
	must(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		text, _ := io.ReadAll(response.Body)
		t.Fatal(response, string(text))
	}
	name, done, lines := "", false, bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = text
		}
		text, ok := strings.CutPrefix(lines.Text(), "data: ")
		if done = done || text == "[DONE]"; done || !ok {
			continue
		}
		var event map[string]any
		must(t, json.Unmarshal([]byte(text), &event))
		if kind, _ := event["type"].(string); kind != name {
			t.Errorf("%q %v", name, event)
		}
		events = append(events, event)
	}
	if done != (name == "") {
		t.Error("a stream without its end")
	}
	return events
}

// chat sends a chat request that must succeed; fields are appended to the model and the user's message.
func (s *service) chat(t *testing.T, model, text, fields string) map[string]any {
	t.Helper()
	return s.complete(t, body(model, text, fields))
}

func (s *service) complete(t *testing.T, body string) map[string]any {
	t.Helper()
	return s.ask(t, "/v1/chat/completions", body)
}

func body(model, text, fields string) string {
	if fields != "" {
		fields = ", " + fields
	}
	return fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": %q}]%s}`, model, text, fields)
}

// at returns the value at a path of maps and lists.
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

func TestKeys(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	must(t, os.WriteFile(keys, []byte("# clients\n\nfirst\n second \n"), 0o600))
	s := serve(t, "-keys", keys)
	for _, attempt := range []struct {
		header, value string
		want          int
	}{
		{"Authorization", "Bearer first", 200}, {"Authorization", "bearer second", 200}, {"Authorization", "BEARER second", 200}, {"X-Api-Key", "second", 200}, {"Authorization", "first", 401},
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

func TestAFullQueueIsTold(t *testing.T) {
	s := serve(t, "-slots", "1", "-queue", "1")
	l := s.leased(t, "plain")
	leave, err := l.engine.enter(t.Context())
	must(t, err)
	// A client that disconnects while it waits leaves the queue.
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
	if status != http.StatusTooManyRequests || header.Get("Retry-After") != "2" || at(answer, "error", "type") != "rate_limit_exceeded" {
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

// until waits for an effect of another goroutine, and fails if it does not occur.
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
	// The same chat continues from its cache, also with a variant of its beginning in between.
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
	for range 2 { // in turns, so that neither finds the other's cache
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
	if err := s.models.loadFirst(t.Context()); err == nil {
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
		realizar.ErrInvalidArgument: 400, realizar.ErrUnsupported: 400, realizar.ErrOutOfMemory: 503, realizar.ErrResources: 503, realizar.ErrDeadline: 504, realizar.ErrPanic: 500,
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
		`realizar_generated_tokens_total{model="plain"} 7`,
	} {
		if !strings.Contains(string(text), line+"\n") {
			t.Error(line)
		}
	}
}
