// Infilling (fill in the middle) in the form of llama-server, for the editors that use it.
package main

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"realizar.dev/go"
)

// infillRequest is the body of POST /infill.
type infillRequest struct {
	wish
	guided
	Model        string       `json:"model"`
	Prefix       *string      `json:"input_prefix"`
	Suffix       *string      `json:"input_suffix"`
	Extra        []extraInput `json:"input_extra"`
	Prompt       string       `json:"prompt"`
	NPredict     *int         `json:"n_predict"`
	MaxTokens    *int         `json:"max_tokens"`
	Penalty      *float32     `json:"repeat_penalty"`
	Stop         textOrList   `json:"stop"`
	Stream       bool         `json:"stream"`
	ReturnTokens bool         `json:"return_tokens"`
}

// extraInput is a piece of another file.
type extraInput struct {
	Filename string `json:"filename"`
	Text     string `json:"text"`
}

// fim are the infilling tokens of a model; [realizar.NoToken]: the model lacks the token.
type fim struct {
	prefix, suffix, middle, repository, separator uint32
	ends                                          []uint32 // tokens that end the text, in addition to EOS
}

// fimNames lists, for each token, its key in a GGUF file, the older key, and the names that models use.
var fimNames = [6][]string{
	{"fim_pre", "prefix", "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>", "[PREFIX]"},
	{"fim_suf", "suffix", "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>", "[SUFFIX]"},
	{"fim_mid", "middle", "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>", "[MIDDLE]"},
	{"fim_rep", "", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"},
	{"fim_sep", "", "<|file_sep|>"},
	{"fim_pad", "", "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>"},
}

// separatorNames are the names of tokens between files that are only recognized at the end of a text.
var separatorNames = []string{"<|file_separator|>", "<file_sep>", "<repo_name>"}

// fim returns the tokens for infilling, or the error of a model that has none.
func (l *lease) fim(field string) (fim, error) {
	found := make([]uint32, len(fimNames))
	for i, names := range fimNames {
		found[i] = realizar.NoToken
		for _, key := range names[:2] {
			text, err := l.Meta("tokenizer.ggml." + key + "_token_id")
			if id, e := strconv.ParseUint(text, 10, 32); key != "" && err == nil && e == nil && id < uint64(l.info.VocabSize) {
				found[i] = uint32(id)
			}
		}
		for _, name := range names[2:] {
			if found[i] == realizar.NoToken {
				found[i] = l.tokenOf(name)
			}
		}
	}
	f := fim{prefix: found[0], suffix: found[1], middle: found[2], repository: found[3], separator: found[4]}
	for _, name := range separatorNames {
		found = append(found, l.tokenOf(name))
	}
	for _, token := range found[3:] {
		if token != realizar.NoToken && !slices.Contains(f.ends, token) {
			f.ends = append(f.ends, token)
		}
	}
	if f.prefix == realizar.NoToken || f.suffix == realizar.NoToken || f.middle == realizar.NoToken {
		return f, refuse(field, "the model %q has no tokens for infilling (FIM); %s needs a model with them", l.name, field)
	}
	return f, nil
}

// infillTokens returns the prompt between a prefix and a suffix in llama-server's form: the other files come first. A
// prompt with more than room tokens loses the beginning of the prefix, the end of the suffix, and other files.
func (l *lease) infillTokens(f fim, before, after string, extra []extraInput, room int) ([]uint32, error) {
	var failed error
	tokens := func(text string) []uint32 {
		all, err := l.Tokenize(text, false, false)
		if err != nil {
			failed = err
		}
		return all
	}
	var files []uint32
	if f.repository != realizar.NoToken && len(extra) > 0 {
		files = append(append(files, f.repository), tokens("myproject\n")...)
	}
	for _, file := range extra {
		if f.separator != realizar.NoToken {
			files = append(append(files, f.separator), tokens(file.Filename+"\n")...)
		} else {
			files = append(files, tokens("\n\n--- snippet ---\n\n")...)
		}
		files = append(files, tokens(file.Text)...)
	}
	if f.separator != realizar.NoToken && len(extra) > 0 {
		files = append(append(files, f.separator), tokens("filename\n")...)
	}
	head, tail := tokens(before), tokens(after)
	begin, err := l.Tokenize("", true, false)
	if err != nil || failed != nil {
		return nil, err
	}
	if len(begin) == 0 || begin[0] != l.info.BOS {
		begin = nil
	}
	room -= len(begin[:min(1, len(begin))]) + 3
	if len(head)+len(tail) > room {
		tail = tail[:min(len(tail), max(room/4, room-len(head)))]
		head = head[max(0, len(head)-max(0, room-len(tail))):]
	}
	files = files[max(0, len(files)-max(0, room-len(head)-len(tail))):]
	return slices.Concat(begin[:min(1, len(begin))], files, []uint32{f.prefix}, head, []uint32{f.suffix}, tail, []uint32{f.middle}), nil
}

// infill serves POST /infill.
func (s *server) infill(w http.ResponseWriter, r *http.Request) error {
	var q infillRequest
	if err := readKnown(w, r, &q); err != nil {
		return err
	}
	switch {
	case q.Prefix == nil:
		return refuse("input_prefix", "input_prefix is missing; it must be a text")
	case q.Suffix == nil:
		return refuse("input_suffix", "input_suffix is missing; it must be a text")
	}
	l, err := s.leaseSole(r, q.Model)
	if err != nil {
		return err
	}
	defer l.release()
	g := &generation{}
	if g.Reply.Stops, err = checkStops("stop", q.Stop); err != nil {
		return err
	}
	if q.NPredict != nil && *q.NPredict != -1 { // -1: no limit
		q.MaxTokens = q.NPredict
	}
	if g.Reply.MaxTokens, err = positive("n_predict", q.MaxTokens, 0); err != nil {
		return err
	}
	if err := q.constrain(g); err != nil {
		return err
	}
	if q.Penalty != nil {
		q.RepeatPenalty = q.Penalty
	}
	if g.Reply.Sampling, err = l.sampling(q.wish, 0); err != nil {
		return err
	}
	if q.ReturnTokens {
		g.Reply.Logprobs = realizar.None // the rows have the tokens
	}
	f, err := l.fim("/infill")
	if err != nil {
		return err
	}
	g.Ends = f.ends
	const reserve = 128 // tokens of the answer, if the request does not say how many
	room := l.engine.capacity - reserve
	if g.Reply.MaxTokens > 0 {
		room = l.engine.capacity - g.Reply.MaxTokens
	}
	if g.Prompt, err = inBounds(r.Context(), l, func(l *lease) ([]uint32, error) {
		return l.infillTokens(f, *q.Prefix+q.Prompt, *q.Suffix, q.Extra, max(room, l.engine.capacity/2))
	}); err != nil {
		return err
	}
	return q.answer(w, r, l, g)
}

// answer answers with the text, whole or as events.
func (q *infillRequest) answer(w http.ResponseWriter, r *http.Request, l *lease, g *generation) error {
	out, start, tokens := newStream(w), time.Now(), []uint32{}
	var text strings.Builder
	var first time.Duration
	object := func(content string, new []uint32, stop bool) map[string]any {
		return map[string]any{"index": 0, "content": content, "tokens": new, "stop": stop, "id_slot": -1, "model": l.name}
	}
	for e, err := range l.generate(r.Context(), g) {
		switch {
		case err != nil:
			return out.fail(openAI, err)
		case e.Sign != 0 && q.Stream:
			err = out.sign(e.Sign)
		case e.Sign == 0:
			if first == 0 {
				first = time.Since(start)
			}
			text.WriteString(e.Text)
			fresh := []uint32{}
			for _, row := range e.Logprobs {
				fresh = append(fresh, row.Token)
			}
			tokens = append(tokens, fresh...)
			if q.Stream && e.Text != "" {
				err = out.send("", object(e.Text, fresh, false))
			}
		}
		if err != nil {
			return err
		}
		if e.Outcome == nil {
			continue
		}
		content := text.String()
		if q.Stream {
			content, tokens = "", []uint32{}
		}
		answer, end := object(content, tokens, true), e.Outcome
		answer["stop_type"], answer["stopping_word"], answer["truncated"] = stopType(end), "", false
		answer["tokens_predicted"], answer["tokens_evaluated"], answer["tokens_cached"] = end.Completion, end.Prompt, end.Cached
		answer["has_new_line"] = strings.Contains(text.String(), "\n")
		answer["timings"] = map[string]any{
			"cache_n": end.Cached, "prompt_n": end.Prompt - end.Cached, "prompt_ms": first.Seconds() * 1e3,
			"predicted_n": end.Completion, "predicted_ms": (time.Since(start) - first).Seconds() * 1e3,
		}
		if q.Stream {
			return out.send("", answer)
		}
		return writeJSON(w, answer)
	}
	return nil
}

// filler ends a text at tokens at which the library does not end texts, and returns the text before them.
type filler struct {
	ends   []uint32
	stream *realizar.TextStream // text of the tokens after the prompt
	text   string               // text of all tokens
	sent   int                  // bytes of the text that the job has returned
	tokens int                  // number of tokens
}

// newFiller returns the filler of a job that continues a prompt.
func newFiller(model *realizar.Model, prompt, ends []uint32) (*filler, error) {
	stream, err := model.NewTextStream()
	if err != nil {
		return nil, err
	}
	return &filler{ends: ends, stream: stream}, stream.Follow(prompt)
}

// read reads the new tokens of a job, whose new text is given. If one of them ends the text, it sets the text to what
// precedes that token, and returns the number of tokens from that token on.
func (f *filler) read(job *realizar.Job, text *string) (dropped int, err error) {
	tokens, err := job.Tokens()
	for i := 0; i < len(tokens) && err == nil; i++ {
		var piece string
		f.tokens++
		if slices.Contains(f.ends, tokens[i]) {
			piece, err = f.stream.Flush()
			*text = (f.text + piece)[f.sent:]
			return len(tokens) - i, err
		}
		piece, err = f.stream.Push(tokens[i])
		f.text += piece
	}
	f.sent += len(*text)
	return 0, err
}

// stopType returns llama-server's name for the end of a text.
func stopType(end *outcome) string {
	switch end.End {
	case realizar.EndLength, realizar.EndContext:
		return "limit"
	case realizar.EndStop:
		return "word"
	}
	return "eos"
}
