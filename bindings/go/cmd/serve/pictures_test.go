package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"realizar.dev/go"
)

// encoderFile returns an encoder for the tiny model, with the keys and shapes of a file from the encoder tests.
func encoderFile(t *testing.T, family string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mmproj.gguf")
	if said, err := exec.Command("python3", "../../../../tests/encoder.py", family, path).CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		t.Skip("SKIPPED: encoders, because there is no python3")
	} else if err != nil {
		t.Fatal(err, string(said))
	}
	return path
}

// pictureURL returns the data: URL of a file from the image tests.
func pictureURL(t *testing.T, name string) string {
	t.Helper()
	file, err := os.ReadFile(data + "media/" + name)
	must(t, err)
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(file)
}

// shown returns a request with an image before a text, in the form of an API.
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

// byHand returns the library's answer to a media item and a word, and the length of the prompt.
func byHand(t *testing.T, l *lease, kind string, media *realizar.Media) (string, int) {
	prompt, err := l.NewChatPrompt(&realizar.Transcript{Messages: []any{map[string]any{
		"role": "user", "content": []any{map[string]any{"type": kind, "media": 0}, map[string]any{"type": "text", "text": "Once"}},
	}}}, media)
	must(t, err)
	defer prompt.Close()
	session, err := l.NewSession(nil)
	must(t, err)
	defer session.Close()
	job, err := session.NewJob(t.Context(), nil, &realizar.JobOptions{MaxTokens: 12, Prompt: prompt})
	must(t, err)
	defer job.Close()
	answer := ""
	for more := true; more; {
		more, err = job.Step(realizar.NoLimit)
		must(t, err)
		text, err := job.Text()
		must(t, err)
		answer += text
	}
	return answer, prompt.Len()
}

// Through every API, the answer equals the library's answer to the same image, and the image is encoded once.
func TestPicturesAreShown(t *testing.T) {
	path := encoderFile(t, "vision/llava")
	s := serve(t, "-mmproj", "plain="+path)
	l := s.leased(t, "plain")
	file, err := os.ReadFile(data + "media/rgb.png")
	must(t, err)
	media, err := l.encoders["image"].EncodeImage(t.Context(), file, nil)
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
	want, length := byHand(t, l, "image", media)
	if length < 64 || want == "" {
		t.Fatal(length, want)
	}
	metrics, err := l.Metrics()
	must(t, err)
	before := metrics.Encode.Count
	url := pictureURL(t, "rgb.png")
	answer := s.complete(t, shown("", "plain", url, "Once"))
	if said := at(answer, "choices", 0, "message", "content"); said != want || at(answer, "usage", "prompt_tokens") != float64(length) {
		t.Fatal(want, length, answer)
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
	if answer = s.ask(t, "/v1/responses", further); at(answer, "usage", "input_tokens").(float64) < float64(length+5) {
		t.Error(answer)
	}
	schema := `"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": ["cat", "dog"]}}}, "messages"`
	formed := s.complete(t, strings.Replace(shown("", "plain", url, "Once"), `"messages"`, schema, 1))
	if said := at(formed, "choices", 0, "message", "content"); said != `"cat"` && said != `"dog"` {
		t.Error(formed)
	}
	counted := s.ask(t, "/v1/messages/count_tokens", shown("/v1/messages", "plain", url, "Once"))
	if counted["input_tokens"] != float64(length) {
		t.Error(counted, length)
	}
	events := s.events(t, "/v1/messages", shown("/v1/messages", "plain", url, "Once"))
	if usage := at(events[0], "message", "usage", "input_tokens"); usage != float64(length) {
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
	// Another image has another answer. Also two images in one request, and a second turn that continues the first.
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
	s := serve(t, "-mmproj", "plain="+encoderFile(t, "vision/llava"))
	broken := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\nno picture"))
	for url, word := range map[string]string{
		"http://example.com/a.png": "an http: URL, which the service does not fetch", "HTTPS://example.com/a.png": "an https: URL, which the service does not fetch",
		"file:///etc/passwd": "data: URL", "": "data: URL", "data:image/png,abc": "base64", "data:image/png;base64,": "data of the image is empty",
		"data:image/png;base64,###": "cannot decode the base64 of the image", "data:image/png;base64," + broken: "image 0 cannot be read: ",
		"data:image/tiff;base64," + base64.StdEncoding.EncodeToString([]byte("II*\x00\x08\x00\x00\x00\x00\x00")): "TIFF",
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
		if message, _ := at(answer, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(message, "takes no images") {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
	source := `{"model": "plain", "max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "image", "source": %s}]}]}`
	for text, word := range map[string]string{
		`{"type": "url", "url": "https://example.com/a.png"}`: "does not fetch", `{"type": "file", "file_id": "f"}`: "source.type",
		`{"type": "base64", "data": "###"}`: "cannot decode the base64 of the image",
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
	// Without a file, the encoder is that of the model's own repository.
	m, err := newModels(&options{models: repeated{"a=hf:o/n", "b=c"}, encoders: repeated{"a", "b=d"}}, newMetrics())
	must(t, err)
	defer m.close()
	if m.byName["a"].encoder != "hf:o/n" || m.byName["b"].encoder != "d" {
		t.Error(m.byName["a"].encoder, m.byName["b"].encoder)
	}
}

// wav returns a 16-bit WAV file, with the header of some sample rate.
func wav(samples int) []byte {
	file := []byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x80\x3e\x00\x00\x00\x7d\x00\x00\x02\x00\x10\x00data")
	file = binary.LittleEndian.AppendUint32(file, uint32(2*samples))
	for i := range samples {
		file = binary.LittleEndian.AppendUint16(file, uint16(i*i))
	}
	return file
}

// heard returns a request with audio before a text.
func heard(model string, file []byte, format, text string) string {
	return fmt.Sprintf(`{"model": %q, "max_tokens": 12, "temperature": 0, "messages": [{"role": "user", "content": [
		{"type": "input_audio", "input_audio": {"data": %q, "format": %q}}, {"type": "text", "text": %q}]}]}`,
		model, base64.StdEncoding.EncodeToString(file), format, text)
}

// The answer equals the library's answer to the same audio, and the audio is encoded once.
func TestSoundsAreHeard(t *testing.T) {
	s := serve(t, "-mmproj", "plain="+encoderFile(t, "sound/ultravox"))
	l := s.leased(t, "plain")
	file := wav(40000)
	media, err := l.encoders["audio"].EncodeAudio(t.Context(), file, nil)
	must(t, err)
	defer media.Close()
	want, length := byHand(t, l, "audio", media)
	metrics, err := l.Metrics()
	must(t, err)
	before := metrics.Encode.Count
	for range 2 {
		answer := s.complete(t, heard("plain", file, "wav", "Once"))
		if said := at(answer, "choices", 0, "message", "content"); said != want || want == "" || at(answer, "usage", "prompt_tokens") != float64(length) {
			t.Fatal(want, length, answer)
		}
	}
	if metrics, err = l.Metrics(); err != nil || metrics.Encode.Count != before+1 {
		t.Error("encoded so often: ", metrics.Encode.Count-before, err)
	}
	for _, one := range []struct{ model, request, word string }{
		{"plain", heard("plain", file, "aac", "x"), `input_audio.format is "aac"; it must be "wav", "mp3"`},
		{"plain", heard("plain", file, "", "x"), `input_audio.format is ""; it must be`},
		{"plain", heard("plain", nil, "wav", "x"), "the data of the audio is empty"},
		{"plain", heard("plain", file[:50], "wav", "x"), "audio 0 cannot be read: "},
		{"plain", heard("plain", []byte("OggS"), "wav", "x"), "Ogg"},
		{"plain", strings.Replace(heard("plain", file, "wav", "x"), `"data": "`, `"data": "#`, 1), "cannot decode the base64 of the audio"},
		{"plain", shown("", "plain", pictureURL(t, "rgb.png"), "x"), "takes no images"},
		{"thinking", heard("thinking", file, "wav", "x"), "takes no audio"},
	} {
		status, answer, _ := s.post(t, "/v1/chat/completions", one.request)
		if message, _ := at(answer, "error", "message").(string); status != http.StatusBadRequest || !strings.Contains(message, one.word) {
			t.Errorf("%s: %d %v", one.word, status, answer)
		}
	}
	s.complete(t, heard("plain", file, "wav", "x"))
}
