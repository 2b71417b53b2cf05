package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"realizar.dev/go"
)

// transcribe sends a form with a file and fields (names and values in turn), and returns the answer.
func (s *service) transcribe(t *testing.T, file []byte, fields ...string) (status int, kind string, answer []byte) {
	t.Helper()
	var form bytes.Buffer
	out := multipart.NewWriter(&form)
	if file != nil {
		part, err := out.CreateFormFile("file", "speech.wav")
		must(t, err)
		_, err = part.Write(file)
		must(t, err)
	}
	for i := 0; i < len(fields); i += 2 {
		must(t, out.WriteField(fields[i], fields[i+1]))
	}
	must(t, out.Close())
	response, err := http.Post(s.url+"/v1/audio/transcriptions", out.FormDataContentType(), &form)
	must(t, err)
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, response.Header.Get("Content-Type"), answer
}

// The text equals the answer of the same chat.
func TestSpeechIsTranscribed(t *testing.T) {
	s := serve(t, "-mmproj", "plain="+encoderFile(t, "sound/ultravox"))
	file := wav(40000)
	chat := s.complete(t, heard("plain", file, "wav", "Transcribe the speech word for word. Write only the transcription. The language is German.\nContext: Lily"))
	want := strings.TrimSpace(content(chat))
	fields := []string{"model", "plain", "language", "de", "prompt", "Lily", "max_completion_tokens", "12"}
	with := func(more ...string) []string { return append(fields[:len(fields):len(fields)], more...) }
	status, _, answer := s.transcribe(t, file, fields...)
	var said map[string]any
	must(t, json.Unmarshal(answer, &said))
	if status != 200 || want == "" || said["text"] != want || at(said, "usage", "input_tokens") != at(chat, "usage", "prompt_tokens") ||
		at(said, "usage", "output_tokens") != 12.0 || at(said, "usage", "input_token_details", "audio_tokens").(float64) < 10 {
		t.Fatalf("%d %s, %q", status, answer, want)
	}
	if status, kind, answer := s.transcribe(t, file, with("response_format", "text")...); status != 200 || string(answer) != want+"\n" || !strings.HasPrefix(kind, "text/plain") {
		t.Errorf("%d %s %q", status, kind, answer)
	}
	_, _, answer = s.transcribe(t, file, with("response_format", "verbose_json", "timestamp_granularities[]", "segment", "temperature", "0")...)
	said = nil
	must(t, json.Unmarshal(answer, &said))
	if said["text"] != want || said["language"] != "german" || said["duration"] != 2.5 || said["task"] != "transcribe" {
		t.Errorf("%s", answer)
	}
	_, kind, answer := s.transcribe(t, file, with("stream", "true")...)
	text, done := "", false
	for lines := bufio.NewScanner(bytes.NewReader(answer)); lines.Scan(); {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		var event map[string]any
		if !is {
			continue
		}
		must(t, json.Unmarshal([]byte(data), &event))
		switch event["type"] {
		case "transcript.text.delta":
			text += event["delta"].(string)
		case "transcript.text.done":
			done = event["text"] == want
		}
	}
	if strings.TrimSpace(text) != want || !done || kind != "text/event-stream" {
		t.Errorf("%q %q %s", text, want, answer)
	}
}

func TestWhatIsNoSpeechIsRefused(t *testing.T) {
	s := serve(t, "-mmproj", "plain="+encoderFile(t, "sound/ultravox"), "-body", "200000")
	file := wav(4000)
	for _, c := range []struct {
		status int
		word   string
		file   []byte
		fields []string
	}{
		{400, `the model \"thinking\" takes no audio`, file, []string{"model", "thinking"}},
		{400, "model is missing", file, nil},
		{404, "nobody", file, []string{"model", "nobody"}},
		{400, "file is missing", nil, []string{"model", "plain"}},
		{400, "file is empty", []byte{}, []string{"model", "plain"}},
		{400, "0", []byte("no audio"), []string{"model", "plain"}},
		{413, "200000", make([]byte, 300000), []string{"model", "plain"}},
		{400, `language is \"Klingon\"`, file, []string{"model", "plain", "language", "Klingon"}},
		{400, `response_format is \"srt\"`, file, []string{"model", "plain", "response_format", "srt"}},
		{400, `temperature is \"warm\"`, file, []string{"model", "plain", "temperature", "warm"}},
		{400, "temperature", file, []string{"model", "plain", "temperature", "NaN"}},
		{400, "stream", file, []string{"model", "plain", "stream", "x"}},
		{400, "stream", file, []string{"model", "plain", "stream", "true", "response_format", "verbose_json"}},
		{400, "timestamp_granularities", file, []string{"model", "plain", "timestamp_granularities[]", "word"}},
		{400, "wrong", file, []string{"model", "plain", "wrong", "1"}},
		{400, "prompt has more than", file, []string{"model", "plain", "prompt", strings.Repeat("x", maxFormField+1)}},
		{400, "512", file, []string{"model", "plain", "prompt", strings.Repeat("x ", 3000)}},
	} {
		status, _, answer := s.transcribe(t, c.file, c.fields...)
		if status != c.status || !strings.Contains(string(answer), c.word) {
			t.Errorf("%.100q: %d %.500s", c.fields, status, answer)
		}
	}
	for kind, word := range map[string]string{
		"": "multipart/form-data", "application/json": "multipart/form-data", "multipart/form-data": "boundary",
		"multipart/form-data; boundary=x": "file is missing", "multipart/form-data; boundary=\"{\"": "file is missing",
	} {
		response, err := http.Post(s.url+"/v1/audio/transcriptions", kind, strings.NewReader(`{"model": "plain"}`))
		must(t, err)
		answer, err := io.ReadAll(response.Body)
		must(t, err)
		response.Body.Close()
		if response.StatusCode != 400 || !strings.Contains(string(answer), word) {
			t.Errorf("%q: %d %s", kind, response.StatusCode, answer)
		}
	}
	many := []string{"model", "plain"}
	for range maxFormParts {
		many = append(many, "user", "x")
	}
	if status, _, answer := s.transcribe(t, file, many...); status != 400 || !strings.Contains(string(answer), "64 parts") {
		t.Errorf("%d %s", status, answer)
	}
}

func TestModelsAreAskedInTheirForm(t *testing.T) {
	file := &mediaItem{Type: "audio"}
	r := transcription{prompt: "Lily", language: languageOf("pt-BR"), file: file}
	if r.language != (language{"pt", "Portuguese"}) || languageOf("german").code != "de" || languageOf("x").code != "" {
		t.Error(r.language)
	}
	g := r.generation(tagged)
	if g.Opening.text != "language Portuguese<asr_text>" || !g.Opening.special ||
		!reflect.DeepEqual(g.Transcript.Messages, []any{message{Role: "system", Content: "Lily"}, message{Role: "user", Content: []any{file}}}) {
		t.Error(g.Opening, g.Transcript.Messages)
	}
	if g = r.generation(commanded); g.Opening.text != "lang:pt[TRANSCRIBE]" || len(g.Transcript.Messages) != 1 {
		t.Error(g.Opening)
	}
	r.language = language{}
	if r.generation(tagged).Opening != nil || r.generation(commanded).Opening.text != "[TRANSCRIBE]" {
		t.Error("a language without one in the request")
	}
	for _, c := range []struct {
		pieces         []string
		text, language string
	}{
		{[]string{"language English<asr_text>Hello."}, "Hello.", "English"},
		{[]string{"lang", "uage Ger", "man<asr", "_text>", "Guten", " Tag"}, "Guten Tag", "German"},
		{[]string{"language None<asr_text>"}, "", ""},
		{[]string{" Lang", "uage is hard"}, "Language is hard", ""},
		{[]string{"language"}, "language", ""},
		{[]string{"Hello", " there"}, "Hello there", ""},
		{[]string{"language " + strings.Repeat("x", 70), "y"}, "language " + strings.Repeat("x", 70) + "y", ""},
	} {
		var said transcript
		streamed := ""
		for _, piece := range c.pieces {
			streamed += said.add(piece)
		}
		streamed += said.end()
		if said.text != c.text || said.language != c.language || streamed != c.text {
			t.Errorf("%q: %q %q %q", c.pieces, said.text, said.language, streamed)
		}
	}
	if s := serve(t); speechOf(s.leased(t, "plain")) != instructed || s.leased(t, "plain").tokenOf("<s>") == realizar.NoToken {
		t.Error("the tiny model")
	}
}
