// Reading of requests and writing of errors and streams, for all APIs.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"realizar.dev/go"
	"realizar.dev/go/cmd/serve/internal/network"
)

// form is the API whose format a response has.
type form int

const (
	openAI form = iota
	anthropic
)

// apiError is an error in the form that an API reports.
type apiError struct {
	status      int
	param, code string // fields of OpenAI's form; "": null
	message     string
	anthropic   string        // message in Anthropic's form; "": the same
	retryAfter  time.Duration // 0: no header
	logged      error         // cause, only for the log; nil: none
}

func (e *apiError) Error() string { return e.message }

// refuse returns the error that rejects the field of the request at the path param; "": it rejects the whole request.
// Long arguments are truncated.
func refuse(param, format string, arguments ...any) *apiError {
	for i, argument := range arguments {
		switch argument := argument.(type) {
		case string:
			arguments[i] = cut(argument)
		case error:
			arguments[i] = cut(plain(argument))
		}
	}
	return &apiError{status: http.StatusBadRequest, param: cut(param), message: fmt.Sprintf(format, arguments...)}
}

// plain returns an error without names of this program's types.
func plain(err error) string {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return err.Error()
	case wrong.Field == "":
		return "it is " + withArticle(wrong.Value)
	}
	return fmt.Sprintf("%q is %s", wrong.Field, withArticle(wrong.Value))
}

// cut returns a text for quoting in errors, truncated if it is long.
func cut(text string) string {
	const most = 500
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// errorTypes are the types of errors by status, of OpenAI and of Anthropic.
var errorTypes = map[int][2]string{
	http.StatusBadRequest:            {"invalid_request_error", "invalid_request_error"},
	http.StatusUnauthorized:          {"invalid_request_error", "authentication_error"},
	http.StatusForbidden:             {"invalid_request_error", "permission_error"},
	http.StatusNotFound:              {"invalid_request_error", "not_found_error"},
	http.StatusMethodNotAllowed:      {"invalid_request_error", "invalid_request_error"},
	http.StatusUnsupportedMediaType:  {"invalid_request_error", "invalid_request_error"},
	http.StatusRequestTimeout:        {"invalid_request_error", "invalid_request_error"},
	http.StatusRequestEntityTooLarge: {"invalid_request_error", "request_too_large"},
	http.StatusTooManyRequests:       {"rate_limit_exceeded", "rate_limit_error"},
	http.StatusServiceUnavailable:    {"server_error", "overloaded_error"},
	http.StatusGatewayTimeout:        {"server_error", "timeout_error"},
}

// body returns the error in the form of an API.
func (e *apiError) body(f form) any {
	types, known := errorTypes[e.status]
	if !known {
		types = [2]string{"server_error", "api_error"}
	}
	if f == anthropic {
		told := map[string]any{"type": types[1], "message": cmp.Or(e.anthropic, e.message)}
		if e.code != "" {
			told["details"] = map[string]any{"error_code": e.code}
		}
		return map[string]any{"type": "error", "error": told}
	}
	return map[string]any{"error": map[string]any{"message": e.message, "type": types[0], "param": orNull(e.param), "code": orNull(e.code)}}
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// fieldOf finds the field of a request with which an error of the library begins.
var fieldOf = regexp.MustCompile(`^(tools|messages)\[\d+\](\.\w+|\[\d+\])*`)

// asAPIError converts an error for clients; errors of the library by their codes.
func asAPIError(err error) *apiError {
	var api *apiError
	var library *realizar.Error
	switch {
	case errors.As(err, &api):
		return api
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, realizar.ErrDeadline):
		return &apiError{status: http.StatusGatewayTimeout, code: "timeout", message: "the request took longer than the deadline of the service (-deadline)"}
	case !errors.As(err, &library):
		return &apiError{status: http.StatusInternalServerError, message: "the service has failed; its log has the reason", logged: err}
	}
	switch library.Code {
	case realizar.ErrContextFull:
		return &apiError{status: http.StatusBadRequest, param: "messages", code: "context_length_exceeded", message: library.Message}
	case realizar.ErrInvalidArgument, realizar.ErrNotFound, realizar.ErrUnsupported, realizar.ErrMismatch:
		return refuse(fieldOf.FindString(library.Message), "%s", library.Message)
	case realizar.ErrResources:
		return &apiError{status: http.StatusServiceUnavailable, message: library.Message, retryAfter: 5 * time.Second, logged: err}
	case realizar.ErrOutOfMemory, realizar.ErrDeviceOutOfMemory, realizar.ErrLimit:
		return &apiError{status: http.StatusServiceUnavailable, code: "out_of_memory", message: library.Message, retryAfter: 5 * time.Second, logged: err}
	}
	return &apiError{status: http.StatusInternalServerError, message: "the service has failed; its log has the reason", logged: err}
}

// writeError answers with an error.
func writeError(w http.ResponseWriter, f form, e *apiError) {
	if e.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.retryAfter.Seconds()))))
	}
	if e.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeStatus(w, e.status, e.body(f))
}

// writeJSON answers with a value.
func writeJSON(w http.ResponseWriter, value any) error {
	return writeStatus(w, http.StatusOK, value)
}

func writeStatus(w http.ResponseWriter, status int, value any) error {
	body, err := marshal(value)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(network.WriteTimeout))
	w.WriteHeader(status)
	_, err = w.Write(body)
	return err
}

// writeText answers with a plain text.
func writeText(w http.ResponseWriter, text string) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(network.WriteTimeout))
	_, err := io.WriteString(w, text)
	return err
}

// marshal returns the JSON of a value, without escaping "<".
func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimRight(out.Bytes(), "\n"), err
}

// readKnown reads the body of a request. Fields that have no effect and are not known to be harmless are rejected, as
// OpenAI does.
func readKnown(w http.ResponseWriter, r *http.Request, value any) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	if err := refusal(json.Unmarshal(body, value)); err != nil {
		return err
	}
	if string(bytes.TrimSpace(body)) == "null" {
		return refuse("", "the body is null; it must be an object")
	}
	return checkNames(body, reflect.TypeOf(value))
}

// listOrText reads a list, or a text that stands for a list with one entry.
func listOrText[T any](data []byte, list *[]T, one func(text string) T) error {
	var text string
	if string(data) != "null" && json.Unmarshal(data, &text) == nil {
		*list = []T{one(text)}
		return nil
	}
	return json.Unmarshal(data, list)
}

// refusal returns the error for an invalid body; nil if it is valid.
func refusal(err error) error {
	var wrong *json.UnmarshalTypeError
	var api *apiError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &api):
		return api
	case errors.As(err, &wrong) && wrong.Field != "":
		field := strings.TrimPrefix(strings.TrimPrefix(wrong.Field, "wish."), "guided.") // requests have no objects for these
		must := expected(wrong.Type)
		if strings.HasPrefix(wrong.Value, "number ") && must == "a number" {
			must += " within its range"
		}
		return refuse(field, "%s is %s; it must be %s", field, withArticle(wrong.Value), must)
	case errors.As(err, &wrong) && wrong.Type.Kind() == reflect.Slice:
		return refuse("", "a value of the request is %s; it must be a text or a list", withArticle(wrong.Value))
	case errors.As(err, &wrong):
		return refuse("", "the request, or a value in it, is %s; it must be an object", withArticle(wrong.Value))
	}
	return refuse("", "the body is not valid JSON: %v", err)
}

// withArticle returns the name of a JSON value in encoding/json, such as "array", with its article.
func withArticle(name string) string {
	if strings.ContainsRune("aeiou", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}

// expected names the JSON values of a type.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Pointer:
		return expected(t.Elem())
	}
	return "an integer within its range"
}

// stream writes server-sent events. The answer begins once the request is accepted, so that earlier errors can set the
// status.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func newStream(w http.ResponseWriter) *stream {
	return &stream{w: w, control: http.NewResponseController(w)}
}

// send writes an event; its name may be "". It ends the stream of a client that does not read for network.WriteTimeout.
func (s *stream) send(name string, value any) error {
	data, err := marshal(value)
	if err != nil {
		return err
	}
	return s.sendText(name, string(data))
}

// sendText sends a raw text, such as "[DONE]".
func (s *stream) sendText(name, data string) error {
	s.begin()
	if name != "" {
		name = "event: " + name + "\n"
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(network.WriteTimeout))
	if _, err := io.WriteString(s.w, name+"data: "+data+"\n\n"); err != nil {
		return err
	}
	return s.control.Flush()
}

// comment signals a waiting client that the answer continues.
func (s *stream) comment() error {
	s.begin()
	_ = s.control.SetWriteDeadline(time.Now().Add(network.WriteTimeout))
	if _, err := io.WriteString(s.w, ":\n\n"); err != nil {
		return err
	}
	return s.control.Flush()
}

// sign begins the answer to an accepted request, and signals a waiting client that the answer continues.
func (s *stream) sign(sign sign) error {
	if sign == waiting {
		return s.comment()
	}
	s.begin()
	return s.control.Flush()
}

func (s *stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	header := s.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no")
	s.w.WriteHeader(http.StatusOK)
}

// fail reports an error as an event if the stream has begun. Otherwise it returns the error, so that the response gets
// its status.
func (s *stream) fail(f form, err error) error {
	if !s.begun || errors.Is(err, context.Canceled) { // the client has disconnected
		return err
	}
	name := ""
	if f == anthropic {
		name = "error"
	}
	e := asAPIError(err)
	if err := s.send(name, e.body(f)); err != nil {
		return err
	}
	return &toldError{e}
}

// toldError is an error that was already sent to the client.
type toldError struct{ *apiError }

func (e *toldError) Unwrap() error { return e.apiError }

// newID returns a new id for an object of an API, such as "chatcmpl-..."
func newID(prefix string) string { return prefix + rand.Text() }
