package main

import (
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"realizar.dev/go"
)

func TestTextsAreTokenized(t *testing.T) {
	s := serve(t)
	l := s.leased(t, "plain")
	bare, err := l.Tokenize("Once <s>upon é", false, true)
	must(t, err)
	plain, err := l.Tokenize("Once <s>upon é", false, false)
	must(t, err)
	whole, err := l.Tokenize("Once <s>upon é", true, true)
	must(t, err)
	chat := &realizar.Transcript{Messages: []any{message{Role: "user", Content: "Once"}}}
	prompt, err := l.TokenizeChat(chat)
	must(t, err)
	said, err := l.Tokenize(" upon", false, false)
	must(t, err)
	const messages = `"messages": [{"role": "user", "content": "Once"}]`
	for fields, want := range map[string][]uint32{
		`"content": "Once <s>upon é"`:                             bare,
		`"content": "Once <s>upon é", "parse_special": false`:     plain,
		`"content": "Once <s>upon é", "add_special": true`:        whole,
		`"prompt": "Once <s>upon é"`:                              whole,
		`"prompt": "Once <s>upon é", "add_special_tokens": false`: bare,
		`"content": ""`: {},
		messages:        prompt,
		messages + `, "add_generation_prompt": true, "tools": []`:                                      prompt,
		`"messages": [{"role": "user", "content": "Once"}, {"role": "assistant", "content": " upon"}]`: append(prompt, said...),
	} {
		answer := s.ask(t, "/tokenize", `{"model": "plain", `+fields+`}`)
		if got, wanted := mustJSON(t, answer["tokens"]), mustJSON(t, want); string(got) != string(wanted) || answer["count"] != float64(len(want)) || answer["max_model_len"] != 512.0 {
			t.Errorf("%s: %v %s", fields, answer, wanted)
		}
	}
	answer := s.ask(t, "/tokenize", `{"model": "plain", "content": "Once é☃", "with_pieces": true, "return_token_strs": true}`)
	joined := ""
	for i, one := range answer["tokens"].([]any) {
		switch piece := at(one, "piece").(type) {
		case string:
			joined += piece
			if piece != at(answer, "token_strs", i) {
				t.Error(answer)
			}
		case []any: // a part of a character
			for _, b := range piece {
				joined += string([]byte{byte(b.(float64))})
			}
		}
	}
	if strings.TrimLeft(joined, " ") != "Once é☃" {
		t.Errorf("%q %v", joined, answer)
	}
	back := s.ask(t, "/detokenize", fmt.Sprintf(`{"model": "plain", "tokens": %s}`, mustJSON(t, whole)))
	text, err := l.Detokenize(whole, true)
	must(t, err)
	if back["content"] != text || back["prompt"] != text || !strings.Contains(text, "upon é") {
		t.Errorf("%v %q", back, text)
	}
	rendered, err := l.RenderChat(chat)
	must(t, err)
	for fields, want := range map[string]string{
		messages: rendered, messages + `, "temperature": 1, "stream": true`: rendered,
		`"messages": [{"role": "user", "content": "Once"}, {"role": "assistant", "content": " upon"}]`: rendered + " upon",
	} {
		if answer := s.ask(t, "/apply-template", `{"model": "plain", `+fields+`}`); answer["prompt"] != want {
			t.Errorf("%s: %v %q", fields, answer, want)
		}
	}
	if on := s.ask(t, "/apply-template", `{"model": "thinking", "chat_template_kwargs": {"enable_thinking": true}, `+messages+`}`); !strings.HasSuffix(on["prompt"].(string), "<think>") {
		t.Error(on)
	}
}

// A service with one model does not require its name, like llama-server.
func TestTheOnlyModelNeedsNoName(t *testing.T) {
	o, err := parse([]string{"-threads", "2", "-context", "512", "-m", "plain=" + chatModel(t, plainTemplate)})
	must(t, err)
	s := listening(t, o)
	if answer := s.ask(t, "/tokenize", `{"content": "Once"}`); answer["count"] == 0.0 {
		t.Error(answer)
	}
	if status, answer, _ := serve(t).post(t, "/tokenize", `{"content": "Once"}`); status != http.StatusBadRequest || at(answer, "error", "param") != "model" {
		t.Error(status, answer)
	}
}

func TestWhatHasNoTokensIsRefused(t *testing.T) {
	s := serve(t)
	long := strings.Repeat("0,", maxListed) + "0"
	for _, c := range []struct{ path, body, word string }{
		{"/tokenize", ``, "0 of content, prompt and messages"},
		{"/tokenize", `, "content": "x", "prompt": "y"`, "2 of content"},
		{"/tokenize", `, "content": ["x"]`, "content"},
		{"/tokenize", `, "content": "` + strings.Repeat("é", maxListed) + `"`, "at most 1048576"},
		{"/tokenize", `, "messages": []`, "messages"},
		{"/tokenize", `, "wrong": 1`, "wrong"},
		{"/tokenize", `, "messages": [{"role": "user", "content": "x"}], "add_generation_prompt": false`, "add_generation_prompt"},
		{"/tokenize", `, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "data:image/png;base64,eHg="}]}]`, "images"},
		{"/apply-template", ``, "messages"},
		{"/apply-template", `, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "data:image/png;base64,eHg="}]}]`, "images"},
		{"/detokenize", ``, "tokens is missing"},
		{"/detokenize", `, "tokens": [1, 99999]`, "tokens[1] is 99999"},
		{"/detokenize", `, "tokens": [-1]`, "tokens"},
		{"/detokenize", `, "tokens": "x"`, "tokens"},
		{"/detokenize", `, "tokens": [` + long + `]`, "at most 1048576"},
	} {
		status, answer, _ := s.post(t, c.path, `{"model": "plain"`+c.body+`}`)
		if said, _ := at(answer, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(said, c.word) {
			t.Errorf("%s %.200s: %d %.500v", c.path, c.body, status, answer)
		}
	}
}

// Version 2 of Cohere's API returns the same scores without texts, and truncates documents.
func TestTheSecondVersionRanks(t *testing.T) {
	s := serve(t, "-m", "pooled="+pooledModel(t, 1))
	const request = `{"model": "pooled", "query": "The dog ran to the park.", "documents": ["A big red ball", "The dog ran home."], "top_n": 2`
	first, second := s.ask(t, "/v1/rerank", request+`, "return_documents": false}`), s.ask(t, "/v2/rerank", request+`}`)
	if !reflect.DeepEqual(first["results"], second["results"]) || at(second, "meta", "api_version", "version") != "2" || second["id"] == nil {
		t.Error(first, second)
	}
	cut := s.ask(t, "/v2/rerank", `{"model": "pooled", "query": "The dog", "documents": ["The dog ran home."], "max_tokens_per_doc": 2}`)
	tokens, err := s.leased(t, "pooled").Tokenize("The dog ran home.", false, false)
	must(t, err)
	text, err := s.leased(t, "pooled").Detokenize(tokens[:2], false)
	must(t, err)
	short := at(s.ask(t, "/v1/rerank", fmt.Sprintf(`{"model": "pooled", "query": "The dog", "documents": [%q]}`, text)), "results", 0, "relevance_score").(float64)
	if score := at(cut, "results", 0, "relevance_score").(float64); math.Abs(score-short) > 1e-5 {
		t.Error(score, short)
	}
	if status, answer, _ := s.post(t, "/v2/rerank", request+`, "max_tokens_per_doc": 0}`); status != http.StatusBadRequest {
		t.Error(answer)
	}
}
