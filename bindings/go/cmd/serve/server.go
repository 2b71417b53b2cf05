// The server: routes, keys, limits on clients, and graceful shutdown.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"realizar.dev/go"
	"realizar.dev/go/cmd/serve/internal/network"
	"realizar.dev/go/cmd/serve/page"
)

const (
	readTimeout = 30 * time.Second // timeout for a request to arrive
	hungUp      = 499              // status in the metrics of a request whose client has disconnected
)

// route is a path of an API. Its handler is called with a valid key, a body of bounded size, and a context with the
// request's deadline. An error of the handler is reported in the form of the API.
type route struct {
	pattern string // pattern of http.ServeMux
	form    form
	handler func(s *server, w http.ResponseWriter, r *http.Request) error
}

// routes are all routes of the APIs.
var routes = []route{
	{"GET /v1/models", openAI, (*server).list},
	{"GET /v1/models/{name...}", openAI, (*server).retrieve},
	{"POST /models/load", openAI, (*server).load},
	{"POST /models/unload", openAI, (*server).unload},
	{"POST /models/reload", openAI, (*server).reload},
	{"POST /v1/chat/completions", openAI, (*server).chat},
	{"POST /v1/completions", openAI, (*server).completions},
	{"POST /v1/embeddings", openAI, (*server).embeddings},
	{"POST /v1/rerank", openAI, (*server).rerank},
	{"POST /rerank", openAI, (*server).rerank},
	{"POST /v2/rerank", openAI, (*server).rerank},
	{"POST /infill", openAI, (*server).infill},
	{"POST /tokenize", openAI, (*server).tokenize},
	{"POST /detokenize", openAI, (*server).detokenize},
	{"POST /apply-template", openAI, (*server).applyTemplate},
	{"POST /v1/audio/transcriptions", openAI, (*server).transcriptions},
	{"POST /v1/responses", openAI, (*server).responses},
	{"POST /v1/responses/input_tokens", openAI, (*server).countInput},
	{"GET /v1/responses/{id}", openAI, (*server).getResponse},
	{"DELETE /v1/responses/{id}", openAI, (*server).deleteResponse},
	{"POST /v1/responses/{id}/cancel", openAI, (*server).cancelResponse},
	{"GET /v1/responses/{id}/input_items", openAI, (*server).inputItems},
	{"POST /v1/messages", anthropic, (*server).messages},
	{"POST /v1/messages/count_tokens", anthropic, (*server).countTokens},
}

// server answers requests.
type server struct {
	options *options
	models  *models
	metrics *metrics
	stored  keeper[*storedResponse]
	items   keeper[*storedItem] // items of stored responses, by id
	threads keeper[*thread]
	keys    atomic.Pointer[[]*key]
	tls     *network.Certificate // nil: no TLS
	reading sync.Mutex           // held while files are read again
	state   atomic.Int32
	bodies  atomic.Int64 // bytes of the bodies of running requests
}

// States of a server, in order.
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
	if err = s.readKeys(); err != nil {
		return nil, err
	}
	if o.tlsCert != "" {
		if s.tls, err = network.NewCertificate(o.tlsCert, o.tlsKey); err != nil {
			return nil, err
		}
	}
	s.models, err = newModels(o, s.metrics)
	return s, err
}

// open returns the handlers of the paths that need no key: they report about the service, not about its clients.
func (s *server) open() map[string]http.Handler {
	return map[string]http.Handler{
		"GET /health": http.HandlerFunc(s.health), "GET /ready": http.HandlerFunc(s.health), "GET /live": http.HandlerFunc(s.live),
		"GET /version": http.HandlerFunc(s.version), "GET /openapi.json": s.openAPI(),
		"GET /metrics": promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}),
	}
}

// handler returns the handler of all paths.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.Handle(route.pattern, s.serve(route))
	}
	for path, file := range page.Files {
		mux.Handle("GET "+path, file)
	}
	for pattern, handler := range s.open() {
		mux.Handle(pattern, handler)
	}
	return s.logged(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for strings.Contains(r.URL.EscapedPath(), "//") { // of a base URL that ends in one; ServeMux answers with a redirect
			r.URL.Path, r.URL.RawPath = strings.ReplaceAll(r.URL.Path, "//", "/"), strings.ReplaceAll(r.URL.RawPath, "//", "/")
		}
		_, pattern := mux.Handler(r)
		if _, isPage := page.Files[strings.TrimPrefix(pattern, "GET ")]; isPage { // the page has no data
			mux.ServeHTTP(w, r)
			return
		}
		methods := func() (all []string) {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
				other := *r
				other.Method = method
				if _, pattern := mux.Handler(&other); pattern != "" {
					all = append(all, method)
				}
			}
			return all
		}
		if s.cross(w, r, methods) {
			s.count("", http.StatusNoContent, time.Now())
			return
		}
		e := s.fromElsewhere(r)
		if e == nil && pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		if e == nil {
			e = &apiError{status: http.StatusNotFound, message: cut(fmt.Sprintf("Invalid URL (%s %s)", r.Method, r.URL.Path))}
			if all := methods(); len(all) > 0 {
				w.Header().Set("Allow", strings.Join(all, ", "))
				e.status = http.StatusMethodNotAllowed
			}
		}
		s.count(strings.TrimPrefix(pattern, r.Method+" "), e.status, time.Now())
		recordOf(r.Context()).fails(e.message)
		writeError(w, formOf(r, openAI), e)
	}))
}

// formOf returns the form of a response: Anthropic's for clients of Anthropic, otherwise the form of the path.
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
		defer network.ConnectionOf(r.Context()).Answering(r)()
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
			recordOf(ctx).fails(told.message)
			logError(path, told.apiError)
		case answer.status == 0 && (errors.As(err, &refused) || !gone):
			e := asAPIError(err)
			recordOf(ctx).fails(e.message)
			logError(path, e)
			writeError(answer, formOf(r, route.form), e)
		default: // the client has disconnected, or the response is truncated, and aborting makes that visible
			if gone {
				answer.status = hungUp
			} else {
				recordOf(ctx).fails("the response is cut off")
				alarm("%s: %v", path, err)
			}
			recordOf(ctx).status(answer.status)
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
			alarm("%s: %v\n%s", route.pattern, caught, debug.Stack())
			err = errors.New("a panic")
		}
	}()
	leave, err := s.enter(w, r)
	if err != nil {
		return err
	}
	defer leave()
	if s.state.Load() == stopping {
		w.Header().Set("Connection", "close")
		return &apiError{status: http.StatusServiceUnavailable, code: "stopping", message: "the service is stopping", retryAfter: time.Second}
	}
	r.Body = http.MaxBytesReader(w, r.Body, s.options.body)
	if err := unpack(w, r, s.options.body); err != nil {
		return err
	}
	body := &counted{ReadCloser: r.Body, content: recordOf(r.Context()).request, all: &s.bodies, most: s.options.maxBodies(s.models.count())}
	defer body.release()
	r.Body = body
	return route.handler(s, w, r)
}

func logError(path string, e *apiError) {
	if e.logged != nil {
		alarm("%s: %v", path, e.logged)
	}
}

func (s *server) count(path string, status int, start time.Time) {
	s.metrics.requests.WithLabelValues(path, strconv.Itoa(status)).Inc()
	s.metrics.durations.WithLabelValues(path).Observe(time.Since(start).Seconds())
}

// answer records the status of a response; 0: it has not begun.
type answer struct {
	http.ResponseWriter
	status  int
	content *excerpt // content to log; nil: content is not logged
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
	if a.content != nil {
		a.content.add(data)
	}
	return a.ResponseWriter.Write(data)
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// health serves /health and /ready: 200 from the time at which the initial models are loaded until the shutdown begins.
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

// live serves /live: 200 as long as the process answers.
func (s *server) live(w http.ResponseWriter, r *http.Request) {
	_ = writeStatus(w, http.StatusOK, map[string]any{"status": "live"})
}

// version serves /version.
func (s *server) version(w http.ResponseWriter, r *http.Request) {
	_ = writeStatus(w, http.StatusOK, map[string]any{"version": realizar.Version()})
}
