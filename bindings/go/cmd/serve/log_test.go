package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"realizar.dev/go"
)

// logLines collects the log.
type logLines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logLines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(data)
}

// request returns the line of the request with an id, and waits for the line.
func (l *logLines) request(t *testing.T, id string) (line map[string]any) {
	t.Helper()
	until(t, "no line has "+id, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, text := range strings.Split(strings.TrimSpace(l.String()), "\n") {
			if strings.Contains(text, `"id":"`+id+`"`) {
				line = nil
				must(t, json.Unmarshal([]byte(text), &line))
				return true
			}
		}
		return false
	})
	return line
}

// collectLog collects the log as JSON until the end of a test.
func collectLog(t *testing.T, level slog.Level) *logLines {
	t.Helper()
	lines, before, writer, flags := &logLines{}, slog.Default(), log.Writer(), log.Flags()
	slog.SetDefault(slog.New(slog.NewJSONHandler(lines, &slog.HandlerOptions{Level: level})))
	t.Cleanup(func() {
		slog.SetDefault(before)
		log.SetOutput(writer)
		log.SetFlags(flags)
	})
	return lines
}

func TestEachRequestHasALine(t *testing.T) {
	lines := collectLog(t, slog.LevelInfo)
	s := serve(t, "-keys", written(t, "keys", "secret name=alice\n"))
	ask := func(id, path, body string) (int, http.Header) {
		status, header, _ := send(t, http.DefaultClient, http.MethodPost, s.url+path, body, "Authorization", "Bearer secret", "X-Request-Id", id)
		return status, header
	}
	chat := body("plain", "Once upon a time", `"temperature": 0, "max_tokens": 7, "n": 2`)
	for i, text := range []string{chat, streamed(chat)} {
		id := fmt.Sprint("mine-", i)
		if status, header := ask(id, "/v1/chat/completions", text); status != http.StatusOK || header.Get("X-Request-Id") != id {
			t.Error(status, header)
		}
		line := lines.request(t, id)
		for name, want := range map[string]any{
			"level": "INFO", "msg": "request", "method": "POST", "path": "/v1/chat/completions", "status": 200.0, "tokens_in": 5.0, "tokens_out": 14.0,
			"model": "plain", "key": "alice", "request": nil, "response": nil, "error": nil,
		} {
			if line[name] != want {
				t.Errorf("%s: %v", name, line)
			}
		}
		first, all := line["first_token_seconds"].(float64), line["seconds"].(float64)
		if first <= 0 || all < first {
			t.Error(line)
		}
	}
	ask("text", "/v1/completions", `{"model": "plain", "prompt": ["Once upon a time", "Once upon a time"], "max_tokens": 3}`)
	if line := lines.request(t, "text"); line["tokens_in"] != 10.0 || line["tokens_out"] != 6.0 {
		t.Error(line)
	}
	ask("vectors", "/v1/embeddings", `{"model": "plain", "input": ["Once upon a time"], "pooling": "mean"}`)
	if line := lines.request(t, "vectors"); line["tokens_in"] != 5.0 || line["tokens_out"] != 0.0 {
		t.Error(line)
	}
	ask("wrong", "/v1/chat/completions", `{"model": "nobody", "messages": []}`)
	if line := lines.request(t, "wrong"); line["status"] != 404.0 && line["status"] != 400.0 || line["error"] == nil {
		t.Error(line)
	}
	status, header, _ := send(t, http.DefaultClient, http.MethodGet, s.url+"/v1/models", "", "X-Request-Id", "unknown-key")
	if line := lines.request(t, "unknown-key"); status != http.StatusUnauthorized || line["key"] != nil || header.Get("X-Request-Id") != "unknown-key" {
		t.Error(line)
	}
	// Invalid ids are replaced, and the log contains no texts and no keys.
	for _, id := range []string{"", "a b", strings.Repeat("x", 129), `"`, "ä"} {
		if _, header := ask(id, "/v1/models", ""); !strings.HasPrefix(header.Get("X-Request-Id"), "req_") {
			t.Error(id, header)
		}
	}
	_, header, _ = send(t, http.DefaultClient, http.MethodPost, s.url+"/v1/messages", "{}", "Anthropic-Version", "2023-06-01")
	if id := header.Get("Request-Id"); id == "" || id != header.Get("X-Request-Id") {
		t.Error(header)
	}
	send(t, http.DefaultClient, http.MethodGet, s.url+"/health", "", "X-Request-Id", "probe")
	if text := lines.String(); strings.Contains(text, "Once upon") || strings.Contains(text, "secret") || strings.Contains(text, "probe") {
		t.Error(text)
	}
}

func TestContentIsLoggedOnRequest(t *testing.T) {
	lines := collectLog(t, slog.LevelDebug)
	s := serve(t, "-log-content")
	send(t, http.DefaultClient, http.MethodPost, s.url+"/v1/completions", `{"model": "plain", "prompt": "Once upon a time", "max_tokens": 4, "temperature": 0}`, "X-Request-Id", "one")
	line := lines.request(t, "one")
	if request, response := line["request"].(string), line["response"].(string); !strings.Contains(request, "Once upon") || !strings.Contains(response, ", there") {
		t.Error(line)
	}
	send(t, http.DefaultClient, http.MethodPost, s.url+"/v1/completions", `{"model": "`+strings.Repeat("x", 2*maxContent)+`"}`, "X-Request-Id", "long")
	if line := lines.request(t, "long"); len(line["request"].(string)) != maxContent {
		t.Error(len(line["request"].(string)))
	}
	send(t, http.DefaultClient, http.MethodGet, s.url+"/live", "", "X-Request-Id", "probe")
	if line := lines.request(t, "probe"); line["level"] != "DEBUG" || line["status"] != 200.0 {
		t.Error(line)
	}
	for _, wrong := range [][2]string{{"xml", "info"}, {"text", "loud"}} {
		if err := setLog(wrong[0], wrong[1]); err == nil {
			t.Error(wrong)
		}
	}
}

// Each line of the text form has a level, and -log-level applies to the messages of the service too.
func TestMessagesHaveLevels(t *testing.T) {
	for level, loaded := range map[string]bool{"info": true, "warn": false} {
		lines, writer := &logLines{}, log.Writer()
		log.SetOutput(lines)
		before := slog.SetLogLoggerLevel(slog.LevelInfo)
		t.Cleanup(func() {
			log.SetOutput(writer)
			slog.SetLogLoggerLevel(before)
		})
		must(t, setLog("text", level))
		serve(t).leased(t, "plain")
		libraryLog(realizar.LogError, "it failed")
		sayOnce("the test", level)
		text := lines.String()
		for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
			if !regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d (INFO|WARN|ERROR) `).MatchString(line) {
				t.Error(line)
			}
		}
		if strings.Contains(text, "INFO the model plain was loaded") != loaded || !strings.Contains(text, "ERROR the library: it failed") ||
			!strings.Contains(text, "WARN the test: "+level+" (logged once)") {
			t.Error(level, text)
		}
	}
}

func jsonOf(text string, value any) error { return json.Unmarshal([]byte(text), value) }
