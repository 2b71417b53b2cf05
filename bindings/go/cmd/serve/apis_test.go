package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"realizar.dev/go"
)

const once = "Once upon a time"

// ask asks a path, which has to succeed.
func (s *service) ask(t *testing.T, path, body string) map[string]any {
	t.Helper()
	status, answer, _ := s.post(t, path, body)
	if status != http.StatusOK {
		t.Fatalf("%s %s: %d %v", path, body, status, answer)
	}
	return answer
}

// events asks for a stream and gives its events. Each tells its name, or none has one and "[DONE]" ends them.
func (s *service) events(t *testing.T, path, body string) (events []map[string]any) {
	t.Helper()
	response, err := http.Post(s.url+path, "application/json", strings.NewReader(strings.TrimSuffix(body, "}")+`, "stream": true}`))
	must(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(response)
	}
	name, done, lines := "", false, bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = text
		}
		text, ok := strings.CutPrefix(lines.Text(), "data: ")
		if done = done || text == "[DONE]"; done || !ok {
			continue
		}
		var event map[string]any
		must(t, json.Unmarshal([]byte(text), &event))
		if kind, _ := event["type"].(string); kind != name {
			t.Errorf("%q %v", name, event)
		}
		events = append(events, event)
	}
	if done != (name == "") {
		t.Error("a stream without its end")
	}
	return events
}

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
	// Without a number of tokens there are 16.
	answer = s.ask(t, "/v1/completions", `{"model": "plain", "prompt": "Once upon a time", "temperature": 0}`)
	if at(answer, "usage", "completion_tokens") != 16.0 {
		t.Error(answer)
	}
	// Several prompts, also as tokens, each with choices and what it begins with.
	l := s.leased(t, "plain")
	tokens, err := l.Tokenize(once, false)
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
	lily, err := l.Tokenize("Lily", false)
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
	tokens, err := l.Tokenize(once+text, false)
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

// pooledModel is the tiny model with a pooling, 1 the mean and 4 a classifier, which has a row of weights for each
// score.
func pooledModel(t *testing.T, pooling uint32, classifier ...[]float32) string {
	t.Helper()
	file, err := os.ReadFile(data + "stories260K-f32.gguf")
	must(t, err)
	le := binary.LittleEndian
	text := func(to []byte, text string) []byte { return append(le.AppendUint64(to, uint64(len(text))), text...) }
	// The descriptions of tensors go from the first one's name to where the data begins, at a multiple of 32.
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
	// What is put in is a multiple of 32 bytes long.
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
	tokens, err := l.Tokenize(once, false)
	must(t, err)
	list, err := json.Marshal(tokens)
	must(t, err)
	whole, answer := vectors(`"input": ["Once upon a time", "Lily"]`)
	if len(whole) != 2 || len(whole[0]) != l.info.HiddenDim || at(answer, "usage", "prompt_tokens").(float64) <= float64(len(tokens)) {
		t.Error(answer)
	}
	library, err := l.Embed(t.Context(), [][]uint32{tokens}, nil)
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
		// The tiny model begins texts with a token and ends them with none, so that a pair has one; the last token's
		// vector is classified.
		var pairs [][]uint32
		head, err := l.Tokenize(once, false)
		must(t, err)
		for _, document := range documents {
			tail, err := l.Tokenize(document, false)
			must(t, err)
			pairs = append(pairs, slices.Concat(head, tail[1:]))
		}
		vectors, err := l.Embed(t.Context(), pairs, &realizar.EmbedOptions{Pooling: realizar.PoolingLast, Raw: true})
		must(t, err)
		answer := s.ask(t, "/rerank", fmt.Sprintf(`{"model": %q, "query": "Once upon a time", "documents": %s}`, model, list))
		for _, result := range answer["results"].([]any) {
			i, want := int(at(result, "index").(float64)), 0.0
			for j, x := range vectors[i] {
				want += float64(x) * float64(rows[0][j])
			}
			if len(rows) == 1 { // two scores are told as they are
				want = 1 / (1 + math.Exp(-want))
			}
			if score := at(result, "relevance_score").(float64); math.Abs(score-want) > 1e-4*max(1, math.Abs(want)) {
				t.Error(model, i, score, want)
			}
		}
	}
}

const anthropicTool = `{"name": "go", "description": "Goes", "cache_control": {"type": "ephemeral"}, "input_schema": {"type": "object",
	"properties": {"by": {"enum": ["car", "bus"]}}, "required": ["by"], "additionalProperties": false}}`

// assembled is the message that events of a stream make.
func assembled(t *testing.T, events []map[string]any) (message map[string]any) {
	t.Helper()
	var blocks []any
	kinds, input := "", ""
	for _, event := range events {
		kinds += event["type"].(string) + " "
		switch event["type"] {
		case "message_start":
			message = event["message"].(map[string]any)
		case "content_block_start":
			if at(event, "index") != float64(len(blocks)) {
				t.Error(event)
			}
			blocks, input = append(blocks, event["content_block"]), ""
		case "content_block_delta":
			block := blocks[len(blocks)-1].(map[string]any)
			for _, name := range []string{"text", "thinking", "signature"} {
				if text, ok := at(event, "delta", name).(string); ok {
					block[name] = block[name].(string) + text
				}
			}
			if text, ok := at(event, "delta", "partial_json").(string); ok {
				input += text
			}
		case "content_block_stop":
			if block := blocks[len(blocks)-1].(map[string]any); block["type"] == "tool_use" {
				var object map[string]any
				must(t, json.Unmarshal([]byte(input), &object))
				block["input"] = object
			}
		case "message_delta":
			message["stop_reason"], message["stop_sequence"] = at(event, "delta", "stop_reason"), at(event, "delta", "stop_sequence")
			message["usage"] = event["usage"]
		}
	}
	if !strings.HasPrefix(kinds, "message_start ping content_block_start content_block_delta ") ||
		!strings.HasSuffix(kinds, " content_block_stop message_delta message_stop ") {
		t.Error(kinds)
	}
	message["content"] = blocks
	return message
}

// plainOf is a message or a response without what differs from one to the next.
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

func TestAMessageIsTheAnswerOfAChat(t *testing.T) {
	s := serve(t)
	chat := s.chat(t, "plain", once, `"temperature": 0, "max_tokens": 30`)
	const request = `{"model": "plain", "max_tokens": 30, "temperature": 0, "messages": [{"role": "user", "content": "Once upon a time"}]}`
	message := s.ask(t, "/v1/messages", request)
	if at(message, "content", 0, "text") != content(chat) || message["role"] != "assistant" || message["type"] != "message" ||
		message["stop_reason"] != "max_tokens" || message["model"] != "plain" || !strings.HasPrefix(message["id"].(string), "msg_") {
		t.Error(message)
	}
	usage := message["usage"]
	if at(usage, "input_tokens").(float64)+at(usage, "cache_read_input_tokens").(float64) != at(chat, "usage", "prompt_tokens") || at(usage, "output_tokens") != 30.0 {
		t.Error(usage)
	}
	// The system, and messages of one role behind each other; parts of them are lines.
	chat = s.complete(t, `{"model": "plain", "max_tokens": 9, "temperature": 0, "messages": [{"role": "system", "content": "One\nday"},
		{"role": "user", "content": "a\nb\nc"}, {"role": "assistant", "content": "d", "reasoning_content": "e"}, {"role": "user", "content": "f"}]}`)
	again := `{"model": "plain", "max_tokens": 9, "temperature": 0, "system": [{"type": "text", "text": "One", "cache_control": {"type": "ephemeral"}},
		{"type": "text", "text": "day"}], "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
		{"role": "user", "content": "c"}, {"role": "assistant", "content": [{"type": "thinking", "thinking": "e", "signature": "x"},
		{"type": "text", "text": "d"}]}, {"role": "user", "content": "f"}], "metadata": {"user_id": "u"}}`
	message = s.ask(t, "/v1/messages", again)
	if at(message, "content", 0, "text") != content(chat) {
		t.Error(message, chat)
	}
	counted := strings.Replace(again, `"max_tokens": 9, "temperature": 0, `, "", 1)
	if tokens := s.ask(t, "/v1/messages/count_tokens", counted)["input_tokens"]; tokens != at(chat, "usage", "prompt_tokens") {
		t.Error(tokens, chat)
	}
	// Stop strings, one and several of them.
	for fields, stop := range map[string]string{`[" She"]`: " She", `["never", "named", " She"]`: "named", `["med Li", "named Lily"]`: "med Li"} {
		message := s.ask(t, "/v1/messages", strings.TrimSuffix(request, "}")+`, "stop_sequences": `+fields+`}`)
		text := at(message, "content", 0, "text").(string)
		if message["stop_reason"] != "stop_sequence" || message["stop_sequence"] != stop || !strings.HasPrefix(story, text+stop) {
			t.Error(message)
		}
	}
}

func TestAStreamedMessageIsTheSame(t *testing.T) {
	s := serve(t)
	for _, fields := range []string{
		`"model": "plain"`, `"model": "plain", "stop_sequences": ["zz", "e"]`, `"model": "thinking", "thinking": {"type": "enabled", "budget_tokens": 6}`,
		`"model": "thinking", "thinking": {"type": "disabled"}, "tool_choice": {"type": "any", "disable_parallel_tool_use": true}, "tools": [` + anthropicTool + `]`,
		`"model": "thinking", "output_config": {"format": {"type": "json_schema", "schema": {"enum": ["a", "b"]}}}`,
		`"model": "thinking", "thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}`,
	} {
		request := `{"max_tokens": 60, "temperature": 0, "messages": [{"role": "user", "content": "Hi"}], ` + fields + `}`
		whole, stream := plainOf(t, s.ask(t, "/v1/messages", request)), plainOf(t, assembled(t, s.events(t, "/v1/messages", request)))
		if whole != stream {
			t.Errorf("%s\n%s\n%s", request, whole, stream)
		}
	}
}

func TestMessagesCallTools(t *testing.T) {
	s := serve(t)
	messages := []any{map[string]any{"role": "user", "content": "Go"}}
	request := func() string {
		text, err := json.Marshal(messages)
		must(t, err)
		return fmt.Sprintf(`{"model": "thinking", "messages": %s, "tools": [%s], "thinking": {"type": "disabled"}, "max_tokens": 60, "temperature": 0,
			"tool_choice": {"type": "tool", "name": "go", "disable_parallel_tool_use": true}}`, text, anthropicTool)
	}
	for range 3 {
		message := s.ask(t, "/v1/messages", request())
		call := at(message, "content", 0)
		if by := at(call, "input", "by"); by != "car" && by != "bus" || at(call, "name") != "go" || message["stop_reason"] != "tool_use" {
			t.Fatal(message)
		}
		messages = append(messages, map[string]any{"role": "assistant", "content": message["content"]}, map[string]any{"role": "user", "content": []any{
			map[string]any{"type": "tool_result", "tool_use_id": at(call, "id"), "is_error": true, "content": "no"},
			map[string]any{"type": "text", "text": "Again"},
		}})
	}
	// The prompt is that of a chat with the same messages.
	var chat []any
	for _, each := range messages {
		switch blocks := at(each, "content").(type) {
		case string:
			chat = append(chat, each)
		case []any:
			if call := blocks[0].(map[string]any); call["type"] == "tool_use" {
				input, err := json.Marshal(call["input"])
				must(t, err)
				chat = append(chat, map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{
					"id": call["id"], "type": "function", "function": map[string]any{"name": "go", "arguments": string(input)}}}})
			} else {
				chat = append(chat, map[string]any{"role": "tool", "tool_call_id": call["tool_use_id"], "content": "Error: no"},
					map[string]any{"role": "user", "content": "Again"})
			}
		}
	}
	text, err := json.Marshal(chat)
	must(t, err)
	answer := s.complete(t, fmt.Sprintf(`{"model": "thinking", "messages": %s, "tools": [%s], "tool_choice": "required", "parallel_tool_calls": false,
		"reasoning_effort": "none", "temperature": 0}`, text, goTool))
	tokens := at(s.ask(t, "/v1/messages", request()), "usage")
	if sum := at(tokens, "input_tokens").(float64) + at(tokens, "cache_read_input_tokens").(float64); sum != at(answer, "usage", "prompt_tokens") {
		t.Error(tokens, answer)
	}
}

// finished is the response that events of a stream end with, which are checked against it.
func finished(t *testing.T, events []map[string]any) map[string]any {
	t.Helper()
	last := events[len(events)-1]["response"].(map[string]any)
	texts := map[int]string{}
	for i, event := range events {
		if event["sequence_number"] != float64(i) {
			t.Error(i, event)
		}
		if delta, ok := event["delta"].(string); ok {
			texts[int(event["output_index"].(float64))] += delta
		}
		if event["type"] == "response.output_item.done" {
			index := int(event["output_index"].(float64))
			if !reflect.DeepEqual(event["item"], at(last, "output", index)) {
				t.Error(event, last)
			}
			text := at(event, "item", "arguments")
			if text == nil {
				text = at(event, "item", "content", 0, "text")
			}
			if text != texts[index] {
				t.Errorf("%q %v", texts[index], event)
			}
		}
	}
	if events[0]["type"] != "response.created" || events[1]["type"] != "response.in_progress" || len(texts) != len(last["output"].([]any)) {
		t.Error(events)
	}
	return last
}

func TestAStreamedResponseIsTheSame(t *testing.T) {
	s := serve(t)
	const tool = `{"type": "function", "name": "go", "strict": true, "parameters": {"type": "object", "properties": {"by": {"enum": ["car", "bus"]}},
		"required": ["by"], "additionalProperties": false}}`
	for fields, want := range map[string]string{
		`"model": "plain", "max_output_tokens": 20`:                                                                                                                      "response.incomplete",
		`"model": "plain", "max_output_tokens": 20, "top_logprobs": 2, "include": ["message.output_text.logprobs"]`:                                                      "response.incomplete",
		`"model": "thinking", "max_output_tokens": 20, "reasoning": {"effort": "low", "summary": "auto"}`:                                                                "response.incomplete",
		`"model": "thinking", "reasoning": {"effort": "none"}, "text": {"format": {"type": "json_schema", "name": "n", "strict": true, "schema": {"enum": ["a", "b"]}}}`: "response.completed",
		`"model": "thinking", "reasoning": {"effort": "none"}, "parallel_tool_calls": false, "tool_choice": "required", "tools": [` + tool + `]`:                         "response.completed",
	} {
		request := `{"input": "Hi", "temperature": 0, "metadata": {"a": "b"}, ` + fields + `}`
		whole := s.ask(t, "/v1/responses", request)
		events := s.events(t, "/v1/responses", request)
		stream := finished(t, events)
		if events[len(events)-1]["type"] != want || at(whole, "metadata", "a") != "b" {
			t.Error(request, events[len(events)-1])
		}
		if whole, stream := plainOf(t, whole), plainOf(t, stream); whole != stream {
			t.Errorf("%s\n%s\n%s", request, whole, stream)
		}
	}
}

func TestAStreamThatFailsTellsIt(t *testing.T) {
	piece := event{Part: realizar.Part{Kind: realizar.PartContent, Text: "a"}}
	web := httptest.NewRecorder()
	response := &responseReply{request: &responseRequest{Model: "m"}, out: newStream(web), id: "resp_x", status: "in_progress"}
	if err := response.fail(context.DeadlineExceeded); err != context.DeadlineExceeded || web.Body.Len() > 0 {
		t.Error(err, web.Body) // with a status of its own, because nothing is sent yet
	}
	must(t, response.add(&piece))
	var told *toldError
	if err := response.fail(context.DeadlineExceeded); !errors.As(err, &told) || told.status != http.StatusGatewayTimeout {
		t.Error(err)
	}
	last := web.Body.String()[strings.LastIndex(web.Body.String(), "event: "):]
	if !strings.HasPrefix(last, "event: response.failed\n") || !strings.Contains(last, `"status":"failed"`) || !strings.Contains(last, `"code":"server_error"`) {
		t.Error(last)
	}
	web = httptest.NewRecorder()
	out := newStream(web)
	message := &messageReply{message: map[string]any{"content": []any{}}, send: func(name string, value map[string]any) error { return out.send(name, value) }}
	must(t, message.add(nil, &piece))
	if err := out.fail(anthropic, context.DeadlineExceeded); !errors.As(err, &told) {
		t.Error(err)
	}
	if last := web.Body.String(); !strings.Contains(last, "event: error\n") || !strings.Contains(last, `"type":"timeout_error"`) {
		t.Error(last)
	}
}

func TestResponsesGoOn(t *testing.T) {
	s := serve(t)
	first := s.ask(t, "/v1/responses", `{"model": "plain", "input": "Once upon a time", "temperature": 0, "max_output_tokens": 12, "instructions": "Say"}`)
	text := at(first, "output", 0, "content", 0, "text").(string)
	id := first["id"].(string)
	second := s.ask(t, "/v1/responses", fmt.Sprintf(
		`{"model": "plain", "input": [{"role": "user", "content": [{"type": "input_text", "text": "And"}]}], "temperature": 0, "max_output_tokens": 9, "previous_response_id": %q}`, id))
	// It is the answer to all messages, but without the instructions.
	input, err := json.Marshal([]any{
		map[string]any{"role": "user", "content": once}, map[string]any{"type": "message", "role": "assistant", "id": "x", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}}}, map[string]any{"role": "user", "content": "And"},
	})
	must(t, err)
	whole := s.ask(t, "/v1/responses", fmt.Sprintf(`{"model": "plain", "input": %s, "temperature": 0, "max_output_tokens": 9, "store": false}`, input))
	if at(second, "output", 0, "content", 0, "text") != at(whole, "output", 0, "content", 0, "text") || at(second, "usage", "input_tokens") != at(whole, "usage", "input_tokens") {
		t.Error(second, whole)
	}
	count := s.ask(t, "/v1/responses/input_tokens", fmt.Sprintf(`{"model": "plain", "input": %s}`, input))
	if count["input_tokens"] != at(whole, "usage", "input_tokens") || count["object"] != "response.input_tokens" {
		t.Error(count, whole)
	}
	for _, c := range []struct {
		method string
		id     any
		want   int
	}{
		{http.MethodGet, id, http.StatusOK}, {http.MethodGet, whole["id"], http.StatusNotFound}, // which is not stored
		{http.MethodDelete, id, http.StatusOK}, {http.MethodDelete, id, http.StatusNotFound}, {http.MethodGet, id, http.StatusNotFound},
		{http.MethodGet, second["id"], http.StatusOK},
	} {
		request, err := http.NewRequest(c.method, fmt.Sprint(s.url, "/v1/responses/", c.id), nil)
		must(t, err)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		var answer map[string]any
		must(t, json.NewDecoder(response.Body).Decode(&answer))
		response.Body.Close()
		if response.StatusCode != c.want || c.want == http.StatusOK && answer["id"] != c.id {
			t.Error(c, answer)
		}
	}
	status, answer, _ := s.post(t, "/v1/responses", fmt.Sprintf(`{"model": "plain", "input": "x", "previous_response_id": %q}`, id))
	if status != http.StatusBadRequest || at(answer, "error", "code") != "previous_response_not_found" {
		t.Error(status, answer)
	}
	// Calls and their results are messages of a chat.
	called := `[{"role": "user", "content": "Go"}, {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
		{"type": "function_call", "call_id": "c", "name": "go", "arguments": "{\"by\": \"car\"}"},
		{"type": "function_call", "call_id": "d", "name": "go", "arguments": "{\"by\": \"bus\"}"},
		{"type": "function_call_output", "call_id": "c", "output": "done"}, {"type": "function_call_output", "call_id": "d", "output": [{"type": "input_text", "text": "ok"}]}]`
	var all items
	must(t, json.Unmarshal([]byte(called), &all))
	messages, err := all.messages(nil)
	must(t, err)
	want := []message{{Role: "user", Content: "Go"}, {Role: "assistant", ReasoningContent: "hm", ToolCalls: []toolCall{
		{"c", "function", function{"go", `{"by": "car"}`}}, {"d", "function", function{"go", `{"by": "bus"}`}}}},
		{Role: "tool", Content: "done", Name: "go", ToolCallID: "c"}, {Role: "tool", Content: "ok", Name: "go", ToolCallID: "d"}}
	if !reflect.DeepEqual(messages, want) {
		t.Errorf("%+v", messages)
	}
}

func TestWhatIsKeptHasABound(t *testing.T) {
	var kept keeper[*storedResponse]
	put := func(name string, size int) {
		kept.put(name, &storedResponse{messages: []message{{Content: strings.Repeat("x", size)}}})
	}
	for i := range 20 {
		put(fmt.Sprint(i), maxKeptBytes/8)
		if _, found := kept.get("0"); !found { // which is asked for again and again
			t.Error(i)
		}
	}
	_, old := kept.get("5")
	_, young := kept.get("19")
	if kept.bytes > maxKeptBytes || kept.order.Len() != 7 || len(kept.all) != 7 || old || !young {
		t.Error(kept.bytes, kept.order.Len())
	}
	if put("large", maxKeptBytes); kept.bytes != 0 || kept.order.Len() != 0 || len(kept.all) != 0 {
		t.Error(kept.bytes)
	}
}

func TestThreadsGoOn(t *testing.T) {
	s := serve(t)
	const fields = `"model": "thinking", "max_tokens": 40, "temperature": 0, "thinking": {"type": "disabled"}, `
	first := s.ask(t, "/v1/messages", `{`+fields+`"thread": {"type": "create"}, "system": "S", "tools": [`+anthropicTool+`], "tool_choice": {"type": "any",
		"disable_parallel_tool_use": true}, "messages": [{"role": "user", "content": "Go"}]}`)
	result := fmt.Sprintf(`{"role": "user", "content": [{"type": "tool_result", "tool_use_id": %q, "content": "done"}]}`, at(first, "content", 0, "id"))
	said, err := json.Marshal(first["content"])
	must(t, err)
	whole := s.ask(t, "/v1/messages", `{`+fields+`"system": "S", "tools": [`+anthropicTool+`], "tool_choice": {"type": "none"}, "messages": [{"role": "user",
		"content": "Go"}, {"role": "assistant", "content": `+string(said)+`}, `+result+`]}`)
	goOn := `{` + fields + `"thread": {"type": "continue", "previous_message_id": "` + first["id"].(string) + `"}, "tool_choice": {"type": "none"}, "messages": [` + result + `]}`
	stream := assembled(t, s.events(t, "/v1/messages", goOn))
	again := fmt.Sprintf(`{%s"thread": {"type": "continue", "previous_message_id": %q}, "messages": [{"role": "user", "content": "And?"}]}`, fields, stream["id"])
	s.ask(t, "/v1/messages", again) // from one that was streamed
	if whole, stream := plainOf(t, whole), plainOf(t, stream); whole != stream {
		t.Errorf("%s\n%s", whole, stream)
	}
	for body, want := range map[string]string{
		`"thread": {"type": "continue", "previous_message_id": "x"}`: "thread_not_found", `"thread": {"type": "y"}`: "", `"compaction": {}`: "",
		`"thread": {"type": "continue", "previous_message_id": "x"}, "system": "s"`: "",
	} {
		status, answer, _ := s.post(t, "/v1/messages", `{`+fields+`"messages": [{"role": "user", "content": "x"}], `+body+`}`)
		if code, _ := at(answer, "error", "details", "error_code").(string); status/100 != 4 || code != want {
			t.Error(body, status, answer)
		}
	}
}

func TestWhatIsNotSupportedIsNamed(t *testing.T) {
	s := serve(t)
	const text = `"messages": [{"role": "user", "content": "x"}], "max_tokens": 5, `
	for _, c := range []struct {
		path, body, word string
		status           int
	}{
		{"/v1/completions", `"prompt": "x", "suffix": "y"`, "suffix", 400},
		{"/v1/completions", `"prompt": "x", "best_of": 3`, "best_of", 400},
		{"/v1/completions", `"prompt": "x", "echo": true, "logprobs": 1`, "echo", 400},
		{"/v1/completions", `"prompt": "x", "logprobs": 21`, "logprobs", 400},
		{"/v1/completions", `"prompt": "x", "n": 1000`, "n", 400},
		{"/v1/completions", `"prompt": "x", "max_tokens": 0`, "max_tokens", 400},
		{"/v1/completions", `"prompt": []`, "prompts", 400},
		{"/v1/completions", `"prompt": [1, "x"]`, "tokens", 400},
		{"/v1/completions", `"prompt": [99999]`, "99999", 400},
		{"/v1/completions", `"prompt": "x", "wrong": 1`, "wrong", 400},
		{"/v1/completions", `"prompt": "` + strings.Repeat("x ", 2000) + `"`, "512", 400},
		{"/v1/embeddings", `"input": "x"`, "pooling", 400},
		{"/v1/embeddings", `"input": []`, "input", 400},
		{"/v1/embeddings", `"input": "x", "pooling": "max"`, "pooling", 400},
		{"/v1/embeddings", `"input": "x", "pooling": "mean", "dimensions": 1000`, "dimensions", 400},
		{"/v1/embeddings", `"input": "x", "encoding_format": "hex"`, "encoding_format", 400},
		{"/rerank", `"query": "x", "documents": ["y"]`, "pooling", 400},
		{"/rerank", `"documents": ["y"]`, "query", 400},
		{"/rerank", `"query": "x", "documents": [1]`, "document", 400},
		{"/rerank", `"query": "x", "documents": ["y"], "top_n": 0`, "top_n", 400},
		{"/v1/messages", `"messages": [{"role": "user", "content": "x"}]`, "max_tokens", 400},
		{"/v1/messages", `"max_tokens": 5, "messages": []`, "messages", 400},
		{"/v1/messages", `"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]`, "image", 400},
		{"/v1/messages", `"max_tokens": 5, "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]`, "assistant", 400},
		{"/v1/messages", `"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "q"}]}]`, "tool_use_id", 400},
		{"/v1/messages", text + `"tools": [{"type": "web_search_20250305", "name": "web_search"}]`, "web_search_20250305", 400},
		{"/v1/messages", text + `"tool_choice": {"type": "some"}`, "some", 400},
		{"/v1/messages", text + `"thinking": {"type": "enabled", "budget_tokens": 5}`, "budget_tokens", 400},
		{"/v1/messages", text + `"mcp_servers": [{}]`, "mcp_servers", 400},
		{"/v1/messages", text + `"container": "x"`, "container", 400},
		{"/v1/messages", text + `"wrong": "x"`, "wrong", 400},
		{"/v1/messages/count_tokens", `"messages": [{"role": "user", "content": [{"type": "document"}]}]`, "document", 400},
		{"/v1/responses", `"input": "x", "background": true`, "background", 400},
		{"/v1/responses", `"input": "x", "conversation": "c"`, "conversation", 400},
		{"/v1/responses", `"input": "x", "tools": [{"type": "web_search"}]`, "web_search", 400},
		{"/v1/responses", `"input": "x", "tool_choice": "required"`, "tool", 400},
		{"/v1/responses", `"input": "x", "truncation": "auto"`, "truncation", 400},
		{"/v1/responses", `"input": "x", "include": ["web_search_call.results"]`, "web_search_call", 400},
		{"/v1/responses", `"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "u"}]}]`, "input_image", 400},
		{"/v1/responses", `"input": [{"type": "item_reference", "id": "x"}]`, "item_reference", 400},
		{"/v1/responses", `"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]`, "call_id", 400},
		{"/v1/responses", `"input": "x", "text": {"format": {"type": "xml"}}`, "text.format", 400},
		{"/v1/responses", `"input": "x", "reasoning": {"effort": "much"}`, "much", 400},
		{"/v1/responses", `"instructions": "x", "input": []`, "", 200},
		{"/v1/responses", `"store": true`, "input", 400},
	} {
		status, answer, _ := s.post(t, c.path, `{"model": "plain", `+c.body+`}`)
		said, _ := at(answer, "error", "message").(string)
		kind := at(answer, "error", "type")
		if status != c.status || !strings.Contains(said, c.word) || status != 200 && kind != "invalid_request_error" ||
			(answer["type"] == "error") != (status != 200 && strings.HasPrefix(c.path, "/v1/messages")) {
			t.Errorf("%s %s: %d %v", c.path, c.body, status, answer)
		}
	}
	adapted := serve(t, "-lora", "poet=plain,"+data+"story-adapter.gguf")
	for path, fields := range map[string]string{"/v1/embeddings": `"input": "x", "pooling": "mean"`, "/rerank": `"query": "x", "documents": ["y"]`} {
		status, answer, _ := adapted.post(t, path, `{"model": "poet", `+fields+`}`)
		if said, _ := at(answer, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(said, "adapter") {
			t.Error(path, answer)
		}
	}
	for path, body := range map[string]string{
		"/v1/completions": `"prompt": "x"`, "/v1/embeddings": `"input": "x"`, "/rerank": `"query": "x", "documents": ["y"]`,
		"/v1/messages": text + `"stream": true`, "/v1/messages/count_tokens": `"messages": [{"role": "user", "content": "x"}]`, "/v1/responses": `"input": "x"`,
	} {
		status, answer, _ := s.post(t, path, `{"model": "nobody", `+body+`}`)
		want := "invalid_request_error"
		if strings.HasPrefix(path, "/v1/messages") {
			want = "not_found_error"
		}
		if status != http.StatusNotFound || at(answer, "error", "type") != want {
			t.Error(path, status, answer)
		}
	}
}

// mutants are values with one of what is in them replaced, or taken out.
func mutants(value any, wrong []any) (all []any) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			with := func(inner any) map[string]any {
				mutant := maps.Clone(value)
				mutant[name] = inner
				return mutant
			}
			for _, mutant := range append(mutants(inner, wrong), wrong...) {
				all = append(all, with(mutant))
			}
			without := with(nil)
			delete(without, name)
			all = append(all, without)
		}
	case []any:
		for i, inner := range value {
			for _, mutant := range append(mutants(inner, wrong), wrong...) {
				list := slices.Clone(value)
				list[i] = mutant
				all = append(all, list)
			}
		}
	}
	return all
}

// Whatever stands in a place of a request, it is answered or refused, and nothing else goes wrong.
func TestWrongValuesAreRefused(t *testing.T) {
	s := serve(t, "-m", "pooled="+pooledModel(t, 1))
	wrong := []any{nil, true, -1, 1e300, 0.5, "", "x\x00", []any{}, map[string]any{}, []any{nil}, map[string]any{"type": "x"}, [][]int{{1}, {}}, []any{1, "x"}}
	answered, n := 0, 0
	for path, body := range map[string]string{
		"/v1/completions": `{"model": "plain", "prompt": ["Once", "x"], "max_tokens": 2, "n": 2, "stop": ["q"], "logprobs": 1, "seed": 1,
			"logit_bias": {"5": 1}, "stream_options": {"include_usage": true}, "stream": true}`,
		"/v1/embeddings": `{"model": "pooled", "input": ["x", "y"], "dimensions": 3, "encoding_format": "base64", "pooling": "mean"}`,
		"/rerank":        `{"model": "pooled", "query": "x", "documents": ["y", {"text": "z"}], "top_n": 1, "return_documents": true}`,
		"/v1/messages": `{"model": "thinking", "max_tokens": 8, "system": [{"type": "text", "text": "s"}], "messages": [{"role": "user", "content": "x"},
			{"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": "b"}, {"type": "text", "text": "c"},
			{"type": "tool_use", "id": "i", "name": "go", "input": {"by": "car"}}]}, {"role": "user", "content": [{"type": "tool_result",
			"tool_use_id": "i", "content": [{"type": "text", "text": "d"}], "is_error": true}]}], "tools": [` + anthropicTool + `],
			"tool_choice": {"type": "tool", "name": "go"}, "stop_sequences": ["q", "r"], "thinking": {"type": "enabled", "budget_tokens": 2},
			"output_config": {"effort": "low"}, "temperature": 0, "stream": true}`,
		"/v1/messages/count_tokens": `{"model": "thinking", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}`,
		"/v1/responses": `{"model": "thinking", "max_output_tokens": 8, "instructions": "s", "input": [{"role": "user", "content": [{"type": "input_text",
			"text": "x"}]}, {"type": "reasoning", "summary": [{"type": "summary_text", "text": "a"}]}, {"type": "function_call", "call_id": "i", "name": "go",
			"arguments": "{}"}, {"type": "function_call_output", "call_id": "i", "output": "d"}], "tools": [{"type": "function", "name": "go",
			"parameters": {"type": "object"}}], "tool_choice": {"type": "function", "name": "go"}, "reasoning": {"effort": "low"}, "metadata": {"a": "b"},
			"text": {"format": {"type": "text"}}, "include": ["message.output_text.logprobs"], "top_logprobs": 1, "store": true, "stream": true}`,
	} {
		var whole map[string]any
		must(t, json.Unmarshal([]byte(body), &whole))
		for _, mutant := range append(mutants(whole, wrong), whole) {
			text, err := json.Marshal(mutant)
			must(t, err)
			response, err := http.Post(s.url+path, "application/json", bytes.NewReader(text))
			must(t, err)
			answer, err := io.ReadAll(response.Body)
			must(t, err)
			response.Body.Close()
			n++
			switch status := response.StatusCode; {
			case status == http.StatusOK:
				answered++
				if bytes.Contains(answer, []byte("an internal error")) {
					t.Errorf("%s %s: %s", path, text, answer)
				}
			case status != http.StatusBadRequest && status != http.StatusNotFound || !json.Valid(answer):
				t.Errorf("%s %s: %d %s", path, text, status, answer)
			}
		}
	}
	if answered < 100 || n-answered < 500 {
		t.Error(answered, n)
	}
}
