// The log: a line per request with its id, status, times, tokens, model and key.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"os"
	"regexp"
	"sync"
	"time"
)

// record is what the log says about a request.
type record struct {
	id    string
	start time.Time
	key   *key // nil: none

	mu      sync.Mutex
	model   string
	first   time.Duration // time to the first token; 0: there was none
	in, out int           // tokens of prompts, and of replies
	failure string        // error message that was sent to the client
	ended   int           // status if it differs from the status of the response; otherwise 0
	request *excerpt      // body of the request; nil: content is not logged
}

type recordKey struct{}

// recordOf returns the record of a request; without one, a record that nobody reads.
func recordOf(ctx context.Context) *record {
	if r, ok := ctx.Value(recordKey{}).(*record); ok {
		return r
	}
	return &record{}
}

// names records the model that a request names.
func (r *record) names(model string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.model = cut(model)
}

// begins records the time of the first token.
func (r *record) begins() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == 0 {
		r.first = time.Since(r.start)
	}
}

// counts adds tokens. Choices of a chat share their prompt, so only the longest prompt counts.
func (r *record) counts(in, out int, shared bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if shared {
		r.in = max(r.in, in)
	} else {
		r.in += in
	}
	r.out += out
}

// fails records the error that ends a request.
func (r *record) fails(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = message
}

// status records the status of a request whose response has another status, or none.
func (r *record) status(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = status
}

// maxContent bounds the bytes of a request and of its response that -log-content logs.
const maxContent = 64 << 10

// excerpt collects the beginning of a text for the log.
type excerpt struct{ bytes.Buffer }

func (c *excerpt) add(data []byte) {
	c.Write(data[:min(len(data), maxContent-c.Len())])
}

// validID are ids of requests that clients may choose: they are logged and sent back.
var validID = regexp.MustCompile(`^[A-Za-z0-9._:/+=@~-]{1,128}$`)

// logged gives each request a record and an id, and logs the request. The id is the client's X-Request-Id if that is
// valid.
func (s *server) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		record := &record{id: r.Header.Get("X-Request-Id"), start: time.Now()}
		if !validID.MatchString(record.id) {
			record.id = "req_" + rand.Text()
		}
		w.Header().Set("X-Request-Id", record.id)
		if formOf(r, openAI) == anthropic {
			w.Header().Set("Request-Id", record.id)
		}
		answer := &answer{ResponseWriter: w}
		if s.options.logContent {
			record.request, answer.content = &excerpt{}, &excerpt{}
		}
		defer s.log(r, record, answer)
		next.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), recordKey{}, record)))
	})
}

// log writes the line of a request.
func (s *server) log(r *http.Request, record *record, answer *answer) {
	record.mu.Lock()
	defer record.mu.Unlock()
	level, status := slog.LevelInfo, cmp.Or(record.ended, answer.status, http.StatusOK)
	switch {
	case status >= http.StatusInternalServerError:
		level = slog.LevelWarn
	case quiet[r.URL.Path]:
		level = slog.LevelDebug
	}
	if !slog.Default().Enabled(context.Background(), level) {
		return
	}
	line := []any{
		"id", record.id, "method", cut(r.Method), "path", cut(r.URL.Path), "status", status, "seconds", rounded(time.Since(record.start)),
	}
	if record.first > 0 {
		line = append(line, "first_token_seconds", rounded(record.first))
	}
	if record.in > 0 || record.out > 0 {
		line = append(line, "tokens_in", record.in, "tokens_out", record.out)
	}
	if record.model != "" {
		line = append(line, "model", record.model)
	}
	if record.key != nil {
		line = append(line, "key", record.key.name)
	}
	if record.failure != "" {
		line = append(line, "error", record.failure)
	}
	if record.request != nil {
		line = append(line, "request", record.request.String(), "response", answer.content.String())
	}
	slog.Log(context.Background(), level, "request", line...)
}

// quiet are the paths that monitoring systems request all the time. They are logged only with -log-level debug.
var quiet = map[string]bool{"/health": true, "/ready": true, "/live": true, "/metrics": true}

func rounded(d time.Duration) float64 { return math.Round(d.Seconds()*1e4) / 1e4 }

// levels are the values of -log-level.
var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// setLog sets the form and the level of the log.
func setLog(form, level string) error {
	least, known := levels[level]
	switch {
	case !known:
		return fmt.Errorf("-log-level is %q; it must be debug, info, warn or error", level)
	case form == "json":
		slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: least})))
	case form != "text":
		return fmt.Errorf("-log is %q; it must be text or json", form)
	default:
		slog.SetLogLoggerLevel(least)
	}
	return nil
}

// inform logs a message of the level info.
func inform(format string, arguments ...any) { slog.Info(fmt.Sprintf(format, arguments...)) }

// warn logs a warning.
func warn(format string, arguments ...any) { slog.Warn(fmt.Sprintf(format, arguments...)) }

// alarm logs an error.
func alarm(format string, arguments ...any) { slog.Error(fmt.Sprintf(format, arguments...)) }
