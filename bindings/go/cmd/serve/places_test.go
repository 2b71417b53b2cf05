package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"realizar.dev/go"
)

// choicesOf returns the texts of the choices of a stream; each choice must end.
func choicesOf(t *testing.T, events []map[string]any) map[int]string {
	t.Helper()
	texts, ended := map[int]string{}, 0
	for _, event := range events {
		if event["error"] != nil {
			t.Error(event)
		}
		for i := 0; at(event, "choices", i) != nil; i++ {
			choice := at(event, "choices", i).(map[string]any)
			text, _ := choice["text"].(string)
			delta, _ := at(choice, "delta", "content").(string)
			texts[int(choice["index"].(float64))] += text + delta
			if choice["finish_reason"] != nil {
				ended++
			}
		}
	}
	if ended != len(texts) {
		t.Error(ended, texts)
	}
	return texts
}

// A request is admitted with all of its choices, or rejected before its answer begins. If there are too few places, its
// choices run one after another.
func TestChoicesAreAdmittedTogether(t *testing.T) {
	requests := map[string]string{
		"/v1/chat/completions": body("plain", "Once upon a time", `"n": 5, "seed": 7, "max_tokens": 12`),
		"/v1/completions":      `{"model": "plain", "prompt": ["Once", "One day", "She"], "n": 2, "seed": 7, "max_tokens": 12}`,
	}
	alone := serve(t)
	for _, queue := range []string{"0", "1"} {
		s := serve(t, "-slots", "2", "-queue", queue)
		l := s.leased(t, "plain")
		leave, err := l.engine.enter(t.Context())
		must(t, err)
		for path, request := range requests {
			if got, want := choicesOf(t, s.events(t, path, request)), choicesOf(t, alone.events(t, path, request)); fmt.Sprint(got) != fmt.Sprint(want) || len(got) < 5 {
				t.Error(path, got, want)
			}
			wrong := strings.Replace(request, `"seed"`, `"logit_bias": {"1": 1}, "stop": "", "seed"`, 1)
			if status, answer, _ := s.post(t, path, streamed(wrong)); status != http.StatusBadRequest {
				t.Error(path, status, answer)
			}
		}
		// Without any free place, the whole request is rejected.
		var others []func()
		for range 2 - 1 {
			leave, err := l.engine.enter(t.Context())
			must(t, err)
			others = append(others, leave)
		}
		waiting, err := l.engine.admit(9, 9)
		if len(waiting) != len(queue)-1+int(queue[0]-'0') || (err != nil) != (queue == "0") {
			t.Fatal(len(waiting), err)
		}
		for path, request := range requests {
			if status, answer, header := s.post(t, path, streamed(request)); status != http.StatusTooManyRequests || header.Get("Retry-After") == "" {
				t.Error(path, status, answer)
			}
		}
		for _, place := range waiting {
			place.leave()
			place.leave() // has no effect
		}
		for _, leave := range append(others, leave) {
			leave()
		}
		if l.engine.free != 2 || l.engine.reserved != 0 || len(l.engine.waiting) != 0 {
			t.Error(l.engine.free, l.engine.reserved, len(l.engine.waiting))
		}
	}
}

// A request that finds the queue full is told when the requests of the queue are expected to have slots.
func TestRetryAfterIsTheTimeOfTheQueue(t *testing.T) {
	s := serve(t, "-slots", "2", "-queue", "6")
	e := s.leased(t, "plain").engine
	places, err := e.admit(8, 8)
	must(t, err)
	for _, c := range []struct {
		held time.Duration
		want string
	}{{e.held, "6"}, {100 * time.Millisecond, "1"}, {4 * time.Second, "12"}, {time.Hour, "60"}} {
		e.mu.Lock()
		e.held = c.held
		e.mu.Unlock()
		if status, answer, header := s.post(t, "/v1/chat/completions", body("plain", "Once", "")); status != http.StatusTooManyRequests || header.Get("Retry-After") != c.want {
			t.Error(c, status, answer, header)
		}
	}
	// Places without a slot do not change the mean; places with one do.
	places[7].leave()
	if e.held != time.Hour {
		t.Error(e.held)
	}
	for _, place := range places[:7] {
		place.leave()
	}
	if e.held > 45*time.Minute || e.held < 20*time.Minute {
		t.Error(e.held)
	}
}

// Under load, a stream that has begun sends all of its choices, and every place is released.
func TestNoStreamBreaksOffUnderLoad(t *testing.T) {
	s := serve(t, "-slots", "2", "-queue", "3")
	var group sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for i := range 24 {
		group.Add(1)
		go func() {
			defer group.Done()
			path, request := "/v1/chat/completions", body("plain", fmt.Sprint("Once ", i), `"n": 3, "max_tokens": 40, "seed": 1`)
			if i%2 == 1 {
				path, request = "/v1/completions", `{"model": "plain", "prompt": ["Once", "She"], "n": 2, "max_tokens": 40}`
			}
			response, err := http.Post(s.url+path, "", strings.NewReader(streamed(request)))
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			mu.Lock()
			defer mu.Unlock()
			statuses[response.StatusCode]++
			ends := strings.Count(string(text), `"finish_reason":"`)
			if err != nil || response.StatusCode == 200 && (ends != 3+i%2 || strings.Contains(string(text), `"error"`)) {
				t.Error(err, ends, string(text))
			}
		}()
	}
	group.Wait()
	if statuses[200] < 2 || statuses[200]+statuses[429] != 24 {
		t.Error(statuses)
	}
	l := s.leased(t, "plain")
	until(t, "places that are not given back", func() bool {
		l.engine.mu.Lock()
		defer l.engine.mu.Unlock()
		return l.engine.free == 2 && l.engine.reserved == 0 && len(l.engine.waiting) == 0
	})
	if busy, queue := testutil.ToFloat64(s.metrics.busy.WithLabelValues("plain")), testutil.ToFloat64(s.metrics.queue.WithLabelValues("plain")); busy != 0 || queue != 0 {
		t.Error(busy, queue)
	}
}

// A client that does not read its events holds no slot once its replies are generated.
func TestWhoReadsSlowlyHoldsNoSlot(t *testing.T) {
	s := serve(t, "-slots", "2")
	l := s.leased(t, "plain")
	g := &generation{Transcript: &realizar.Transcript{Messages: []any{message{Role: "user", Content: "Once upon a time"}}}}
	g.Reply.MaxTokens = 60
	other := *g
	texts, ended, first := [2]string{}, 0, true
	for e, err := range l.generate(t.Context(), g, &other) {
		must(t, err)
		if first {
			first = false
			until(t, "a slot is held", func() bool { return testutil.ToFloat64(s.metrics.busy.WithLabelValues("plain")) == 0 })
		}
		texts[e.Choice] += e.Text
		if e.Outcome != nil {
			ended++
		}
	}
	want := content(s.chat(t, "plain", "Once upon a time", `"temperature": 0, "max_tokens": 60`))
	if ended != 2 || texts[0] != want || texts[1] != want {
		t.Errorf("%d %q %q", ended, texts, want)
	}
}
