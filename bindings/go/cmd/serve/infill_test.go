package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"realizar.dev/go"
)

// fimModel is the tiny model with infilling tokens: 300 to 302, 303 between files, and pads.
func fimModel(t *testing.T, pads ...uint32) string {
	t.Helper()
	file, err := os.ReadFile(data + "stories260K-f32.gguf")
	must(t, err)
	le := binary.LittleEndian
	text := func(to []byte, text string) []byte { return append(le.AppendUint64(to, uint64(len(text))), text...) }
	var keys []byte
	tokens := append([]uint32{300, 301, 302, 303}, pads...)
	for i, token := range tokens {
		name := []string{"fim_pre", "fim_suf", "fim_mid", "fim_sep", "fim_pad"}[i]
		keys = le.AppendUint32(le.AppendUint32(text(keys, "tokenizer.ggml."+name+"_token_id"), 4), token)
	}
	keys = le.AppendUint32(text(keys, "general.comment"), 8)
	keys = text(keys, strings.Repeat(".", -(len(keys)+8)&31)) // the length of the insertion is a multiple of 32 bytes
	head := le.AppendUint64(file[:16:16], le.Uint64(file[16:])+uint64(len(tokens)+1))
	path := filepath.Join(t.TempDir(), "fim.gguf")
	must(t, os.WriteFile(path, slices.Concat(head, keys, file[24:]), 0o600))
	return path
}

// eventsOf returns the events of a stream without a final mark.
func eventsOf(t *testing.T, response *http.Response) (events []map[string]any) {
	t.Helper()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	for _, line := range strings.Split(string(text), "\n") {
		if data, is := strings.CutPrefix(line, "data: "); is {
			var event map[string]any
			must(t, json.Unmarshal([]byte(data), &event))
			events = append(events, event)
		}
	}
	return events
}

// The text is the continuation of the tokens that llama-server documents.
func TestTextsAreFilledIn(t *testing.T) {
	s := serve(t, "-m", "fim="+fimModel(t))
	l := s.leased(t, "fim")
	tokens := func(text string) []uint32 {
		all, err := l.Tokenize(text, false, false)
		must(t, err)
		return all
	}
	for _, c := range []struct {
		extra string
		files []uint32
	}{
		{``, nil},
		{`, "input_extra": [{"filename": "a.py", "text": "x = 1"}]`, slices.Concat([]uint32{303}, tokens("a.py\n"), tokens("x = 1"), []uint32{303}, tokens("filename\n"))},
	} {
		prompt := slices.Concat([]uint32{l.info.BOS}, c.files, []uint32{300}, tokens("Once upon a time there"), []uint32{301}, tokens("the end."), []uint32{302})
		want := s.ask(t, "/v1/completions", fmt.Sprintf(`{"model": "fim", "prompt": %s, "temperature": 0, "max_tokens": 8}`, mustJSON(t, prompt)))
		body := `{"model": "fim", "input_prefix": "Once upon", "prompt": " a time there", "input_suffix": "the end.", "temperature": 0, "n_predict": 8, "samplers": ["top_k"]` + c.extra + `}`
		answer := s.ask(t, "/infill", body)
		if text := at(want, "choices", 0, "text"); answer["content"] != text || text == "" || answer["stop_type"] != "limit" || answer["tokens_predicted"] != 8.0 ||
			answer["tokens_evaluated"] != float64(len(prompt)) || answer["stop"] != true {
			t.Errorf("%v %v", text, answer)
		}
		streamed, n := "", 0
		response, err := http.Post(s.url+"/infill", "application/json", strings.NewReader(strings.Replace(body, `"n_predict"`, `"stream": true, "return_tokens": true, "n_predict"`, 1)))
		must(t, err)
		for _, event := range eventsOf(t, response) {
			streamed += event["content"].(string)
			n += len(event["tokens"].([]any))
		}
		if streamed != answer["content"] || n != 8 {
			t.Errorf("%q %d %v", streamed, n, answer)
		}
		if c.files == nil {
			suffix := s.ask(t, "/v1/completions", `{"model": "fim", "prompt": "Once upon a time there", "suffix": "the end.", "temperature": 0, "max_tokens": 8}`)
			if at(suffix, "choices", 0, "text") != answer["content"] {
				t.Error(suffix)
			}
		}
	}
	// A text that is too long is cut: the prefix gets three quarters of the context.
	long := strings.Repeat("dog ", 1000)
	answer := s.ask(t, "/infill", fmt.Sprintf(`{"model": "fim", "input_prefix": %q, "input_suffix": %q, "n_predict": 4, "input_extra": [{"text": %q}]}`, long, long, long))
	if n := answer["tokens_evaluated"].(float64); n > 508 || n < 500 {
		t.Error(answer)
	}
	if f, err := l.fim("x"); err != nil || !reflect.DeepEqual(f, fim{300, 301, 302, realizar.NoToken, 303, []uint32{303}}) {
		t.Error(f, err)
	}
	for body, word := range map[string]string{
		`"model": "plain", "input_prefix": "a", "input_suffix": "b"`:                   `the model "plain" has no tokens for infilling`,
		`"model": "fim", "input_prefix": "a"`:                                          "input_suffix is missing",
		`"model": "fim", "input_suffix": "a"`:                                          "input_prefix is missing",
		`"model": "fim", "input_prefix": "a", "input_suffix": "b", "n_predict": -2`:    "n_predict",
		`"model": "fim", "input_prefix": "a", "input_suffix": "b", "wrong": 1`:         "wrong",
		`"model": "fim", "input_prefix": "a", "input_suffix": "b", "input_extra": "x"`: "input_extra",
		`"model": "fim", "input_prefix": 5, "input_suffix": "b"`:                       "input_prefix",
	} {
		if status, answer, _ := s.post(t, "/infill", `{`+body+`}`); status != http.StatusBadRequest || !strings.Contains(at(answer, "error", "message").(string), word) {
			t.Error(body, status, answer)
		}
	}
}

// A text ends at a token for padding, although the library does not know the token as an end.
func TestFilledTextsEndAtPadding(t *testing.T) {
	const fields = `"model": "fim", "temperature": 0, `
	infill := `{` + fields + `"input_prefix": "Once upon", "input_suffix": "the end.", "n_predict": 12, "return_tokens": true`
	whole := serve(t, "-m", "fim="+fimModel(t)).ask(t, "/infill", infill+`}`)
	tokens := whole["tokens"].([]any)
	const kept = 5
	pad := tokens[kept]
	if slices.Index(tokens, pad) != kept {
		t.Fatal(tokens)
	}
	s := serve(t, "-m", "fim="+fimModel(t, uint32(pad.(float64))))
	var some []uint32
	for _, token := range tokens[:kept+1] {
		some = append(some, uint32(token.(float64)))
	}
	l := s.leased(t, "fim")
	end, err := l.TokenBytes(some[kept])
	must(t, err)
	want, err := l.Detokenize(some, true)
	must(t, err)
	want = strings.TrimSuffix(whole["content"].(string)[:len(want)], string(end))
	// The last characters may begin a stop sequence, so that they are held back until the end.
	for _, more := range []string{``, `, "stop": [` + string(mustJSON(t, want[len(want)-2:]+"QQ")) + `]`} {
		answer := s.ask(t, "/infill", infill+more+`}`)
		if answer["content"] != want || answer["stop_type"] != "eos" || answer["tokens_predicted"] != kept+1.0 || fmt.Sprint(answer["tokens"]) != fmt.Sprint(tokens[:kept]) {
			t.Error(more, want, answer)
		}
		response, err := http.Post(s.url+"/infill", "application/json", strings.NewReader(infill+more+`, "stream": true}`))
		must(t, err)
		streamed := ""
		for _, event := range eventsOf(t, response) {
			streamed += event["content"].(string)
		}
		if streamed != want {
			t.Errorf("%q %q", streamed, want)
		}
	}
	suffix := s.ask(t, "/v1/completions", `{`+fields+`"prompt": "Once upon", "suffix": "the end.", "max_tokens": 12, "logprobs": 1}`)
	if at(suffix, "choices", 0, "text") != want || at(suffix, "choices", 0, "finish_reason") != "stop" || len(at(suffix, "choices", 0, "logprobs", "tokens").([]any)) != kept {
		t.Error(want, suffix)
	}
	// Other texts go on.
	plain := s.ask(t, "/v1/completions", fmt.Sprintf(`{%s"prompt": "Once upon", "max_tokens": 12, "logit_bias": {"%v": 100}}`, fields, pad))
	if at(plain, "choices", 0, "finish_reason") != "length" {
		t.Error(plain)
	}
	until(t, "slots that are held", func() bool {
		l.engine.mu.Lock()
		defer l.engine.mu.Unlock()
		return l.engine.free == l.engine.slots
	})
}
