// OpenAI's transcriptions: speech to text with models that accept audio.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"

	"realizar.dev/go"
)

const (
	maxFormParts = 64       // parts of a form
	maxFormField = 64 << 10 // maximum bytes of a form field that is not a file
)

// transcription is the form of POST /v1/audio/transcriptions.
type transcription struct {
	wish
	model, prompt, format string
	language              language // code is "" if the request names none
	stream                bool
	maxTokens             *int
	file                  *mediaItem
}

// language is a language of speech.
type language struct{ code, name string }

// transcriptions serves POST /v1/audio/transcriptions.
func (s *server) transcriptions(w http.ResponseWriter, r *http.Request) error {
	request, err := readTranscription(w, r)
	if err != nil {
		return err
	}
	l, err := s.models.lease(r.Context(), request.model)
	if err != nil {
		return err
	}
	defer l.release()
	if l.encoders["audio"] == nil {
		return refuse("model", "the model %q takes no audio; transcriptions need a model with an audio encoder", l.name)
	}
	asked := request.generation(speechOf(l))
	if asked.Reply.MaxTokens, err = positive("max_completion_tokens", request.maxTokens, 0); err != nil {
		return err
	}
	if asked.Reply.Sampling, err = l.sampling(request.wish, 0); err != nil {
		return err
	}
	sound, err := inBounds(r.Context(), l, func(l *lease) (*realizar.MediaInfo, error) { return l.describeSound(r.Context(), request.file) })
	if err != nil {
		return err
	}
	return request.answer(newStream(w), w, l.generate(r.Context(), asked), sound)
}

// describeSound encodes audio, which stays in the cache for the reply.
func (l *lease) describeSound(ctx context.Context, file *mediaItem) (*realizar.MediaInfo, error) {
	media, release, err := l.media(ctx, []*mediaItem{file})
	if err != nil {
		return nil, err
	}
	defer release()
	info, err := media[0].Info()
	return &info, err
}

// readTranscription reads the form of a request.
func readTranscription(w http.ResponseWriter, r *http.Request) (*transcription, error) {
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || parameters["boundary"] == "" {
		return nil, refuse("", "the Content-Type is %q; it must be multipart/form-data with a boundary", r.Header.Get("Content-Type"))
	}
	body, err := readAll(w, r)
	if err != nil {
		return nil, err
	}
	zero := float32(0)
	t := &transcription{wish: wish{Temperature: &zero}, format: "json"}
	parts := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for n := 0; ; n++ {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, refuse("", "the body is not valid multipart/form-data: %v", err)
		} else if n == maxFormParts {
			return nil, refuse("", "the form has more than %d parts", maxFormParts)
		}
		if err := t.set(part); err != nil {
			return nil, err
		}
	}
	switch {
	case t.file == nil:
		return nil, refuse("file", "file is missing; it must be an audio file")
	case t.stream && t.format == "verbose_json":
		return nil, refuse("stream", "stream is true; it must be false with response_format \"verbose_json\"")
	}
	return t, nil
}

// set reads a part of the form.
func (t *transcription) set(part *multipart.Part) error {
	name := part.FormName()
	if name == "file" {
		file, err := io.ReadAll(part)
		switch {
		case err != nil:
			return refuse("file", "cannot read file: %v", err)
		case len(file) == 0:
			return refuse("file", "file is empty; it must be an audio file")
		case t.file != nil:
			return refuse("file", "file is given twice; it must be one audio file")
		}
		sum := sha256.Sum256(file)
		t.file = &mediaItem{Type: "audio", Sum: hex.EncodeToString(sum[:]), file: file}
		return nil
	}
	bytes, err := io.ReadAll(io.LimitReader(part, maxFormField+1))
	if err != nil {
		return refuse(name, "cannot read %s: %v", name, err)
	}
	if len(bytes) > maxFormField {
		return refuse(name, "%s has more than %d bytes", name, maxFormField)
	}
	value := string(bytes)
	switch name {
	case "model":
		t.model = value
	case "prompt":
		t.prompt = value
	case "response_format":
		t.format = value
		if value != "json" && value != "text" && value != "verbose_json" {
			return refuse(name, "response_format is %q; it must be \"json\", \"text\" or \"verbose_json\", because the models write no timestamps", value)
		}
	case "language":
		if value == "" {
			break
		}
		if t.language = languageOf(value); t.language.code == "" {
			return refuse(name, "language is %q; it must be an ISO 639-1 code such as \"en\"", value)
		}
	case "temperature":
		x, err := strconv.ParseFloat(value, 32)
		if err != nil {
			return refuse(name, "temperature is %q; it must be a number", value)
		}
		temperature := float32(x)
		t.Temperature = &temperature
	case "seed":
		seed, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return refuse(name, "seed is %q; it must be an integer", value)
		}
		t.Seed = &seed
	case "max_completion_tokens":
		n, err := strconv.Atoi(value)
		if err != nil {
			return refuse(name, "max_completion_tokens is %q; it must be an integer", value)
		}
		t.maxTokens = &n
	case "stream":
		if t.stream, err = strconv.ParseBool(value); err != nil {
			return refuse(name, "stream is %q; it must be \"true\" or \"false\"", value)
		}
	case "timestamp_granularities[]", "timestamp_granularities":
		if value != "segment" {
			return refuse(name, "timestamp_granularities has %q; only \"segment\" is accepted, because the models write no timestamps", value)
		}
	case "chunking_strategy", "user":
		warnOnce("the field %q has no effect", name)
	default:
		return refuse(name, "the field %q is unknown", name)
	}
	return nil
}

// speech is the method of requesting a transcription from a model.
type speech int

const (
	instructed speech = iota // by an instruction after the audio
	tagged                   // by the language and "<asr_text>", in the form in which the model itself writes them: Qwen3-ASR
	commanded                // by "[TRANSCRIBE]", after the language: Voxtral
)

// asrTag separates the language from the text in the output of Qwen3-ASR.
const asrTag = "<asr_text>"

// speechOf returns the method for a model, determined by its special tokens.
func speechOf(l *lease) speech {
	switch {
	case l.tokenOf(asrTag) != realizar.NoToken:
		return tagged
	case l.tokenOf("[TRANSCRIBE]") != realizar.NoToken:
		return commanded
	}
	return instructed
}

// tokenOf returns the token whose text is this text; [realizar.NoToken] if there is none.
func (l *lease) tokenOf(text string) uint32 {
	tokens, err := l.Tokenize(text, false, true)
	if err != nil || len(tokens) != 1 {
		return realizar.NoToken
	}
	if name, err := l.TokenBytes(tokens[0]); err != nil || string(name) != text {
		return realizar.NoToken
	}
	return tokens[0]
}

// generation returns the chat that requests the transcription.
func (t *transcription) generation(by speech) *generation {
	parts := []any{t.file}
	g := &generation{Quiet: true, Transcript: &realizar.Transcript{}}
	switch by {
	case tagged:
		g.Transcript.Messages = append(g.Transcript.Messages, message{Role: "system", Content: t.prompt})
		if t.language.code != "" {
			g.Opening = &opening{text: "language " + t.language.name + asrTag, special: true}
		}
	case commanded:
		g.Opening = &opening{text: "[TRANSCRIBE]", special: true}
		if t.language.code != "" {
			g.Opening.text = "lang:" + t.language.code + g.Opening.text
		}
		if t.prompt != "" {
			warnOnce("the prompt of transcriptions has no effect on this model")
		}
	default:
		text := "Transcribe the speech word for word. Write only the transcription."
		if t.language.code != "" {
			text += " The language is " + t.language.name + "."
		}
		if t.prompt != "" {
			text += "\nContext: " + t.prompt
		}
		parts = append(parts, textPart{"text", text})
	}
	g.Transcript.Messages = append(g.Transcript.Messages, message{Role: "user", Content: parts})
	return g
}

// transcript collects the text of a model and splits off the language that Qwen3-ASR writes first.
type transcript struct {
	text, language string
	begun          bool // the text has begun, after the language
}

// add adds a piece and returns the text in it.
func (t *transcript) add(piece string) string {
	const before = "language "
	t.text += piece
	if t.begun {
		return piece
	}
	head, text, found := strings.Cut(t.text, asrTag)
	language, is := strings.CutPrefix(head, before)
	switch {
	case found && is:
		if t.language = strings.TrimSpace(language); t.language == "None" { // no speech
			t.language = ""
		}
		t.text = text
	case strings.HasPrefix(before, t.text) || is && len(head) < 64: // the language may be incomplete
		return ""
	}
	t.begun = true
	t.text = strings.TrimLeft(t.text, " \n")
	return t.text
}

// end returns the text that add has held back.
func (t *transcript) end() string {
	if t.begun {
		return ""
	}
	t.begun = true
	return t.text
}

// answer answers with the text, whole or as events.
func (t *transcription) answer(out *stream, w http.ResponseWriter, events func(func(event, error) bool), sound *realizar.MediaInfo) error {
	said, end := transcript{}, outcome{}
	tell := func(text string) error {
		if !t.stream || text == "" {
			return nil
		}
		return out.send("transcript.text.delta", map[string]any{"type": "transcript.text.delta", "delta": text})
	}
	for e, err := range events {
		switch {
		case err != nil:
			return out.fail(openAI, err)
		case e.Sign != 0 && t.stream:
			err = out.sign(e.Sign)
		case e.Kind == realizar.PartContent:
			err = tell(said.add(e.Text))
		}
		if err != nil {
			return err
		}
		if e.Outcome != nil {
			end = *e.Outcome
		}
	}
	if err := tell(said.end()); err != nil {
		return err
	}
	said.text = strings.TrimSpace(said.text)
	usage := map[string]any{
		"type": "tokens", "input_tokens": end.Prompt, "output_tokens": end.Completion, "total_tokens": end.Prompt + end.Completion,
		"input_token_details": map[string]any{"audio_tokens": sound.Tokens, "text_tokens": end.Prompt - sound.Tokens},
	}
	switch {
	case t.stream:
		return out.send("transcript.text.done", map[string]any{"type": "transcript.text.done", "text": said.text, "usage": usage})
	case t.format == "text":
		return writeText(w, said.text+"\n")
	case t.format == "verbose_json":
		return writeJSON(w, map[string]any{
			"task": "transcribe", "language": orNull(strings.ToLower(cmp.Or(said.language, t.language.name))), "text": said.text,
			"duration": float64(sound.SeenWidth) / soundRate, "segments": []any{}, "usage": usage,
		})
	}
	return writeJSON(w, map[string]any{"text": said.text, "usage": usage})
}

// soundRate is the number of samples per second of all audio encoders.
const soundRate = 16000

// languageOf finds a language by its code, which may have a region, or by its name.
func languageOf(text string) language {
	code, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(text)), "-")
	for _, entry := range strings.Split(languages, " ") {
		if short, name, _ := strings.Cut(entry, ":"); code == short || strings.EqualFold(code, name) {
			return language{short, name}
		}
	}
	return language{}
}

// languages lists the languages of speech models, each with its code.
const languages = "en:English zh:Chinese de:German es:Spanish ru:Russian ko:Korean fr:French ja:Japanese pt:Portuguese tr:Turkish " +
	"pl:Polish ca:Catalan nl:Dutch ar:Arabic sv:Swedish it:Italian id:Indonesian hi:Hindi fi:Finnish vi:Vietnamese he:Hebrew " +
	"uk:Ukrainian el:Greek ms:Malay cs:Czech ro:Romanian da:Danish hu:Hungarian ta:Tamil no:Norwegian th:Thai ur:Urdu hr:Croatian " +
	"bg:Bulgarian lt:Lithuanian la:Latin mi:Maori ml:Malayalam cy:Welsh sk:Slovak te:Telugu fa:Persian lv:Latvian bn:Bengali " +
	"sr:Serbian az:Azerbaijani sl:Slovenian kn:Kannada et:Estonian mk:Macedonian br:Breton eu:Basque is:Icelandic hy:Armenian " +
	"ne:Nepali mn:Mongolian bs:Bosnian kk:Kazakh sq:Albanian sw:Swahili gl:Galician mr:Marathi pa:Punjabi si:Sinhala km:Khmer " +
	"sn:Shona yo:Yoruba so:Somali af:Afrikaans oc:Occitan ka:Georgian be:Belarusian tg:Tajik sd:Sindhi gu:Gujarati am:Amharic " +
	"yi:Yiddish lo:Lao uz:Uzbek fo:Faroese ht:Haitian ps:Pashto tk:Turkmen nn:Nynorsk mt:Maltese sa:Sanskrit lb:Luxembourgish " +
	"my:Burmese bo:Tibetan tl:Filipino mg:Malagasy as:Assamese tt:Tatar haw:Hawaiian ln:Lingala ha:Hausa ba:Bashkir jw:Javanese " +
	"su:Sundanese yue:Cantonese"
