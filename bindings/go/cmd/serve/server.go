// The server: routes, keys, limits on clients, and graceful shutdown.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	readTimeout  = 30 * time.Second // timeout for a request to arrive
	writeTimeout = 30 * time.Second // timeout for writing a piece of a response
	hungUp       = 499              // status in the metrics of a request whose client has disconnected
)

// route is a path of an API. Its handler is called with a known key, a body of bounded size, and a context with the
// deadline of a request. An error of it is told in the form of the API.
type route struct {
	pattern string // pattern of http.ServeMux
	form    form
	handler func(s *server, w http.ResponseWriter, r *http.Request) error
}

// routes are all of them.
var routes = []route{
	{"GET /v1/models", openAI, (*server).list},
	{"GET /v1/models/{name...}", openAI, (*server).retrieve},
	{"POST /v1/chat/completions", openAI, (*server).chat},
	{"POST /v1/completions", openAI, (*server).completions},
	{"POST /v1/embeddings", openAI, (*server).embeddings},
	{"POST /v1/rerank", openAI, (*server).rerank},
	{"POST /rerank", openAI, (*server).rerank},
	{"POST /v1/responses", openAI, (*server).responses},
	{"POST /v1/responses/input_tokens", openAI, (*server).countInput},
	{"GET /v1/responses/{id}", openAI, (*server).getResponse},
	{"DELETE /v1/responses/{id}", openAI, (*server).deleteResponse},
	{"POST /v1/messages", anthropic, (*server).messages},
	{"POST /v1/messages/count_tokens", anthropic, (*server).countTokens},
}

// server answers requests.
type server struct {
	options *options
	models  *models
	metrics *metrics
	stored  keeper[*storedResponse]
	items   keeper[*storedItem] // of stored responses, by their ids
	threads keeper[*thread]
	keys    [][sha256.Size]byte // digests; nil: no key is required
	state   atomic.Int32
	bodies  atomic.Int64 // bytes of the bodies of running requests
}

// States of a server, in their order.
const (
	loadingModels int32 = iota
	ready
	stopping
)

func newServer(o *options) (*server, error) {
	s := &server{options: o, metrics: newMetrics()}
	var err error
	if o.store != "" {
		if err = os.MkdirAll(o.store, 0o700); err != nil { // the folder contains texts of clients
			return nil, err
		}
	}
	if o.keys != "" {
		if s.keys, err = readKeys(o.keys); err != nil {
			return nil, err
		}
	}
	s.models, err = newModels(o, s.metrics)
	return s, err
}

// readKeys reads a file with a key per line; empty lines and lines that begin with "#" are ignored.
func readKeys(path string) (keys [][sha256.Size]byte, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if key := bytes.TrimSpace(lines.Bytes()); len(key) > 0 && key[0] != '#' {
			keys = append(keys, sha256.Sum256(key))
		}
	}
	if lines.Err() == nil && len(keys) == 0 {
		return nil, fmt.Errorf("the file %s contains no key (-keys); it must have at least one", path)
	}
	return keys, lines.Err()
}

// authorized reports whether a request has one of the keys, in constant time.
func (s *server) authorized(r *http.Request) bool {
	if s.keys == nil {
		return true
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		given = r.Header.Get("X-Api-Key")
	}
	digest, found := sha256.Sum256([]byte(given)), 0
	for _, key := range s.keys {
		found |= subtle.ConstantTimeCompare(digest[:], key[:])
	}
	return found == 1
}

// ServeHTTP of the result answers every path.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.Handle(route.pattern, s.serve(route))
	}
	for path, file := range pageFiles {
		mux.Handle("GET "+path, file)
	}
	mux.HandleFunc("GET /health", s.health)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		if _, isPage := pageFiles[strings.TrimPrefix(pattern, "GET ")]; isPage { // which has no data
			mux.ServeHTTP(w, r)
			return
		}
		if err := s.fromElsewhere(r); err != nil {
			s.count(strings.TrimPrefix(pattern, r.Method+" "), err.status, time.Now())
			writeError(w, formOf(r, openAI), err)
			return
		}
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		e := &apiError{status: http.StatusNotFound, message: cut(fmt.Sprintf("there is no %s %s", r.Method, r.URL.Path))}
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			other := *r
			other.Method = method
			if _, pattern := mux.Handler(&other); pattern != "" {
				w.Header().Add("Allow", method)
				e.status = http.StatusMethodNotAllowed
			}
		}
		s.count("", e.status, time.Now())
		writeError(w, formOf(r, openAI), e)
	})
}

// formOf returns the form of a response: Anthropic's for its clients, otherwise the form of the path.
func formOf(r *http.Request, path form) form {
	if r.Header.Get("Anthropic-Version") != "" {
		return anthropic
	}
	return path
}

// serve answers requests of one path.
func (s *server) serve(route route) http.Handler {
	_, path, _ := strings.Cut(route.pattern, " ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		defer connectionOf(r.Context()).answering(r)()
		answer := &answer{ResponseWriter: w}
		ctx, cancel := context.WithTimeout(r.Context(), s.options.deadline)
		defer cancel()
		err := s.checked(route, answer, r.WithContext(ctx))
		var told *toldError
		var refused *apiError
		gone := errors.Is(context.Cause(r.Context()), context.Canceled)
		switch {
		case err == nil:
		case errors.As(err, &told):
			answer.status = told.status
			logError(path, told.apiError)
		case answer.status == 0 && (errors.As(err, &refused) || !gone):
			e := asAPIError(err)
			logError(path, e)
			writeError(answer, formOf(r, route.form), e)
		default: // the client has disconnected, or the response is truncated, which its end must show
			if gone {
				answer.status = hungUp
			} else {
				log.Printf("%s: %v", path, err)
			}
			s.count(path, answer.status, start)
			panic(http.ErrAbortHandler)
		}
		s.count(path, answer.status, start)
	})
}

// checked calls the handler of a route if the request passes the common checks.
func (s *server) checked(route route, w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		if caught := recover(); caught != nil {
			log.Printf("%s: %v\n%s", route.pattern, caught, debug.Stack())
			err = errors.New("a panic")
		}
	}()
	switch {
	case !s.authorized(r):
		return &apiError{status: http.StatusUnauthorized, code: "invalid_api_key", message: "the key is missing or unknown"}
	case s.state.Load() == stopping:
		w.Header().Set("Connection", "close")
		return &apiError{status: http.StatusServiceUnavailable, code: "stopping", message: "the service is being stopped", retryAfter: time.Second}
	}
	r.Body = http.MaxBytesReader(w, r.Body, s.options.body)
	if err := unpack(w, r, s.options.body); err != nil {
		return err
	}
	body := &counted{ReadCloser: r.Body, all: &s.bodies, most: s.options.maxBodies()}
	defer body.release()
	r.Body = body
	return route.handler(s, w, r)
}

func logError(path string, e *apiError) {
	if e.logged != nil {
		log.Printf("%s: %v", path, e.logged)
	}
}

func (s *server) count(path string, status int, start time.Time) {
	s.metrics.requests.WithLabelValues(path, strconv.Itoa(status)).Inc()
	s.metrics.durations.WithLabelValues(path).Observe(time.Since(start).Seconds())
}

// answer records the status of a response; 0: it has not begun.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(data []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(data)
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// health serves /health: 200 once the models that are loaded at the start are there.
func (s *server) health(w http.ResponseWriter, r *http.Request) {
	status, text := http.StatusServiceUnavailable, "loading"
	switch s.state.Load() {
	case ready:
		status, text = http.StatusOK, "ready"
	case stopping:
		text = "stopping"
	}
	_ = writeStatus(w, status, map[string]any{"status": text})
}
