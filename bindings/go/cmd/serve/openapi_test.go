package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// Every route is in the document, and the document has no other one.
func TestTheDocumentHasAllRoutes(t *testing.T) {
	s := serve(t)
	patterns := map[string]bool{}
	for _, route := range routes {
		patterns[route.pattern] = true
	}
	for pattern := range s.open() {
		patterns[pattern] = true
	}
	for pattern := range patterns {
		if _, found := operations[pattern]; !found {
			t.Errorf("%s is not in the table of operations (openapi.go)", pattern)
		}
	}
	ids := map[string]bool{}
	for pattern, o := range operations {
		if !patterns[pattern] || ids[o.id] || o.summary == "" || o.tag == "" {
			t.Errorf("%s: %+v", pattern, o)
		}
		ids[o.id] = true
	}
	_, document := s.get(t, "/openapi.json")
	n := 0
	for path, methods := range document["paths"].(map[string]any) {
		for method := range methods.(map[string]any) {
			n++
			path := regexp.MustCompile(`\{name\}`).ReplaceAllString(path, "{name...}")
			if !patterns[strings.ToUpper(method)+" "+path] {
				t.Error(method, path)
			}
		}
	}
	if n != len(patterns) || document["openapi"] != "3.1.0" {
		t.Error(n, len(patterns))
	}
	// All references can be resolved.
	text, err := json.Marshal(document)
	must(t, err)
	for _, found := range regexp.MustCompile(`"#/components/schemas/(\w+)"`).FindAllStringSubmatch(string(text), -1) {
		if at(document, "components", "schemas", found[1]) == nil {
			t.Error(found[1])
		}
	}
}

// The schemas of requests have the fields that the service reads, and those it accepts without an effect.
func TestTheDocumentHasAllFields(t *testing.T) {
	all := &schemas{components: object{}}
	for _, o := range operations {
		if o.request == nil {
			continue
		}
		all.of(o.request)
		name := nameOf(o.request)
		fields := all.components[name].(object)["properties"].(object)
		want := len(fieldsOf(o.request))
		for left := range leftOut[o.request] {
			if _, read := fieldsOf(o.request)[left]; !read {
				want++
			}
		}
		if len(fields) != want {
			t.Error(o.id, len(fields), want)
		}
		for _, needed := range strings.Fields(o.needs) {
			if fields[needed] == nil {
				t.Error(o.id, needed)
			}
		}
	}
	for note := range fieldNotes {
		in, name, isOne := strings.Cut(note, ".")
		if !isOne {
			name = in
		}
		found := false
		for of := range all.components {
			_, has := all.components[of].(object)["properties"].(object)[name]
			found = found || has && (!isOne || of == in)
		}
		if !found {
			t.Errorf("no request has the field %s", note)
		}
	}
	if kind := all.components["ChatRequest"].(object)["properties"].(object)["temperature"].(object)["type"]; !reflect.DeepEqual(kind, []string{"number", "null"}) {
		t.Error(kind)
	}
}

// Schemathesis finds no answer that contradicts the document.
func TestSchemathesis(t *testing.T) {
	command := os.Getenv("SCHEMATHESIS")
	if command == "" {
		command = "schemathesis"
	}
	if _, err := exec.LookPath(command); err != nil {
		fmt.Fprintln(os.Stderr, "SKIPPED: the test of /openapi.json, because there is no schemathesis (pip install schemathesis, or SCHEMATHESIS=path)")
		t.Skip("there is no schemathesis")
	}
	s := serve(t, "-m", "pooled="+pooledModel(t, 1), "-deadline", "5s")
	_, document := s.get(t, "/openapi.json")
	for name, one := range at(document, "components", "schemas").(map[string]any) { // existing names
		if model, ok := at(one, "properties", "model").(map[string]any); ok {
			model["enum"] = []any{"plain", "thinking", nil}
			if name == "EmbeddingRequest" || name == "RerankRequest" {
				model["enum"] = []any{"pooled", nil}
			}
		}
	}
	text, err := json.Marshal(document)
	must(t, err)
	file := written(t, "openapi.json", string(text))
	examples, seed := cmp.Or(os.Getenv("EXAMPLES"), "5"), cmp.Or(os.Getenv("SEED"), "1")
	run := exec.Command(command, "run", file, "--url", s.url, "--max-examples", examples, "--phases", "coverage,fuzzing", "--suppress-health-check", "too_slow", "--workers", "2", "--seed", seed, "--no-color",
		"--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance,"+
			"negative_data_rejection,unsupported_method,use_after_free")
	run.Dir = t.TempDir()
	if output, err := run.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// Values that the document forbids are rejected, even if encoding/json accepts them.
func TestWhatIsNotInTheDocumentIsRejected(t *testing.T) {
	s := serve(t, "-m", "pooled="+pooledModel(t, 1))
	for path, bodies := range map[string][]string{
		"/models/reload": {`null`, `{"model": ""}`},
		"/detokenize":    {`{"model": "plain", "tokens": [null]}`, `{"model": "plain", "tokens": [1, null]}`},
		"/v1/messages": {
			`{"model": "plain", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "system": {"type": "text", "text": "y"}}`,
			`{"model": "plain", "max_tokens": 1, "messages": [{"role": "user", "content": {"type": "text", "text": "y"}}]}`,
		},
		"/v1/messages/count_tokens":  {`{"model": "plain", "messages": [{"role": "user", "content": "x"}], "top_p": -1}`, `{"model": "plain", "max_tokens": 0, "messages": [{"role": "user", "content": "x"}]}`},
		"/v1/completions":            {`{"model": "plain", "prompt": [null]}`, `{"model": "plain", "prompt": [1, null]}`, `{"model": "plain", "prompt": [[null]]}`},
		"/tokenize":                  {`{"model": "plain", "prompt": "x", "tools": [{"type": "custom", "custom": {"name": "a", "format": {"grammar": 5}}}]}`, `{"model": "plain", "content": "x", "tools": [5]}`},
		"/v1/rerank":                 {`{"model": "pooled", "query": "x", "documents": [null]}`, `{"model": "pooled", "query": "x", "documents": ["y", {"text": null}]}`},
		"/v1/responses/input_tokens": {`{"model": "plain", "input": "x", "temperature": 3}`, `{"model": "plain", "input": [{"role": "user", "content": {}}]}`},
	} {
		for _, body := range bodies {
			if status, answer, _ := s.post(t, path, body); status != 400 && !(status == 404 && path == "/models/reload") {
				t.Errorf("%s %s: %d %v", path, body, status, answer)
			}
		}
	}
	// Fields without an effect may have any value.
	s.ask(t, "/v1/messages", `{"model": "plain", "max_tokens": 1, "messages": [{"role": "user", "content": "x"},
		{"role": "assistant", "content": [{"type": "web_search_tool_result", "content": {"error_code": "x"}}]}, {"role": "user", "content": "y"}]}`)
}
