// Tokens of texts and prompts of chats, in the forms of llama-server and vLLM.
package main

import (
	"net/http"
	"unicode/utf8"
)

// maxListed is the maximum number of tokens that a request or an answer lists, because an answer is in memory whole.
const maxListed = 1 << 20

// tokenizeRequest is the body of POST /tokenize. llama-server's form has content; vLLM's has a prompt or messages.
type tokenizeRequest struct {
	templateRequest
	Content     *string `json:"content"`
	Prompt      *string `json:"prompt"`
	AddSpecial  *bool   `json:"add_special"`
	AddSpecials *bool   `json:"add_special_tokens"`
	Parse       *bool   `json:"parse_special"`
	WithPieces  bool    `json:"with_pieces"`
	WithTexts   bool    `json:"return_token_strs"`
}

// templateRequest is the body of POST /apply-template: the fields of a chat request that affect the prompt.
type templateRequest struct {
	Model              string         `json:"model"`
	Messages           []chatMessage  `json:"messages"`
	Tools              []rawChatTool  `json:"tools"`
	ReasoningEffort    string         `json:"reasoning_effort"`
	ChatTemplateKwargs map[string]any `json:"chat_template_kwargs"`
	GenerationPrompt   *bool          `json:"add_generation_prompt"`
	ContinueFinal      *bool          `json:"continue_final_message"`
}

// detokenizeRequest is the body of POST /detokenize.
type detokenizeRequest struct {
	Model  string    `json:"model"`
	Tokens *[]uint32 `json:"tokens"`
}

// leaseSole leases a model; without a name, the only model of the service, because llama-server has one.
func (s *server) leaseSole(r *http.Request, name string) (*lease, error) {
	if name == "" {
		name = s.models.sole()
	}
	return s.models.lease(r.Context(), name)
}

// tokenize serves POST /tokenize.
func (s *server) tokenize(w http.ResponseWriter, r *http.Request) error {
	var request tokenizeRequest
	if err := readKnown(w, r, &request); err != nil {
		return err
	}
	given := 0
	for _, is := range []bool{request.Content != nil, request.Prompt != nil, request.Messages != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		return refuse("content", "the request has %d of content, prompt and messages; it must have one", given)
	}
	l, err := s.leaseSole(r, request.Model)
	if err != nil {
		return err
	}
	defer l.release()
	answer, err := inBounds(r.Context(), l, func(l *lease) (map[string]any, error) { return request.answer(l) })
	if err != nil {
		return err
	}
	return writeJSON(w, answer)
}

// answer returns the answer to a request: its tokens, with their texts if requested.
func (q *tokenizeRequest) answer(l *lease) (map[string]any, error) {
	tokens, err := q.tokens(l)
	if err != nil {
		return nil, err
	}
	if len(tokens) > maxListed {
		return nil, refuse("content", "the text has %d tokens; it must have at most %d", len(tokens), maxListed)
	}
	if tokens == nil {
		tokens = []uint32{}
	}
	answer := map[string]any{"tokens": tokens, "count": len(tokens), "max_model_len": l.engine.capacity}
	if q.WithTexts {
		texts := make([]string, len(tokens))
		for i, token := range tokens {
			bytes, err := l.TokenBytes(token)
			if err != nil {
				return nil, err
			}
			texts[i] = string(bytes)
		}
		answer["token_strs"] = texts
	}
	if q.WithPieces {
		pieces := make([]piece, len(tokens))
		for i, token := range tokens {
			bytes, err := l.TokenBytes(token)
			if err != nil {
				return nil, err
			}
			pieces[i] = piece{token, pieceOf(bytes)}
		}
		answer["tokens"] = pieces
	}
	return answer, nil
}

// piece is a token with its text, which is a list of bytes if it is not UTF-8.
type piece struct {
	ID    uint32 `json:"id"`
	Piece any    `json:"piece"`
}

func pieceOf(bytes []byte) any {
	if utf8.Valid(bytes) {
		return string(bytes)
	}
	return numbersOf(bytes)
}

// numbersOf returns bytes as numbers, because JSON would encode bytes in base64.
func numbersOf(bytes []byte) []int {
	numbers := make([]int, len(bytes))
	for i, b := range bytes {
		numbers[i] = int(b)
	}
	return numbers
}

// tokens returns the tokens of the text, or of the prompt of the chat.
func (q *tokenizeRequest) tokens(l *lease) ([]uint32, error) {
	if q.Messages != nil {
		g, err := q.generation()
		if err != nil {
			return nil, err
		}
		l.adapt(g)
		transcript, files := g.templated()
		if len(files) > 0 {
			return nil, refuse("messages", "messages have images or audio, which have no tokens; they must be text")
		}
		tokens, err := l.TokenizeChat(transcript)
		if err != nil || g.Opening == nil {
			return tokens, err
		}
		begun, err := l.openingTokens(g)
		return append(tokens, begun...), err
	}
	if err := new(toolbox).addChat(q.Tools); err != nil { // without an effect on a text, they must be valid
		return nil, err
	}
	text, special := q.Content, false
	if text == nil {
		text, special = q.Prompt, true
	}
	for _, asked := range []*bool{q.AddSpecial, q.AddSpecials} {
		if asked != nil {
			special = *asked
		}
	}
	return l.Tokenize(*text, special, q.Parse == nil || *q.Parse)
}

// generation returns the chat whose prompt the request asks for.
func (q *templateRequest) generation() (*generation, error) {
	chat := chatRequest{
		Messages: q.Messages, Tools: q.Tools, ReasoningEffort: q.ReasoningEffort, ChatTemplateKwargs: q.ChatTemplateKwargs,
		GenerationPrompt: q.GenerationPrompt, ContinueFinal: q.ContinueFinal,
	}
	transcript, err := chat.transcript()
	if err != nil {
		return nil, err
	}
	g := &generation{Transcript: transcript}
	if err := chat.reason(g); err != nil {
		return nil, err
	}
	return g, chat.continueLast(g)
}

// applyTemplate serves POST /apply-template.
func (s *server) applyTemplate(w http.ResponseWriter, r *http.Request) error {
	var request templateRequest
	if err := readKnown(w, r, &request); err != nil {
		return err
	}
	g, err := request.generation()
	if err != nil {
		return err
	}
	l, err := s.leaseSole(r, request.Model)
	if err != nil {
		return err
	}
	defer l.release()
	prompt, err := inBounds(r.Context(), l, func(l *lease) (string, error) {
		l.adapt(g)
		transcript, files := g.templated()
		if len(files) > 0 {
			return "", refuse("messages", "messages have images or audio, which are no text of a prompt; they must be text")
		}
		text, err := l.RenderChat(transcript)
		if err == nil && g.Opening != nil {
			text += g.Opening.text
			_, err = l.openingTokens(g)
		}
		return text, err
	})
	if err != nil {
		return err
	}
	return writeJSON(w, map[string]any{"prompt": prompt})
}

// detokenize serves POST /detokenize.
func (s *server) detokenize(w http.ResponseWriter, r *http.Request) error {
	var request detokenizeRequest
	if err := readKnown(w, r, &request); err != nil {
		return err
	}
	switch {
	case request.Tokens == nil:
		return refuse("tokens", "tokens is missing; it must be a list of token ids")
	case len(*request.Tokens) > maxListed:
		return refuse("tokens", "tokens has %d entries; it must have at most %d", len(*request.Tokens), maxListed)
	}
	l, err := s.leaseSole(r, request.Model)
	if err != nil {
		return err
	}
	defer l.release()
	if err := l.checkTokens("tokens", *request.Tokens); err != nil {
		return err
	}
	text, err := inBounds(r.Context(), l, func(l *lease) (string, error) { return l.Detokenize(*request.Tokens, true) })
	if err != nil {
		return err
	}
	return writeJSON(w, map[string]any{"content": text, "prompt": text}) // the names in llama-server and in vLLM
}

// checkTokens rejects token ids outside the model's vocabulary.
func (l *lease) checkTokens(field string, tokens []uint32) error {
	for i, token := range tokens {
		if token >= uint32(l.info.VocabSize) {
			return refuse(field, "%s[%d] is %d; it must be less than %d, the vocabulary of the model", field, i, token, l.info.VocabSize)
		}
	}
	return nil
}
