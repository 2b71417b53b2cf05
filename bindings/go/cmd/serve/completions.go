// OpenAI's completions: continuations of texts.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"realizar.dev/go"
)

// completionRequest is the body of POST /v1/completions. README.md describes its fields.
type completionRequest struct {
	wish
	guided
	Model          string          `json:"model"`
	Prompt         prompts         `json:"prompt"`
	MaxTokens      *int            `json:"max_tokens"`
	N              *int            `json:"n"`
	BestOf         *int            `json:"best_of"`
	Echo           bool            `json:"echo"`
	Suffix         string          `json:"suffix"`
	Logprobs       *int            `json:"logprobs"`
	ResponseFormat *responseFormat `json:"response_format"`
	Stop           textOrList      `json:"stop"`
	Stream         bool            `json:"stream"`
	StreamOptions  streamOptions   `json:"stream_options"`
	User           any             `json:"user"` // changes no answer
}

const (
	completionTokens = 16   // default of max_tokens, as in OpenAI's API
	maxPrompts       = 1024 // maximum number of prompts in a request
	maxLogprobs      = 20   // maximum number of most likely tokens
)

// prompts are a text, a list of texts, a list of tokens, or a list of such lists.
type prompts []prompt

// prompt is a text, or tokens.
type prompt struct {
	text   string
	tokens []uint32 // nil: it is a text
}

func (p *prompts) UnmarshalJSON(data []byte) error { return p.read("prompt", data) }

// inputs are prompts that are embedded.
type inputs prompts

func (p *inputs) UnmarshalJSON(data []byte) error { return (*prompts)(p).read("input", data) }

func (p *prompts) read(field string, data []byte) error {
	var one string
	var many []string
	var tokens []uint32
	var lists [][]uint32
	switch {
	case string(data) == "null":
	case json.Unmarshal(data, &one) == nil:
		*p = prompts{{text: one}}
	case hasNull(data): // null would decode to an empty text or the token 0
		return refuse(field, "%s has a null; it must be a text, a list of texts, a list of tokens or a list of such lists", field)
	case json.Unmarshal(data, &many) == nil:
		for _, one := range many {
			*p = append(*p, prompt{text: one})
		}
	case json.Unmarshal(data, &tokens) == nil:
		*p = prompts{{tokens: tokens}}
	case json.Unmarshal(data, &lists) == nil:
		for _, list := range lists {
			*p = append(*p, prompt{tokens: append([]uint32{}, list...)})
		}
	default:
		return refuse(field, "%s is %s; it must be a text, a list of texts, a list of tokens or a list of such lists", field, string(data))
	}
	return nil
}

// hasNull reports whether there is a null in valid JSON.
func hasNull(data []byte) bool {
	in := json.NewDecoder(bytes.NewReader(data))
	in.UseNumber()
	for {
		token, err := in.Token()
		if err != nil || token == nil {
			return err == nil
		}
	}
}

// promptTokens returns the tokens of a prompt. Special tokens in the text are parsed, and the model's BOS token
// precedes the prompt.
func (l *lease) promptTokens(prompt prompt) ([]uint32, error) {
	if prompt.tokens != nil {
		return prompt.tokens, nil
	}
	tokens, err := l.Tokenize(prompt.text, false, true)
	if err != nil {
		return nil, err
	}
	around, err := l.Tokenize("", true, false)
	if err != nil {
		return nil, err
	}
	if len(around) > 0 && around[0] == l.info.BOS && (len(tokens) == 0 || tokens[0] != around[0]) {
		tokens = append(around[:1:1], tokens...)
	}
	return tokens, nil
}

// completionChoice is a continued text, or a piece of one.
type completionChoice struct {
	Index        int                 `json:"index"`
	Text         string              `json:"text"`
	Logprobs     *completionLogprobs `json:"logprobs"`
	FinishReason *string             `json:"finish_reason"`
}

// completionLogprobs are the log probabilities of the tokens of a text.
type completionLogprobs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []*float32           `json:"token_logprobs"` // nil: the first token of a text
	TopLogprobs   []map[string]float32 `json:"top_logprobs"`
	TextOffset    []int                `json:"text_offset"` // numbers of characters from the start of the choice's text
}

// completions serves POST /v1/completions.
func (s *server) completions(w http.ResponseWriter, r *http.Request) error {
	var request completionRequest
	if err := readKnown(w, r, &request); err != nil {
		return err
	}
	model, err := s.models.lease(r.Context(), request.Model)
	if err != nil {
		return err
	}
	defer model.release()
	type read struct {
		all    []*generation
		echoes []string
	}
	texts, err := inBounds(r.Context(), model, func(l *lease) (texts read, err error) {
		texts.all, texts.echoes, err = request.generations(l, s.options.most)
		return texts, err
	})
	if err != nil {
		return err
	}
	all, echoes := texts.all, texts.echoes
	id, created, out := newID("cmpl-"), time.Now().Unix(), newStream(w)
	answer := func(choices []completionChoice, usage any) map[string]any {
		answer := map[string]any{"id": id, "object": "text_completion", "created": created, "model": request.Model, "choices": choices}
		if usage != nil {
			answer["usage"] = usage
		}
		return answer
	}
	choices, outcomes := make([]completionChoice, len(all)), make([]*outcome, len(all))
	usage := func() any {
		var sum outcome
		for choices := range slices.Chunk(outcomes, len(all)/len(request.Prompt)) {
			var prompt *outcome // the first choice counts the tokens of the prompt
			for _, one := range choices {
				if prompt = cmp.Or(prompt, one); one != nil {
					sum.Completion += one.Completion
				}
			}
			if prompt != nil {
				sum.Prompt += prompt.Prompt
				sum.Cached += prompt.Cached
			}
		}
		return sum.usage()
	}
	offsets := make([]int, len(all))
	for event, err := range model.generate(r.Context(), all...) {
		if err != nil {
			return out.fail(openAI, err)
		}
		if event.Sign != 0 {
			if request.Stream {
				err = out.sign(event.Sign)
			}
			if err != nil {
				return err
			}
			continue
		}
		i := event.Choice
		piece := completionChoice{Index: i, Text: echoes[i] + event.Text}
		if request.Logprobs != nil {
			rows := logprobRows{lease: model, top: *request.Logprobs, offset: offsets[i], ends: request.Echo}
			if event.Prompt != nil {
				rows.ahead, err = model.unechoed(event.Prompt, echoes[i])
			}
			if err == nil {
				err = rows.add(event.Prompt, true)
			}
			if err == nil {
				err = rows.add(event.Logprobs, false)
			}
			if err != nil {
				return out.fail(openAI, err)
			}
			piece.Logprobs, offsets[i] = &rows.completionLogprobs, rows.offset
		}
		echoes[i] = ""
		if event.Outcome != nil {
			reason := event.Outcome.finish()
			piece.FinishReason = &reason
		}
		outcomes[i] = cmp.Or(event.Outcome, event.Counted, outcomes[i])
		if !request.Stream {
			choices[i].add(&piece)
			continue
		}
		var counted any
		if request.StreamOptions.IncludeUsage && request.StreamOptions.ContinuousUsage {
			counted = usage()
		}
		if err := out.send("", answer([]completionChoice{piece}, counted)); err != nil {
			return err
		}
	}
	if !request.Stream {
		return writeJSON(w, answer(choices, usage()))
	}
	if request.StreamOptions.IncludeUsage {
		if err := out.send("", answer([]completionChoice{}, usage())); err != nil {
			return err
		}
	}
	return out.sendText("", "[DONE]")
}

// generations returns one generation per choice, in the order of the prompts, and the echoed text with which each
// choice begins.
func (q *completionRequest) generations(l *lease, most int) (all []*generation, echoes []string, err error) {
	n, err := positive("n", q.N, 1)
	if err != nil || n > most {
		return nil, nil, cmp.Or[error](err, refuse("n", "n is %d; it must be at most %d", n, most))
	}
	reply := realizar.ReplyOptions{}
	form := generation{}
	if err := q.ResponseFormat.bind(&form); err != nil {
		return nil, nil, err
	}
	if err := q.constrain(&form); err != nil {
		return nil, nil, err
	}
	reply.GrammarKind, reply.Grammar, reply.GrammarFlags = form.Reply.GrammarKind, form.Reply.Grammar, form.Reply.GrammarFlags
	empty := q.Echo && q.MaxTokens != nil && *q.MaxTokens == 0
	if !empty {
		if reply.MaxTokens, err = positive("max_tokens", q.MaxTokens, completionTokens); err != nil {
			return nil, nil, err
		}
	}
	if reply.Stops, err = checkStops("stop", q.Stop); err != nil {
		return nil, nil, err
	}
	switch {
	case len(q.Prompt) == 0 || len(q.Prompt) > maxPrompts:
		return nil, nil, refuse("prompt", "prompt has %d prompts; it must have from 1 to %d", len(q.Prompt), maxPrompts)
	case q.Suffix != "" && q.Echo:
		return nil, nil, refuse("suffix", "suffix and echo are both set; set one")
	case q.BestOf != nil && *q.BestOf != n:
		return nil, nil, refuse("best_of", "best_of is %d; it must equal n, %d", *q.BestOf, n)
	case q.Logprobs != nil && (*q.Logprobs < 0 || *q.Logprobs > maxLogprobs):
		return nil, nil, refuse("logprobs", "logprobs is %d; it must be from 0 to %d", *q.Logprobs, maxLogprobs)
	case q.Logprobs != nil:
		reply.Logprobs = likeliest(*q.Logprobs)
	}
	scored := q.Echo && q.Logprobs != nil
	entries := 0
	var around fim
	if q.Suffix != "" {
		if around, err = l.fim("suffix"); err != nil {
			return nil, nil, err
		}
	}
	for i, prompt := range q.Prompt {
		var tokens []uint32
		switch {
		case q.Suffix == "":
			tokens, err = l.promptTokens(prompt)
		case prompt.tokens != nil:
			err = refuse("prompt", "prompt is a list of tokens; it must be a text with suffix")
		default:
			tokens, err = l.infillTokens(around, prompt.text, q.Suffix, nil, l.engine.capacity+1)
		}
		if err != nil {
			return nil, nil, err
		}
		if len(tokens) == 0 {
			return nil, nil, refuse("prompt", "prompt[%d] is empty; it must have a token", i)
		}
		if scored {
			if entries += n * len(tokens) * (1 + *q.Logprobs); entries > maxScored {
				return nil, nil, refuse("logprobs", "echo asks for more than %d log probabilities; send fewer prompts or a smaller logprobs", maxScored)
			}
			if err := l.checkTokens("prompt", tokens); err != nil {
				return nil, nil, err
			}
		}
		echo := ""
		if q.Echo {
			if echo = prompt.text; prompt.tokens != nil {
				if echo, err = l.Detokenize(tokens, true); err != nil {
					return nil, nil, err
				}
			}
		}
		for choice := range n {
			one := &generation{Prompt: tokens, Reply: reply, Constraint: form.Constraint, Scored: scored, Empty: empty, Ends: around.ends}
			if one.Reply.Sampling, err = l.sampling(q.wish, choice); err != nil {
				return nil, nil, err
			}
			all, echoes = append(all, one), append(echoes, echo)
		}
	}
	return all, echoes, nil
}

// add appends a piece to the choice.
func (c *completionChoice) add(piece *completionChoice) {
	c.Index, c.Text, c.FinishReason = piece.Index, c.Text+piece.Text, piece.FinishReason
	if c.Logprobs == nil {
		c.Logprobs = piece.Logprobs
	} else if more := piece.Logprobs; more != nil {
		c.Logprobs.Tokens = append(c.Logprobs.Tokens, more.Tokens...)
		c.Logprobs.TokenLogprobs = append(c.Logprobs.TokenLogprobs, more.TokenLogprobs...)
		c.Logprobs.TopLogprobs = append(c.Logprobs.TopLogprobs, more.TopLogprobs...)
		c.Logprobs.TextOffset = append(c.Logprobs.TextOffset, more.TextOffset...)
	}
}

// logprobRows converts rows to the form of OpenAI's completions, with the top most likely tokens.
type logprobRows struct {
	completionLogprobs
	lease  *lease
	top    int
	offset int  // offset of the next token
	ahead  int  // characters of the next tokens that are absent from the text
	ends   bool // rows include the tokens that end a text, so that each token has a row
}

// add adds rows; the first row of a prompt has no log probability.
func (r *logprobRows) add(rows []realizar.TokenLogprobs, isPrompt bool) error {
	if r.Tokens == nil {
		r.completionLogprobs = completionLogprobs{[]string{}, []*float32{}, []map[string]float32{}, []int{}}
	}
	for i, row := range rows {
		isEnd := r.lease.IsEnd(row.Token)
		if isEnd && !isPrompt && !r.ends { // it has no text
			continue
		}
		text, err := r.lease.tokenText(row.Token)
		if err != nil {
			return err
		}
		r.Tokens, r.TextOffset = append(r.Tokens, text), append(r.TextOffset, r.offset)
		length := utf8.RuneCountInString(text)
		outside := min(r.ahead, length)
		if r.ahead -= outside; !isEnd || isPrompt {
			r.offset += length - outside
		}
		if isPrompt && i == 0 {
			r.TokenLogprobs, r.TopLogprobs = append(r.TokenLogprobs, nil), append(r.TopLogprobs, nil)
			continue
		}
		own, likeliest := max(row.Logprob.Logprob, -9999), map[string]float32{}
		for _, entry := range row.Likeliest[:min(r.top, len(row.Likeliest))] {
			name, err := r.lease.tokenText(entry.Token)
			if err != nil {
				return err
			}
			if _, known := likeliest[name]; !known { // of two tokens with the same text, the more likely one counts
				likeliest[name] = max(entry.Logprob, -9999)
			}
		}
		if _, known := likeliest[text]; r.top > 0 && !known {
			likeliest[text] = own
		}
		r.TokenLogprobs, r.TopLogprobs = append(r.TokenLogprobs, &own), append(r.TopLogprobs, likeliest)
	}
	return nil
}

// unechoed returns the number of characters of a prompt's first tokens that are absent from its text, such as those of
// the BOS token.
func (l *lease) unechoed(rows []realizar.TokenLogprobs, text string) (n int, err error) {
	for _, row := range rows {
		name, err := l.tokenText(row.Token)
		if err != nil {
			return 0, err
		}
		n += utf8.RuneCountInString(name)
	}
	return max(0, n-utf8.RuneCountInString(text)), nil
}

// tokenText returns the text of a token. Bytes that are not valid UTF-8 are written in OpenAI's notation.
func (l *lease) tokenText(token uint32) (string, error) {
	text, err := l.TokenBytes(token)
	if err == nil && !utf8.Valid(text) {
		return fmt.Sprintf("bytes:% x", text), nil
	}
	return string(text), err
}
