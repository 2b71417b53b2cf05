package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"realizar.dev/go"
)

const once = "Once upon a time"

func TestTextsGoOn(t *testing.T) {
	s := serve(t)
	answer := s.ask(t, "/v1/completions", `{"model": "plain", "prompt": "Once upon a time", "temperature": 0, "max_tokens": 60}`)
	text, _ := at(answer, "choices", 0, "text").(string)
	if len(text) < 100 || !strings.HasPrefix(story, text) || answer["object"] != "text_completion" || at(answer, "choices", 0, "finish_reason") != "length" {
		t.Error(answer)
	}
	if at(answer, "usage", "prompt_tokens") != 5.0 || at(answer, "usage", "completion_tokens") != 60.0 || at(answer, "usage", "total_tokens") != 65.0 {
		t.Error(answer)
	}
	// The default is 16 tokens.
	answer = s.ask(t, "/v1/completions", `{"model": "plain", "prompt": "Once upon a time", "temperature": 0}`)
	if at(answer, "usage", "completion_tokens") != 16.0 {
		t.Error(answer)
	}
	// Several prompts, also as tokens, each with several choices and its echo.
	l := s.leased(t, "plain")
	tokens, err := l.Tokenize(once, true, false)
	must(t, err)
	list, err := json.Marshal(tokens)
	must(t, err)
	texts := func(prompt, fields string) (texts []string, answer map[string]any) {
		answer = s.ask(t, "/v1/completions", fmt.Sprintf(`{"model": "plain", "prompt": %s, "stop": [" She", "never"]%s}`, prompt, fields))
		for i, choice := range answer["choices"].([]any) {
			if at(choice, "index") != float64(i) {
				t.Error(choice)
			}
			texts = append(texts, at(choice, "text").(string))
		}
		return texts, answer
	}
	const sentence = once + ", there was a little girl named Lily."
	for _, prompt := range []string{`["Once upon a time"]`, `"<s>Once upon a time"`, string(list), `[` + string(list) + `]`} {
		texts, answer := texts(prompt, `, "temperature": 0, "echo": true`)
		if len(texts) != 1 || strings.TrimLeft(strings.TrimPrefix(texts[0], "<s>"), " ") != sentence || at(answer, "usage", "prompt_tokens") != float64(len(tokens)) {
			t.Errorf("%s %q", prompt, texts)
		}
	}
	many := `["Once upon a time", "Lily", "Once upon a time"]`
	one, answer := texts(many, `, "temperature": 1, "seed": 3, "n": 4, "max_tokens": 12`)
	two, _ := texts(many, `, "temperature": 1, "seed": 3, "n": 4, "max_tokens": 12`)
	if len(one) != 12 || !reflect.DeepEqual(one, two) || !reflect.DeepEqual(one[:4], one[8:]) || one[0] == one[1] && one[1] == one[2] {
		t.Errorf("%q\n%q", one, two)
	}
	lily, err := l.Tokenize("Lily", true, false)
	must(t, err)
	if at(answer, "usage", "prompt_tokens") != float64(2*len(tokens)+len(lily)) {
		t.Error(answer)
	}
	// A stream has the same texts.
	streamed := make([]string, 12)
	for _, chunk := range s.events(t, "/v1/completions",
		fmt.Sprintf(`{"model": "plain", "prompt": %s, "stop": [" She", "never"], "temperature": 1, "seed": 3, "n": 4, "max_tokens": 12}`, many)) {
		piece := at(chunk, "choices", 0)
		streamed[int(at(piece, "index").(float64))] += at(piece, "text").(string)
	}
	if !reflect.DeepEqual(one, streamed) {
		t.Errorf("%q\n%q", one, streamed)
	}
}

func TestLogprobsOfTexts(t *testing.T) {
	s := serve(t)
	answer := s.ask(t, "/v1/completions", `{"model": "plain", "prompt": "Once upon a time", "temperature": 0, "max_tokens": 12, "logprobs": 3}`)
	rows := at(answer, "choices", 0, "logprobs").(map[string]any)
	l := s.leased(t, "plain")
	text := at(answer, "choices", 0, "text").(string)
	tokens, err := l.Tokenize(once+text, true, false)
	must(t, err)
	session, err := l.NewSession(nil)
	must(t, err)
	defer session.Close()
	scores, err := session.Score(t.Context(), tokens)
	must(t, err)
	scores = scores[len(scores)-12:]
	joined := ""
	for i, token := range rows["tokens"].([]any) {
		if at(rows, "text_offset", i) != float64(len(joined)) {
			t.Error(rows)
		}
		joined += token.(string)
		logprob := at(rows, "token_logprobs", i).(float64)
		top := at(rows, "top_logprobs", i).(map[string]any)
		if math.Abs(logprob-float64(scores[i])) > 1e-4 || len(top) != 3 || top[token.(string)] != logprob {
			t.Error(i, logprob, scores[i], top)
		}
	}
	if joined != text {
		t.Errorf("%q %q", joined, text)
	}
	answer = s.ask(t, "/v1/completions", `{"model": "plain", "prompt": "Once", "max_tokens": 2, "logprobs": 0}`)
	if top := at(answer, "choices", 0, "logprobs", "top_logprobs", 0); len(top.(map[string]any)) != 0 {
		t.Error(answer)
	}
}

// pooledModel is the tiny model with a pooling: 1 is the mean, 4 a classifier with a row of weights per score.
func pooledModel(t *testing.T, pooling uint32, classifier ...[]float32) string {
	t.Helper()
	file, err := os.ReadFile(data + "stories260K-f32.gguf")
	must(t, err)
	le := binary.LittleEndian
	text := func(to []byte, text string) []byte { return append(le.AppendUint64(to, uint64(len(text))), text...) }
	// The tensor descriptions range from the name of the first tensor to the data, which begin at a multiple of 32.
	tensors, end := le.Uint64(file[8:]), bytes.Index(file, text(nil, "token_embd.weight"))
	for range tensors {
		end += 8 + int(le.Uint64(file[end:]))
		end += 4 + 8*int(le.Uint32(file[end:])) + 4 + 8
	}
	begin := (end + 31) &^ 31
	file = append(file, make([]byte, -len(file)&31)...)
	var tensor, weights []byte
	for _, row := range classifier {
		for _, x := range row {
			weights = le.AppendUint32(weights, math.Float32bits(x))
		}
	}
	if len(classifier) > 0 {
		tensors++
		tensor = le.AppendUint32(text(nil, "cls.output.weight"), 2)
		tensor = le.AppendUint64(le.AppendUint64(tensor, uint64(len(classifier[0]))), uint64(len(classifier)))
		tensor = le.AppendUint64(le.AppendUint32(tensor, 0), uint64(len(file)-begin))
	}
	keys := le.AppendUint32(le.AppendUint32(text(nil, "llama.pooling_type"), 4), pooling)
	keys = le.AppendUint32(text(keys, "general.comment"), 8)
	// The length of the insertion is a multiple of 32 bytes.
	keys = text(keys, strings.Repeat(".", -(len(keys)+8+len(tensor))&31))
	head := le.AppendUint64(le.AppendUint64(file[:8:8], tensors), le.Uint64(file[16:])+2)
	path := filepath.Join(t.TempDir(), "pooled.gguf")
	must(t, os.WriteFile(path, slices.Concat(head, keys, file[24:end], tensor, file[end:], weights), 0o600))
	return path
}

func TestEmbeddings(t *testing.T) {
	s := serve(t, "-m", "pooled="+pooledModel(t, 1))
	vectors := func(fields string) (vectors [][]float64, answer map[string]any) {
		answer = s.ask(t, "/v1/embeddings", `{"model": "pooled", `+fields+`}`)
		for i, entry := range answer["data"].([]any) {
			var vector []float64
			switch value := at(entry, "embedding").(type) {
			case string:
				raw, err := base64.StdEncoding.DecodeString(value)
				must(t, err)
				for ; len(raw) > 0; raw = raw[4:] {
					vector = append(vector, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
				}
			case []any:
				for _, x := range value {
					vector = append(vector, float64(float32(x.(float64))))
				}
			}
			sum := 0.0
			for _, x := range vector {
				sum += x * x
			}
			if math.Abs(sum-1) > 1e-5 || at(entry, "index") != float64(i) || at(entry, "object") != "embedding" {
				t.Error(sum, entry)
			}
			vectors = append(vectors, vector)
		}
		return vectors, answer
	}
	l := s.leased(t, "pooled")
	tokens, err := l.Tokenize(once, true, false)
	must(t, err)
	list, err := json.Marshal(tokens)
	must(t, err)
	whole, answer := vectors(`"input": ["Once upon a time", "Lily"]`)
	if len(whole) != 2 || len(whole[0]) != l.info.HiddenDim || at(answer, "usage", "prompt_tokens").(float64) <= float64(len(tokens)) {
		t.Error(answer)
	}
	library, err := l.EmbedTokens(t.Context(), [][]uint32{tokens}, nil)
	must(t, err)
	for i, x := range library[0] {
		if float64(x) != whole[0][i] {
			t.Error(i, x, whole[0][i])
		}
	}
	for _, fields := range []string{
		`"input": "Once upon a time", "encoding_format": "base64"`, `"input": ` + string(list), `"input": [` + string(list) + `], "encoding_format": "float"`,
	} {
		if same, answer := vectors(fields); !reflect.DeepEqual(same, whole[:1]) || at(answer, "usage", "total_tokens") != float64(len(tokens)) {
			t.Error(fields, same)
		}
	}
	short, _ := vectors(`"input": "Once upon a time", "dimensions": 8`)
	for i, x := range short[0] {
		if math.Abs(x/short[0][0]-whole[0][i]/whole[0][0]) > 1e-4*math.Abs(x/short[0][0]) {
			t.Error(short)
		}
	}
	if len(short[0]) != 8 {
		t.Error(short)
	}
	if last, _ := vectors(`"input": "Once upon a time", "pooling": "last"`); reflect.DeepEqual(last, whole[:1]) {
		t.Error(last)
	}
}

func TestDocumentsInOrder(t *testing.T) {
	s := serve(t, "-m", "pooled="+pooledModel(t, 1))
	const request = `{"model": "pooled", "query": "The dog ran to the park.", "documents": ["A big red ball", {"text": "The dog ran to the park."}, "The dog ran home."]`
	for _, path := range []string{"/rerank", "/v1/rerank"} {
		answer := s.ask(t, path, request+`}`)
		results, last := answer["results"].([]any), 2.0
		for _, result := range results {
			score := at(result, "relevance_score").(float64)
			if score > last || at(result, "document", "text") == nil {
				t.Error(answer)
			}
			last = score
		}
		if len(results) != 3 || at(results, 0, "index") != 1.0 || math.Abs(at(results, 0, "relevance_score").(float64)-1) > 1e-5 ||
			at(results, 0, "document", "text") != "The dog ran to the park." || at(answer, "usage", "total_tokens").(float64) < 20 {
			t.Error(answer)
		}
	}
	answer := s.ask(t, "/rerank", request+`, "top_n": 1, "return_documents": false}`)
	if results := answer["results"].([]any); len(results) != 1 || at(results, 0, "document") != nil {
		t.Error(answer)
	}
}

func TestAClassifierRanks(t *testing.T) {
	weights := make([][]float32, 2)
	for i := range weights {
		for j := range 64 {
			weights[i] = append(weights[i], float32(math.Sin(float64(64*i+j))))
		}
	}
	s := serve(t, "-m", "one="+pooledModel(t, 4, weights[0]), "-m", "two="+pooledModel(t, 4, weights...))
	documents := []string{"Lily", "The dog ran.", "x"}
	list, err := json.Marshal(documents)
	must(t, err)
	for model, rows := range map[string][][]float32{"one": weights[:1], "two": weights} {
		l := s.leased(t, model)
		// The tiny model begins a text with a token and ends it with none, so a pair has one such token. The vector of
		// the last token is classified.
		var pairs [][]uint32
		head, err := l.Tokenize(once, true, false)
		must(t, err)
		for _, document := range documents {
			tail, err := l.Tokenize(document, true, false)
			must(t, err)
			pairs = append(pairs, slices.Concat(head, tail[1:]))
		}
		vectors, err := l.EmbedTokens(t.Context(), pairs, &realizar.EmbedOptions{Pooling: realizar.PoolingLast, Raw: true})
		must(t, err)
		answer := s.ask(t, "/rerank", fmt.Sprintf(`{"model": %q, "query": "Once upon a time", "documents": %s}`, model, list))
		for _, result := range answer["results"].([]any) {
			i, want := int(at(result, "index").(float64)), 0.0
			for j, x := range vectors[i] {
				want += float64(x) * float64(rows[0][j])
			}
			if len(rows) == 1 { // two scores are returned unchanged
				want = 1 / (1 + math.Exp(-want))
			}
			if score := at(result, "relevance_score").(float64); math.Abs(score-want) > 1e-4*max(1, math.Abs(want)) {
				t.Error(model, i, score, want)
			}
		}
	}
}

// plainOf returns a message or a response without what differs between equal requests.
func plainOf(t *testing.T, answer any) string {
	t.Helper()
	var strip func(value any)
	strip = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, name := range []string{"id", "call_id", "created_at", "input_tokens", "cache_read_input_tokens", "input_tokens_details"} {
				delete(value, name)
			}
			for _, inner := range value {
				strip(inner)
			}
		case []any:
			for _, inner := range value {
				strip(inner)
			}
		}
	}
	strip(answer)
	text, err := json.MarshalIndent(answer, "", " ")
	must(t, err)
	return string(text)
}
