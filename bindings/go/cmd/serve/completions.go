// OpenAI's completions: texts that go on.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"realizar.dev/go"
)

// completionRequest is the body of POST /v1/completions; README.md says what its fields do.
type completionRequest struct {
	wish
	Model         string        `json:"model"`
	Prompt        prompts       `json:"prompt"`
	MaxTokens     *int          `json:"max_tokens"`
	N             *int          `json:"n"`
	BestOf        *int          `json:"best_of"`
	Echo          bool          `json:"echo"`
	Suffix        string        `json:"suffix"`
	Logprobs      *int          `json:"logprobs"`
	Stop          textOrList    `json:"stop"`
	Stream        bool          `json:"stream"`
	StreamOptions streamOptions `json:"stream_options"`
	User          any           `json:"user"` // which changes no answer
}

const (
	completionTokens = 16   // tokens that are made where a request does not say how many, as by OpenAI
	maxPrompts       = 1024 // prompts of a request
	maxLogprobs      = 20   // likeliest tokens
)

// prompts are a text, a list of texts, a list of tokens, or a list of such lists.
type prompts []prompt

// prompt is a text, or tokens.
type prompt struct {
	text   string
	tokens []uint32 // nil: it is a text
}

func (p *prompts) UnmarshalJSON(data []byte) error {
	var one string
	var many []string
	var tokens []uint32
	var lists [][]uint32
	switch {
	case string(data) == "null":
	case json.Unmarshal(data, &one) == nil:
		*p = prompts{{text: one}}
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
		return refuse("", "a prompt or an input is neither a text, nor texts, nor tokens, nor lists of tokens")
	}
	return nil
}

// promptTokens are the tokens of a prompt: those that it spells are special ones, and it begins as the model wants it
// to.
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

// completionChoice is a text that has gone on, or a piece of it.
type completionChoice struct {
	Index        int                 `json:"index"`
	Text         string              `json:"text"`
	Logprobs     *completionLogprobs `json:"logprobs"`
	FinishReason *string             `json:"finish_reason"`
}

// completionLogprobs are those of tokens of a text.
type completionLogprobs struct {
	Tokens        []string             `json:"tokens"`
	TokenLogprobs []float32            `json:"token_logprobs"`
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
	choices, sum := make([]completionChoice, len(all)), outcome{}
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
		echoes[i] = ""
		if request.Logprobs != nil {
			if piece.Logprobs, err = model.completionLogprobs(event.Logprobs, *request.Logprobs, &offsets[i]); err != nil {
				return out.fail(openAI, err)
			}
		}
		if event.Outcome != nil {
			reason := event.Outcome.finish()
			piece.FinishReason = &reason
			sum.Completion += event.Outcome.Completion
			if i%(len(all)/len(request.Prompt)) == 0 { // the choices of a prompt count it once
				sum.Prompt += event.Outcome.Prompt
				sum.Cached += event.Outcome.Cached
			}
		}
		if !request.Stream {
			choices[i].add(&piece)
		} else if err := out.send("", answer([]completionChoice{piece}, nil)); err != nil {
			return err
		}
	}
	if !request.Stream {
		return writeJSON(w, answer(choices, sum.usage()))
	}
	if request.StreamOptions.IncludeUsage {
		if err := out.send("", answer([]completionChoice{}, sum.usage())); err != nil {
			return err
		}
	}
	return out.sendText("", "[DONE]")
}

// generations are one for each choice, those of the first prompt first, and what each begins its text with.
func (q *completionRequest) generations(l *lease, most int) (all []*generation, echoes []string, err error) {
	n, err := positive("n", q.N, 1)
	if err != nil || n > most {
		return nil, nil, cmp.Or[error](err, refuse("n", "\"n\" is more than %d", most))
	}
	reply := realizar.ReplyOptions{}
	if reply.MaxTokens, err = positive("max_tokens", q.MaxTokens, completionTokens); err != nil {
		return nil, nil, err
	}
	if reply.Stops, err = checkStops("stop", q.Stop); err != nil {
		return nil, nil, err
	}
	switch {
	case len(q.Prompt) == 0 || len(q.Prompt) > maxPrompts:
		return nil, nil, refuse("prompt", "there are %d prompts, and from 1 to %d are taken", len(q.Prompt), maxPrompts)
	case q.Suffix != "":
		return nil, nil, refuse("suffix", "\"suffix\" is not supported")
	case q.BestOf != nil && *q.BestOf != n:
		return nil, nil, refuse("best_of", "\"best_of\" other than \"n\" is not supported")
	case q.Logprobs != nil && (*q.Logprobs < 0 || *q.Logprobs > maxLogprobs):
		return nil, nil, refuse("logprobs", "\"logprobs\" is from 0 to %d", maxLogprobs)
	case q.Logprobs != nil && q.Echo:
		return nil, nil, refuse("echo", "\"echo\" with \"logprobs\" is not supported")
	case q.Logprobs != nil:
		reply.Logprobs = likeliest(*q.Logprobs)
	}
	for i, prompt := range q.Prompt {
		tokens, err := l.promptTokens(prompt)
		if err != nil {
			return nil, nil, err
		}
		if len(tokens) == 0 {
			return nil, nil, refuse("prompt", "prompt %d has no tokens", i)
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
			one := &generation{Prompt: tokens, Reply: reply}
			if one.Reply.Sampling, err = l.sampling(q.wish, choice); err != nil {
				return nil, nil, err
			}
			all, echoes = append(all, one), append(echoes, echo)
		}
	}
	return all, echoes, nil
}

// add puts a piece behind what there is.
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

// completionLogprobs are rows as OpenAI's completions have them, with so many of the likeliest tokens; offset is where
// the next token begins.
func (l *lease) completionLogprobs(rows []realizar.TokenLogprobs, top int, offset *int) (*completionLogprobs, error) {
	all := &completionLogprobs{Tokens: []string{}, TokenLogprobs: []float32{}, TopLogprobs: []map[string]float32{}, TextOffset: []int{}}
	for _, row := range rows {
		if l.IsEnd(row.Token) { // which has no text
			continue
		}
		text, err := l.tokenText(row.Token)
		if err != nil {
			return nil, err
		}
		likeliest := map[string]float32{}
		for _, entry := range row.Likeliest[:min(top, len(row.Likeliest))] {
			name, err := l.tokenText(entry.Token)
			if err != nil {
				return nil, err
			}
			likeliest[name] = max(entry.Logprob, -9999)
		}
		if top > 0 {
			likeliest[text] = max(row.Logprob.Logprob, -9999)
		}
		all.Tokens = append(all.Tokens, text)
		all.TokenLogprobs = append(all.TokenLogprobs, max(row.Logprob.Logprob, -9999))
		all.TopLogprobs = append(all.TopLogprobs, likeliest)
		all.TextOffset = append(all.TextOffset, *offset)
		*offset += utf8.RuneCountInString(text)
	}
	return all, nil
}

// tokenText is the text of a token, of which bytes that are no characters are written as OpenAI does.
func (l *lease) tokenText(token uint32) (string, error) {
	text, err := l.TokenBytes(token)
	if err == nil && !utf8.Valid(text) {
		return fmt.Sprintf("bytes:% x", text), nil
	}
	return string(text), err
}
