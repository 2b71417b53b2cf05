// The OpenAPI 3.1 document at /openapi.json. The table of operations has the facts that the handlers' types do not
// contain. Schemas of requests come from the types that the handlers read.
package main

import (
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"realizar.dev/go"
)

// operation describes a route. Shapes are lists of fields, as shapeOf reads them.
type operation struct {
	id, tag, summary string
	request          reflect.Type // type of the body; nil: none
	needs            string       // fields that a request must have
	form             string       // shape of a body that is multipart/form-data; "": it is JSON
	answer           string       // shape of the answer, or its content type
	streams          bool         // with "stream", the answer is server-sent events
	isOpen           bool         // no key is required
}

const (
	modelShape    = "id string, object string, created integer, owned_by string, realizar object"
	listShape     = "object string, data array, has_more boolean"
	responseShape = "id string, object string, created_at integer, status string, model string, output array"
	rerankShape   = "model string, results array"
)

// operations describes every route but the page's, by its pattern.
var operations = map[string]operation{
	"GET /v1/models":           {id: "listModels", tag: "models", summary: "Lists all models, adapters and aliases", answer: listShape},
	"GET /v1/models/{name...}": {id: "getModel", tag: "models", summary: "Describes a model: its context length and what it can do", answer: modelShape},
	"POST /models/load":        {id: "loadModel", tag: "administration", summary: "Loads a model", request: reflect.TypeFor[modelRequest](), needs: "model", answer: modelShape},
	"POST /models/unload": {
		id: "unloadModel", tag: "administration", summary: "Unloads a model after the requests that use it",
		request: reflect.TypeFor[modelRequest](), needs: "model", answer: modelShape,
	},
	"POST /models/reload": {
		id: "reloadModel", tag: "administration", summary: "Loads a model again or, without one, reads the keys, the certificate and the folder of models again",
		request: reflect.TypeFor[modelRequest](), answer: "object string",
	},
	"POST /v1/chat/completions": {
		id: "createChatCompletion", tag: "OpenAI", summary: "Replies to a chat", request: reflect.TypeFor[chatRequest](), needs: "model messages",
		answer: "id string, object string, created integer, model string, choices array, usage object", streams: true,
	},
	"POST /v1/completions": {
		id: "createCompletion", tag: "OpenAI", summary: "Continues texts", request: reflect.TypeFor[completionRequest](), needs: "model prompt",
		answer: "id string, object string, created integer, model string, choices array, usage object", streams: true,
	},
	"POST /v1/embeddings": {
		id: "createEmbedding", tag: "OpenAI", summary: "Embeds texts", request: reflect.TypeFor[embeddingRequest](), needs: "model input",
		answer: "object string, model string, data array, usage object",
	},
	"POST /v1/rerank": {
		id: "rerankV1", tag: "rerank", summary: "Orders documents by their relevance to a query",
		request: reflect.TypeFor[rerankRequest](), needs: "model query documents", answer: rerankShape,
	},
	"POST /rerank": {
		id: "rerank", tag: "rerank", summary: "Orders documents by their relevance to a query",
		request: reflect.TypeFor[rerankRequest](), needs: "model query documents", answer: rerankShape,
	},
	"POST /v2/rerank": {
		id: "rerankV2", tag: "rerank", summary: "Orders documents by their relevance to a query",
		request: reflect.TypeFor[rerankRequest](), needs: "model query documents", answer: rerankShape,
	},
	"POST /infill": {
		id: "infill", tag: "llama-server", summary: "Writes the text between a prefix and a suffix (fill in the middle)",
		request: reflect.TypeFor[infillRequest](), needs: "input_prefix input_suffix",
		answer: "content string, stop boolean, tokens array, model string", streams: true,
	},
	"POST /tokenize": {
		id: "tokenize", tag: "tokens", summary: "Lists the tokens of a text or a chat", request: reflect.TypeFor[tokenizeRequest](),
		answer: "tokens array, count integer, max_model_len integer",
	},
	"POST /detokenize": {
		id: "detokenize", tag: "tokens", summary: "Writes tokens as a text", request: reflect.TypeFor[detokenizeRequest](), needs: "tokens",
		answer: "content string, prompt string",
	},
	"POST /apply-template": {
		id: "applyTemplate", tag: "tokens", summary: "Writes a chat as the text of its prompt", request: reflect.TypeFor[templateRequest](), needs: "messages",
		answer: "prompt string",
	},
	"POST /v1/audio/transcriptions": {
		id: "createTranscription", tag: "OpenAI", summary: "Writes down speech",
		form: "file binary, model string, prompt? string, response_format? string, language? string, temperature? string, seed? string, " +
			"max_completion_tokens? string, stream? string", answer: "text string", streams: true,
	},
	"POST /v1/responses": {
		id: "createResponse", tag: "OpenAI", summary: "Replies to a list of items", request: reflect.TypeFor[responseRequest](), needs: "model",
		answer: responseShape, streams: true,
	},
	"POST /v1/responses/input_tokens": {
		id: "countResponseTokens", tag: "OpenAI", summary: "Counts the tokens of a request for a response",
		request: reflect.TypeFor[responseRequest](), needs: "model", answer: "object string, input_tokens integer",
	},
	"GET /v1/responses/{id}":    {id: "getResponse", tag: "OpenAI", summary: "Reads a stored response", answer: responseShape},
	"DELETE /v1/responses/{id}": {id: "deleteResponse", tag: "OpenAI", summary: "Deletes a stored response", answer: "id string, object string, deleted boolean"},
	"POST /v1/responses/{id}/cancel": {
		id: "cancelResponse", tag: "OpenAI", summary: "Rejected for every stored response, because none runs in the background", answer: responseShape,
	},
	"GET /v1/responses/{id}/input_items": {
		id: "listInputItems", tag: "OpenAI", summary: "Lists the input of a stored response, in pages (limit, order, after)", answer: listShape,
	},
	"POST /v1/messages": {
		id: "createMessage", tag: "Anthropic", summary: "Replies to messages", request: reflect.TypeFor[messagesRequest](), needs: "model messages max_tokens",
		answer: "id string, type string, role string, model string, content array, usage object", streams: true,
	},
	"POST /v1/messages/count_tokens": {
		id: "countMessageTokens", tag: "Anthropic", summary: "Counts the tokens of messages",
		request: reflect.TypeFor[messagesRequest](), needs: "model messages", answer: "input_tokens integer",
	},
	"GET /health":       {id: "health", tag: "service", summary: "200 once the models of the start are loaded, else 503", answer: "status string", isOpen: true},
	"GET /ready":        {id: "ready", tag: "service", summary: "The same as /health, for readiness probes", answer: "status string", isOpen: true},
	"GET /live":         {id: "live", tag: "service", summary: "200 as long as the process answers, for liveness probes", answer: "status string", isOpen: true},
	"GET /version":      {id: "version", tag: "service", summary: "Version of the service", answer: "version string", isOpen: true},
	"GET /metrics":      {id: "metrics", tag: "service", summary: "Metrics for Prometheus", answer: "text/plain", isOpen: true},
	"GET /openapi.json": {id: "openapi", tag: "service", summary: "This document", answer: "openapi string, info object, paths object, components object", isOpen: true},
}

// object is a value of JSON.
type object = map[string]any

// fieldNotes add descriptions and bounds to fields. The key is the name of a field, or the name of its object and the
// field.
var fieldNotes = map[string]object{
	"model":                 {"description": "Name of a model, an adapter or an alias", "minLength": 1},
	"temperature":           {"minimum": 0, "maximum": 2, "description": "0: greedy; default: the model's recommended value, or else 1"},
	"top_p":                 {"minimum": 0, "maximum": 1},
	"min_p":                 {"minimum": 0, "maximum": 1},
	"top_k":                 {"minimum": -1, "maximum": 1<<31 - 1, "description": "-1 and 0: no limit"},
	"presence_penalty":      {"minimum": -2, "maximum": 2},
	"frequency_penalty":     {"minimum": -2, "maximum": 2},
	"repetition_penalty":    {"minimum": 0, "maximum": 2},
	"logit_bias":            {"description": "Numbers from -100 to 100 by tokens"},
	"seed":                  {"description": "The same seed gives the same answer under any load"},
	"max_tokens":            {"minimum": 1, "description": "Maximum tokens of the reply, including reasoning"},
	"max_completion_tokens": {"minimum": 1, "description": "Maximum tokens of the reply, including reasoning"},
	"max_output_tokens":     {"minimum": 1, "description": "Maximum tokens of the reply, including reasoning"},
	"n":                     {"minimum": 1, "description": "Number of choices"},
	"top_n":                 {"minimum": 1, "description": "Number of the best documents"},
	"stop":                  {"description": "Up to 16 texts that end the reply"},
	"stop_sequences":        {"maxItems": maxStops, "description": "Texts that end the reply"},
	"stream":                {"description": "Server-sent events instead of one answer"},
	"top_logprobs":          {"minimum": 0, "maximum": maxLogprobs},
	"dimensions":            {"minimum": 1},
	"pooling":               {"enum": []any{"mean", "cls", "last", "", nil}},
	"encoding_format":       {"enum": []any{"float", "base64", "", nil}},
	"reasoning_effort":      {"enum": []any{"none", "minimal", "low", "medium", "high", "xhigh", "max", "", nil}},
	"messages":              {"minItems": 1},
	"documents":             {"minItems": 1, "maxItems": maxInputs},
	"ChatMessage.role":      {"enum": []any{"system", "developer", "user", "assistant", "tool"}},
	"Turn.role":             {"enum": []any{"user", "assistant"}},
	"ChatPart.type":         {"enum": []any{"text", "refusal", "image_url", "input_audio", "file"}},
	"ResponseFormat.type":   {"enum": []any{"text", "json_object", "json_schema"}},
	"TextFormat.type":       {"enum": []any{"text", "json_object", "json_schema"}},
	"ChatTool.type":         {"enum": []any{"function", "custom"}},
}

// needed are the fields that objects inside a request must have.
var needed = map[string][]string{
	"ChatMessage": {"role"}, "Turn": {"role", "content"}, "ChatPart": {"type"}, "ResponseFormat": {"type"}, "TextFormat": {"type"}, "ChatTool": {"type"},
}

// textsOrTokens is the schema of prompts.
func textsOrTokens(*schemas) object {
	tokens := object{"type": "array", "items": object{"type": "integer", "minimum": 0}, "minItems": 1}
	return anyOf(object{"type": "string"}, tokens, object{"type": "array", "items": anyOf(object{"type": "string"}, tokens), "minItems": 1})
}

// shapes are the schemas of types with a JSON decoding of their own.
var shapes map[reflect.Type]func(*schemas) object

func init() { // shapes and of refer to each other
	shapes = map[reflect.Type]func(*schemas) object{
		reflect.TypeFor[textOrList](): func(*schemas) object {
			return anyOf(object{"type": "string"}, object{"type": "array", "items": object{"type": "string"}})
		},
		reflect.TypeFor[prompts](): textsOrTokens, reflect.TypeFor[inputs](): textsOrTokens,
		reflect.TypeFor[document](): func(*schemas) object {
			return anyOf(object{"type": "string"}, object{"type": "object", "required": []string{"text"}, "properties": object{"text": object{"type": "string"}}})
		},
		reflect.TypeFor[chatContent](): textOr[[]chatPart],
		reflect.TypeFor[blocks]():      textOr[[]block],
		reflect.TypeFor[items]():       textOr[[]item],
		reflect.TypeFor[itemParts]():   textOr[[]itemPart],
		reflect.TypeFor[blockSource](): func(all *schemas) object {
			return anyOf(object{"type": "string"}, all.component(reflect.TypeFor[blockSource]()))
		},
		reflect.TypeFor[urlOrObject](): func(all *schemas) object {
			return anyOf(object{"type": "string"}, all.component(reflect.TypeFor[urlOrObject]()))
		},
		reflect.TypeFor[rawTool]():     func(all *schemas) object { return all.component(reflect.TypeFor[responseTool]()) },
		reflect.TypeFor[rawChatTool](): func(all *schemas) object { return all.component(reflect.TypeFor[chatTool]()) },
		reflect.TypeFor[itemText]():    func(*schemas) object { return object{} },
	}
}

// textOr returns the schema of a text or a value of another type.
func textOr[T any](all *schemas) object {
	return anyOf(object{"type": "string"}, all.of(reflect.TypeFor[T]()))
}

func anyOf(all ...any) object { return object{"anyOf": all} }

// schemas collects the components of a document.
type schemas struct{ components object }

// of returns the schema of a type.
func (s *schemas) of(t reflect.Type) object {
	if shape := shapes[t]; shape != nil {
		return shape(s)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer", "minimum": int64(-1) << 63, "maximum": int64(1<<63 - 1)}
	case reflect.Uint32:
		return object{"type": "integer", "minimum": 0, "maximum": uint32(1<<32 - 1)}
	case reflect.Float32:
		return object{"type": "number"}
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // not json.RawMessage
			return object{"type": "array", "items": s.of(t.Elem())}
		}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.component(t)
	}
	return object{}
}

// component returns a reference to the schema of a struct, or the schema if the struct has no name.
func (s *schemas) component(t reflect.Type) object {
	name := nameOf(t)
	if name == "" {
		return s.structure(t)
	}
	if s.components[name] == nil {
		s.components[name] = object{} // a type may contain itself
		s.components[name] = s.structure(t)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// structure returns the schema of a struct's object, including the fields that are accepted without an effect. A null
// stands for a missing field.
func (s *schemas) structure(t reflect.Type) object {
	fields := object{}
	for name := range leftOut[t] {
		fields[name] = object{"description": "No effect"}
	}
	for name, of := range fieldsOf(t) {
		field := object{}
		for key, value := range s.of(of) {
			field[key] = value
		}
		for _, notes := range []object{fieldNotes[name], fieldNotes[nameOf(t)+"."+name]} {
			for key, value := range notes {
				field[key] = value
			}
		}
		if slices.Contains(needed[nameOf(t)], name) {
			fields[name] = field
			continue
		}
		if kind, ok := field["type"].(string); ok {
			field["type"] = []string{kind, "null"}
		} else if all, ok := field["anyOf"].([]any); ok {
			field["anyOf"] = append(slices.Clone(all), object{"type": "null"})
		} else if field["$ref"] != nil {
			field = anyOf(field, object{"type": "null"})
		}
		fields[name] = field
	}
	delete(fields, "*")
	all := object{"type": "object", "properties": fields, "additionalProperties": leftOut[t]["*"]}
	if needs := needed[nameOf(t)]; needs != nil {
		all["required"] = needs
	}
	return all
}

// nameOf returns the name of a struct in the document; "" if it has none.
func nameOf(t reflect.Type) string {
	if t.Name() == "" {
		return ""
	}
	return strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
}

// shapeOf reads a list of fields such as "id string, usage? object"; those with "?" may be missing.
func shapeOf(text string) object {
	fields, needs := object{}, []string{}
	for _, field := range strings.Split(text, ", ") {
		name, kind, _ := strings.Cut(field, " ")
		name, optional := strings.CutSuffix(name, "?")
		if !optional {
			needs = append(needs, name)
		}
		fields[name] = object{"type": kind}
		if kind == "binary" {
			fields[name] = object{"type": "string", "format": "binary"}
		}
	}
	return object{"type": "object", "properties": fields, "required": needs}
}

// failures are the statuses of errors that any request with a key can have.
var failures = []int{
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
	http.StatusUnsupportedMediaType, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

// wildcard matches a wildcard in a pattern.
var wildcard = regexp.MustCompile(`\{(\w+)(?:\.\.\.)?\}`)

// document builds the OpenAPI document.
func (s *server) document() object {
	all, paths := &schemas{components: object{
		"Error":          object{"type": "object", "required": []string{"error"}, "properties": object{"error": shapeOf("message string, type string")}},
		"AnthropicError": object{"type": "object", "required": []string{"type", "error"}, "properties": object{"type": object{"const": "error"}, "error": shapeOf("type string, message string")}},
	}}, map[string]object{}
	for pattern, o := range operations {
		method, path, _ := strings.Cut(pattern, " ")
		described := object{"operationId": o.id, "tags": []string{o.tag}, "summary": o.summary, "responses": o.responses(path)}
		var parameters []object
		for _, name := range wildcard.FindAllStringSubmatch(path, -1) {
			parameters = append(parameters, object{"name": name[1], "in": "path", "required": true, "schema": object{"type": "string"}})
		}
		if parameters != nil {
			described["parameters"] = parameters
		}
		if o.isOpen || !s.requiresKeys() {
			described["security"] = []object{}
		}
		if o.form != "" {
			described["requestBody"] = object{"required": true, "content": object{"multipart/form-data": object{"schema": shapeOf(o.form)}}}
		} else if o.request != nil {
			described["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": o.body(all)}}}
		}
		path = wildcard.ReplaceAllString(path, "{$1}")
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path][strings.ToLower(method)] = described
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "realizar serve", "version": realizar.Version(), "description": "Local models behind the APIs of OpenAI and Anthropic.",
			"license": object{"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
		},
		"servers": []object{{"url": "/"}},
		"paths":   paths,
		"components": object{
			"schemas": all.components,
			"securitySchemes": object{
				"bearer": object{"type": "http", "scheme": "bearer"},
				"apiKey": object{"type": "apiKey", "in": "header", "name": "X-Api-Key"},
			},
		},
		"security": []object{{"bearer": []string{}}, {"apiKey": []string{}}},
	}
}

// body returns the schema of a request's body, with the fields that this operation needs.
func (o *operation) body(all *schemas) object {
	schema := all.component(o.request)
	if o.needs == "" {
		return schema
	}
	present := object{} // a null does not count as present
	for _, name := range strings.Fields(o.needs) {
		present[name] = object{"not": object{"type": "null"}}
	}
	return object{"allOf": []any{schema, object{"type": "object", "required": strings.Fields(o.needs), "properties": present}}}
}

// responses returns the answers of an operation.
func (o *operation) responses(path string) object {
	content := object{}
	if strings.Contains(o.answer, "/") {
		content[o.answer] = object{"schema": object{"type": "string"}}
	} else {
		content["application/json"] = object{"schema": shapeOf(o.answer)}
	}
	if o.streams {
		content["text/event-stream"] = object{"schema": object{"type": "object", "properties": object{"event": object{"type": "string"}, "data": object{"type": "string"}}}}
	}
	if o.form != "" {
		content["text/plain"] = object{"schema": object{"type": "string"}}
	}
	all := object{"200": object{"description": "The answer", "content": content}}
	name := "Error"
	if strings.HasPrefix(path, "/v1/messages") {
		name = "AnthropicError"
	}
	for _, status := range failures {
		if o.isOpen && status != http.StatusForbidden {
			continue
		}
		answer := object{"description": http.StatusText(status), "content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/" + name}}}}
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			answer["headers"] = object{"Retry-After": object{"description": "Seconds to wait", "schema": object{"type": "integer"}}}
		}
		all[fmt.Sprint(status)] = answer
	}
	if o.isOpen && o.answer == "status string" {
		all["503"] = object{"description": "The service is not ready", "content": content}
	}
	return all
}

// openAPI returns the handler of /openapi.json.
func (s *server) openAPI() http.Handler {
	document := sync.OnceValue(s.document)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = writeStatus(w, http.StatusOK, document())
	})
}
