package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"realizar.dev/go"
)

// encoderFile is an encoder of LLaVA's kind for the tiny model: shapes and keys are those of the tests of encoders.
func encoderFile(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(data + "vision/llava.json")
	must(t, err)
	var family struct {
		Keys map[string]any `json:"keys"`
		GGUF [][]any        `json:"gguf"`
	}
	must(t, json.Unmarshal(text, &family))
	le := binary.LittleEndian
	var head, values bytes.Buffer
	put := func(all ...any) {
		for _, value := range all {
			if text, ok := value.(string); ok {
				put2(&head, uint64(len(text)), []byte(text))
			} else {
				put2(&head, value)
			}
		}
	}
	put([]byte("GGUF"), uint32(3), uint64(len(family.GGUF)), uint64(len(family.Keys)))
	number := func(name string, x float64) any {
		if strings.Contains(name, "epsilon") || strings.Contains(name, "image_mean") || strings.Contains(name, "image_std") {
			return float32(x)
		}
		return uint32(x)
	}
	kinds := map[bool]uint32{true: 6, false: 4} // of numbers, with a fraction or not
	isFloat := func(value any) bool { _, ok := value.(float32); return ok }
	for _, name := range slices.Sorted(maps.Keys(family.Keys)) {
		put(name)
		switch value := family.Keys[name].(type) {
		case string:
			put(uint32(8), value)
		case bool:
			put(uint32(7), value)
		case float64:
			n := number(name, value)
			put(kinds[isFloat(n)], n)
		case []any:
			put(uint32(9), kinds[isFloat(number(name, 0))], uint64(len(value)))
			for _, x := range value {
				put(number(name, x.(float64)))
			}
		}
	}
	for i, tensor := range family.GGUF {
		shape := tensor[3].([]any)
		put(tensor[0].(string), uint32(len(shape)))
		count := 1
		for _, n := range slices.Backward(shape) {
			put(uint64(n.(float64)))
			count *= int(n.(float64))
		}
		put(uint32(0), uint64(values.Len()))
		for j := range count {
			must(t, binary.Write(&values, le, float32(math.Sin(float64(7*i+j*j%1009)))/4))
		}
		values.Write(make([]byte, -values.Len()&31))
	}
	head.Write(make([]byte, -head.Len()&31))
	path := filepath.Join(t.TempDir(), "mmproj.gguf")
	must(t, os.WriteFile(path, append(head.Bytes(), values.Bytes()...), 0o600))
	return path
}

func put2(to *bytes.Buffer, all ...any) {
	for _, value := range all {
		_ = binary.Write(to, binary.LittleEndian, value) // which memory takes
	}
}

// pictureURL is the data: URL of a file of the tests of pictures.
func pictureURL(t *testing.T, name string) string {
	t.Helper()
	file, err := os.ReadFile(data + "media/" + name)
	must(t, err)
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(file)
}

// shown is a request with a picture ahead of a text, in the form of an API.
func shown(path, model, url, text string) string {
	switch path {
	case "/v1/messages":
		_, bytes, _ := strings.Cut(url, ",")
		return fmt.Sprintf(`{"model": %q, "max_tokens": 12, "temperature": 0, "messages": [{"role": "user", "content": [{"type": "image",
			"source": {"type": "base64", "media_type": "image/png", "data": %q}}, {"type": "text", "text": %q}]}]}`, model, bytes, text)
	case "/v1/responses":
		return fmt.Sprintf(`{"model": %q, "max_output_tokens": 12, "temperature": 0, "input": [{"role": "user", "content": [
			{"type": "input_image", "image_url": %q, "detail": "low"}, {"type": "input_text", "text": %q}]}]}`, model, url, text)
	}
	return fmt.Sprintf(`{"model": %q, "max_tokens": 12, "temperature": 0, "messages": [{"role": "user", "content": [
		{"type": "image_url", "image_url": {"url": %q, "detail": "auto"}}, {"type": "text", "text": %q}]}]}`, model, url, text)
}

// The answer is what the library makes of the same picture by hand, through every API, and a picture is encoded once.
func TestPicturesAreShown(t *testing.T) {
	path := encoderFile(t)
	s := serve(t, "-mmproj", "plain="+path)
	l := s.leased(t, "plain")
	file, err := os.ReadFile(data + "media/rgb.png")
	must(t, err)
	media, err := l.encoder.EncodeImage(t.Context(), file, nil)
	must(t, err)
	defer media.Close()
	// The encoder of bytes is the same.
	weights, err := os.ReadFile(path)
	must(t, err)
	sources := []realizar.Source{{Size: int64(len(weights)), Reader: bytes.NewReader(weights)}}
	again, err := l.LoadEncoderFrom(t.Context(), sources, nil)
	must(t, err)
	defer again.Close()
	same, err := again.EncodeImage(t.Context(), file, nil)
	must(t, err)
	defer same.Close()
	one, err := media.Info()
	must(t, err)
	if two, err := same.Info(); err != nil || two.Hash != one.Hash {
		t.Error(err)
	}
	prompt, err := l.NewChatPrompt(&realizar.Transcript{Messages: []any{map[string]any{
		"role": "user", "content": []any{map[string]any{"type": "image", "media": 0}, map[string]any{"type": "text", "text": "Once"}},
	}}}, media)
	must(t, err)
	defer prompt.Close()
	session, err := l.NewSession(nil)
	must(t, err)
	defer session.Close()
	job, err := session.NewJob(t.Context(), nil, &realizar.JobOptions{MaxTokens: 12, Prompt: prompt})
	must(t, err)
	defer job.Close()
	want := ""
	for more := true; more; {
		more, err = job.Step(realizar.NoLimit)
		must(t, err)
		text, err := job.Text()
		must(t, err)
		want += text
	}
	if prompt.Len() < 64 || want == "" {
		t.Fatal(prompt.Len(), want)
	}
	metrics, err := l.Metrics()
	must(t, err)
	before := metrics.Encode.Count
	url := pictureURL(t, "rgb.png")
	answer := s.complete(t, shown("", "plain", url, "Once"))
	if said := at(answer, "choices", 0, "message", "content"); said != want || at(answer, "usage", "prompt_tokens") != float64(prompt.Len()) {
		t.Fatal(want, prompt.Len(), answer)
	}
	answer = s.ask(t, "/v1/messages", shown("/v1/messages", "plain", url, "Once"))
	if at(answer, "content", 0, "text") != want {
		t.Error(want, answer)
	}
	answer = s.ask(t, "/v1/responses", shown("/v1/responses", "plain", url, "Once"))
	if at(answer, "output", 0, "content", 0, "text") != want {
		t.Error(want, answer)
	}
	further := fmt.Sprintf(`{"model": "plain", "max_output_tokens": 5, "temperature": 0, "previous_response_id": %q, "input": "Then"}`, answer["id"])
	if answer = s.ask(t, "/v1/responses", further); at(answer, "usage", "input_tokens").(float64) < float64(prompt.Len()+5) {
		t.Error(answer)
	}
	counted := s.ask(t, "/v1/messages/count_tokens", shown("/v1/messages", "plain", url, "Once"))
	if counted["input_tokens"] != float64(prompt.Len()) {
		t.Error(counted, prompt.Len())
	}
	events := s.events(t, "/v1/messages", shown("/v1/messages", "plain", url, "Once"))
	if usage := at(events[0], "message", "usage", "input_tokens"); usage != float64(prompt.Len()) {
		t.Error(events[0])
	}
	file64 := strings.Replace(shown("", "plain", url, "Once"), `{"type": "image_url", "image_url": {"url": `, `{"type": "file", "file": {"file_data": `, 1)
	file64 = strings.Replace(file64, `, "detail": "auto"`, "", 1)
	if said := at(s.complete(t, file64), "choices", 0, "message", "content"); said != want {
		t.Error(said)
	}
	metrics, err = l.Metrics()
	must(t, err)
	if metrics.Encode.Count != before+1 {
		t.Error("encoded so often: ", metrics.Encode.Count-before)
	}
	// Another picture has another answer; two of one request, and a second turn that goes on from the first.
	other := pictureURL(t, "palette.png")
	both := fmt.Sprintf(`{"model": "plain", "max_tokens": 12, "temperature": 0, "messages": [{"role": "user", "content": [
		{"type": "image_url", "image_url": %q}, {"type": "text", "text": "and"}, {"type": "image_url", "image_url": {"url": %q}}]}]}`, url, other)
	if tokens := at(s.complete(t, both), "usage", "prompt_tokens").(float64); tokens < 128 {
		t.Error(tokens)
	}
	turn := strings.Replace(shown("", "plain", other, "Once"), `]}]}`, `]}, {"role": "assistant", "content": "x"}, {"role": "user", "content": "y"}]}`, 1)
	if cached := at(s.complete(t, turn), "usage", "prompt_tokens_details", "cached_tokens"); cached == nil {
		t.Error(cached)
	}
	// Choices share the picture.
	two := strings.Replace(shown("", "plain", url, "Once"), `"max_tokens": 12`, `"max_tokens": 12, "n": 2`, 1)
	if answer := s.complete(t, two); at(answer, "choices", 0, "message", "content") != want || at(answer, "choices", 1, "message", "content") != want {
		t.Error(answer)
	}
}

func TestWhatIsNoPictureIsRefused(t *testing.T) {
	s := serve(t, "-mmproj", "plain="+encoderFile(t))
	broken := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\nno picture"))
	for url, word := range map[string]string{
		"http://example.com/a.png": "http: URLs are not fetched", "HTTPS://example.com/a.png": "https: URLs are not fetched",
		"file:///etc/passwd": "data: URL", "": "data: URL", "data:image/png,abc": "base64", "data:image/png;base64,": "no bytes",
		"data:image/png;base64,###": "damaged", "data:image/png;base64," + broken: "picture 0",
		"data:image/gif;base64," + base64.StdEncoding.EncodeToString([]byte("GIF89a\x01\x00\x01\x00\x00\x00\x00")): "GIF",
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
			status, answer, _ := s.post(t, path, shown(path, "plain", url, "x"))
			if message, _ := at(answer, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(message, word) {
				t.Errorf("%s %q: %d %v", path, url, status, answer)
			}
		}
	}
	url := pictureURL(t, "rgb.png")
	for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"} {
		status, answer, _ := s.post(t, path, shown(strings.TrimSuffix(path, "/count_tokens"), "thinking", url, "x"))
		if message, _ := at(answer, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(message, "takes no pictures") {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
	source := `{"model": "plain", "max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "image", "source": %s}]}]}`
	for text, word := range map[string]string{
		`{"type": "url", "url": "https://example.com/a.png"}`: "not fetched", `{"type": "file", "file_id": "f"}`: "source.type",
		`{"type": "base64", "data": "###"}`: "damaged",
	} {
		status, answer, _ := s.post(t, "/v1/messages", fmt.Sprintf(source, text))
		if message, _ := at(answer, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(message, word) {
			t.Errorf("%s: %d %v", text, status, answer)
		}
	}
	// The service goes on.
	s.complete(t, shown("", "plain", url, "x"))
	if _, err := newModels(&options{models: repeated{"a=b"}, encoders: repeated{"c=d"}}, newMetrics()); err == nil {
		t.Error("an encoder of no model")
	}
}
