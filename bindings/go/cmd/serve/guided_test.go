package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Replies and texts follow the constraint fields of llama-server and vLLM.
func TestRepliesFollowGrammars(t *testing.T) {
	s := serve(t)
	isNumber := func(text string) bool { return regexp.MustCompile(`^[0-9]{3}-[0-9]{2}$`).MatchString(text) }
	isChoice := func(text string) bool { return slices.Contains([]string{"cat", "big dog"}, text) }
	isObject := func(text string) bool {
		var object map[string]any
		return json.Unmarshal([]byte(text), &object) == nil && object["by"] == "car" && len(object) == 1
	}
	const schema = `{"type": "object", "properties": {"by": {"const": "car"}}, "required": ["by"], "additionalProperties": false}`
	const number, choice = `"[0-9]{3}-[0-9]{2}"`, `["cat", "big dog"]`
	const gbnf = `"root ::= d d d \"-\" d d\nd ::= [0-9]"`
	for fields, is := range map[string]func(string) bool{
		`"grammar": ` + gbnf:                                                              isNumber,
		`"guided_regex": ` + number:                                                       isNumber,
		`"guided_grammar": ` + gbnf:                                                       isNumber,
		`"guided_grammar": "start: /[0-9]{3}-[0-9]{2}/"`:                                  isNumber,
		`"guided_choice": ` + choice:                                                      isChoice,
		`"guided_json": ` + schema:                                                        isObject,
		`"guided_json": ` + fmt.Sprintf("%q", schema):                                     isObject,
		`"json_schema": ` + schema + `, "guided_json": null`:                              isObject,
		`"structured_outputs": {"json": ` + schema + `}`:                                  isObject,
		`"structured_outputs": {"regex": ` + number + `}`:                                 isNumber,
		`"structured_outputs": {"choice": ` + choice + `}`:                                isChoice,
		`"structured_outputs": {"grammar": ` + gbnf + `}`:                                 isNumber,
		`"guided_decoding_backend": "xgrammar", "grammar": "", "guided_regex": ` + number: isNumber,
	} {
		if text := content(s.chat(t, "plain", "Once", fields+`, "max_tokens": 60`)); !is(text) {
			t.Errorf("%s: %q", fields, text)
		}
		answer := s.ask(t, "/v1/completions", `{"model": "plain", "prompt": "Once", "max_tokens": 60, `+fields+`}`)
		if text, _ := at(answer, "choices", 0, "text").(string); !is(text) {
			t.Errorf("%s: %v", fields, answer)
		}
	}
	answer := s.ask(t, "/v1/completions", `{"model": "plain", "prompt": "Once", "max_tokens": 60, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": `+schema+`}}}`)
	if text, _ := at(answer, "choices", 0, "text").(string); !isObject(text) {
		t.Error(answer)
	}
}

func TestWrongGrammarsAreNamed(t *testing.T) {
	s := serve(t)
	for _, c := range []struct{ fields, param, word string }{
		{`"grammar": "root ::= ("`, "grammar", "grammar: "},
		{`"guided_regex": "("`, "guided_regex", "guided_regex: "},
		{`"guided_regex": "` + strings.Repeat("(a|b)*", 5000) + `"`, "guided_regex", "at most 2000"},
		{`"guided_choice": [` + strings.Repeat(`"a",`, maxChoices) + `"b"]`, "guided_choice", "at most 10000"},
		{`"guided_choice": []`, "guided_choice", "empty list"},
		{`"guided_choice": "x"`, "guided_choice", ""},
		{`"guided_json": "{"`, "guided_json", "not JSON"},
		{`"guided_json": {"type": 5}`, "guided_json", "guided_json: "},
		{`"guided_json": 5`, "guided_json", ""},
		{`"structured_outputs": {"regex": "["}`, "structured_outputs.regex", "structured_outputs.regex: "},
		{`"structured_outputs": {"wrong": 1}`, "structured_outputs.wrong", "unknown"},
		{`"structured_outputs": 5`, "structured_outputs", ""},
		{`"guided_regex": "a", "guided_choice": ["b"]`, "guided_choice", "guided_regex and guided_choice are both set; set one"},
		{`"guided_regex": "a", "response_format": {"type": "json_object"}`, "guided_regex", "response_format and guided_regex"},
		{`"grammar": 5`, "grammar", ""},
	} {
		for path, prompt := range map[string]string{"/v1/chat/completions": `"messages": [{"role": "user", "content": "x"}]`, "/v1/completions": `"prompt": "x"`} {
			status, answer, _ := s.post(t, path, `{"model": "plain", "max_tokens": 5, `+prompt+`, `+c.fields+`}`)
			said, _ := at(answer, "error", "message").(string)
			if status != http.StatusBadRequest || at(answer, "error", "param") != c.param || !strings.Contains(said, c.word) || said == "" {
				t.Errorf("%s %.200s: %d %v", path, c.fields, status, answer)
			}
		}
	}
}
