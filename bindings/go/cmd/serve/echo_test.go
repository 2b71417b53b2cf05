package main

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
)

// The log probabilities of a prompt are those of single steps, for texts and tokens, whole and streamed.
func TestLogprobsOfAPrompt(t *testing.T) {
	s := serve(t)
	l := s.leased(t, "plain")
	const text = "Once upon a time, there was a dog. Zq" // with an unlikely end
	tokens, err := l.Tokenize(text, true, false)
	must(t, err)
	session, err := l.NewSession(nil)
	must(t, err)
	defer session.Close()
	list := mustJSON(t, tokens)
	for _, top := range []int{0, 1, 5} {
		answer := s.ask(t, "/v1/completions", fmt.Sprintf(`{"model": "plain", "prompt": [%s, %s], "temperature": 0, "max_tokens": 1, "logprobs": %d, "echo": true}`, list, list, top))
		for choice := range 2 {
			must(t, session.Truncate(0))
			rows := at(answer, "choices", choice, "logprobs").(map[string]any)
			if n := len(rows["tokens"].([]any)); n != len(tokens)+1 || len(rows["token_logprobs"].([]any)) != n || len(rows["top_logprobs"].([]any)) != n || len(rows["text_offset"].([]any)) != n {
				t.Fatal(rows)
			}
			if at(rows, "token_logprobs", 0) != nil || at(rows, "top_logprobs", 0) != nil {
				t.Error(rows)
			}
			for i, token := range tokens {
				name, err := l.tokenText(token)
				must(t, err)
				if at(rows, "tokens", i) != name {
					t.Error(i, name, rows)
				}
				if i > 0 {
					likeliest, err := session.Logprobs(max(top, 1))
					must(t, err)
					most := at(rows, "top_logprobs", i).(map[string]any)
					best, err := l.tokenText(likeliest[0].Token)
					must(t, err)
					if top > 0 && math.Abs(most[best].(float64)-float64(likeliest[0].Logprob)) > 1e-4 || top == 0 && len(most) > 0 || len(most) > top+1 {
						t.Error(i, best, likeliest, most)
					}
					own, err := session.Score(t.Context(), []uint32{token})
					must(t, err)
					if got := at(rows, "token_logprobs", i).(float64); math.Abs(got-float64(own[0])) > 1e-4 || top > 0 && most[name] != got {
						t.Error(i, got, own, most)
					}
				} else {
					must(t, session.Prefill(t.Context(), []uint32{token}))
				}
			}
			said := at(answer, "choices", choice, "text").(string)
			for i, name := range rows["tokens"].([]any) { // each token is at its offset
				offset := int(at(rows, "text_offset", i).(float64))
				if !strings.HasPrefix(said[offset:], name.(string)) {
					t.Error(i, name, offset, said)
				}
			}
		}
		if at(answer, "usage", "prompt_tokens") != float64(2*len(tokens)) || at(answer, "usage", "completion_tokens") != 2.0 {
			t.Error(answer)
		}
	}
	// The first token of a text has no characters in the text.
	answer := s.ask(t, "/v1/completions", `{"model": "plain", "prompt": "Once upon a time", "max_tokens": 0, "logprobs": 2, "echo": true}`)
	rows := at(answer, "choices", 0, "logprobs")
	if at(answer, "choices", 0, "text") != once || at(answer, "choices", 0, "finish_reason") != "length" || at(answer, "usage", "completion_tokens") != 0.0 ||
		len(at(rows, "tokens").([]any)) != 5 || at(rows, "text_offset", 0) != 0.0 || at(rows, "text_offset", 1) != 0.0 || at(rows, "text_offset", 2) != 4.0 {
		t.Error(answer)
	}
	text2, n := "", 0
	for _, chunk := range s.events(t, "/v1/completions", `{"model": "plain", "prompt": "Once upon a time", "max_tokens": 3, "temperature": 0, "logprobs": 2, "echo": true}`) {
		piece := at(chunk, "choices", 0)
		text2 += at(piece, "text").(string)
		all, _ := at(piece, "logprobs", "tokens").([]any)
		n += len(all)
	}
	if !strings.HasPrefix(once+story, text2) || len(text2) < len(once)+3 || n != 8 {
		t.Errorf("%q %d", text2, n)
	}
	// No generated tokens, and no scores.
	if answer := s.ask(t, "/v1/completions", `{"model": "plain", "prompt": "Once upon a time", "max_tokens": 0, "echo": true}`); at(answer, "choices", 0, "text") != once || at(answer, "choices", 0, "logprobs") != nil {
		t.Error(answer)
	}
	for body, word := range map[string]string{
		`"prompt": "x", "max_tokens": 0, "logprobs": 1`:                                                                "max_tokens",
		`"prompt": [99999], "echo": true, "logprobs": 1`:                                                               "prompt[0] is 99999",
		`"prompt": "` + strings.Repeat("x ", 2000) + `", "echo": true, "logprobs": 1`:                                  "512",
		`"prompt": [` + strings.Repeat(`"`+strings.Repeat("x ", 100)+`",`, 600) + `"x"], "echo": true, "logprobs": 20`: "log probabilities",
	} {
		if status, answer, _ := s.post(t, "/v1/completions", `{"model": "plain", `+body+`}`); status != http.StatusBadRequest || !strings.Contains(at(answer, "error", "message").(string), word) {
			t.Errorf("%.100s %d %.300v", body, status, answer)
		}
	}
}
