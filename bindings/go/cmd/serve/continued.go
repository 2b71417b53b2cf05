// Replies that begin with a given text: a last message of the assistant that the model continues (prefill).
package main

import (
	"context"
	"slices"

	"realizar.dev/go"
)

// opening is a text with which a reply has to begin.
type opening struct {
	text    string
	special bool // special tokens in the text are parsed
}

// continueLast makes the reply to a transcript continue its last message, if that is a text message of the assistant.
// param is the path of the message.
func (g *generation) continueLast(param string) error {
	all := g.Transcript.Messages
	last, ok := all[len(all)-1].(message)
	if !ok || last.Role != "assistant" || len(last.ToolCalls) > 0 {
		return nil
	}
	text, isText := textOf(last.Content)
	switch {
	case len(all) == 1:
		return refuse(param, "%s is the only message; a message of the assistant can be continued only after another message", param)
	case !isText:
		return refuse(param, "%s has content that is not text; a message of the assistant that is continued must be text", param)
	case g.Reply.GrammarKind != 0:
		return refuse(param, "%s is continued; it cannot be combined with %q, which constrains a reply from its start", param, g.Constraint)
	case g.Reply.Reasoning == realizar.ReasoningOn:
		return refuse(param, "%s is continued; it cannot be combined with reasoning, which comes before the content", param)
	case g.Transcript.ToolChoice != nil && g.Transcript.ToolChoice != "auto" && g.Transcript.ToolChoice != "none":
		return refuse(param, "%s is continued; it cannot be combined with a required tool call", param)
	}
	if text == "" {
		g.Transcript.Messages = all[:len(all)-1]
		return nil
	}
	g.Transcript.Messages, g.Opening, g.Quiet = all[:len(all)-1], &opening{text: text}, true
	g.openingParam = param
	return nil
}

// textOf returns content that is a text, or consists of texts.
func textOf(content any) (text string, is bool) {
	switch content := content.(type) {
	case nil:
		return "", true
	case string:
		return content, true
	case []any:
		for _, part := range content {
			one, ok := part.(textPart)
			if !ok {
				return "", false
			}
			text += one.Text
		}
		return text, true
	}
	return "", false
}

// openingTokens returns the tokens of a generation's opening. It fails if the reply would begin with reasoning.
func (l *lease) openingTokens(g *generation) ([]uint32, error) {
	tokens, err := l.Tokenize(g.Opening.text, false, g.Opening.special)
	if err != nil || g.Opening.special {
		return tokens, err
	}
	parser, err := l.NewChatParser(l.spoken(g))
	if err != nil {
		return nil, err
	}
	defer parser.Close()
	var parts []realizar.Part
	for _, token := range tokens {
		more, err := parser.Push(token)
		if err != nil {
			return nil, err
		}
		parts = append(parts, more...)
	}
	rest, err := parser.End()
	if slices.ContainsFunc(append(parts, rest...), func(part realizar.Part) bool { return part.Kind == realizar.PartReasoning }) {
		return nil, refuse(g.openingParam, "%s cannot be continued, because the chat template of %q begins replies with reasoning", g.openingParam, l.name)
	}
	return tokens, err
}

// spoken returns the transcript of a generation without media, for the parser of its reply.
func (l *lease) spoken(g *generation) *realizar.Transcript {
	transcript, _ := g.templated()
	for i, one := range transcript.Messages {
		m, ok := one.(message)
		parts, has := m.Content.([]any)
		if !ok || !has {
			continue
		}
		texts := make([]any, len(parts))
		for j, part := range parts {
			texts[j] = part
			if _, is := part.(*mediaItem); is {
				texts[j] = textPart{"text", " "}
			}
		}
		m.Content = texts
		transcript.Messages[i] = m
	}
	return transcript
}

// opened converts a generation with an opening to a text completion whose reply is parsed as the reply to the
// transcript. The caller must close the prompt, which is nil without media.
func (l *lease) opened(g *generation, media []*realizar.Media) (text *generation, shown *realizar.Prompt, err error) {
	tokens, err := l.openingTokens(g)
	if err != nil {
		return nil, nil, err
	}
	transcript, _ := g.templated()
	text = &generation{Prompt: tokens, Reply: g.Reply, Parsed: l.spoken(g)}
	if len(media) > 0 {
		shown, err = l.NewChatPrompt(transcript, media...)
		return text, shown, err
	}
	prompt, err := l.TokenizeChat(transcript)
	text.Prompt = append(prompt, tokens...)
	return text, nil, err
}

// show appends the missing part of a prompt with media to the session of a cache, and returns the number of tokens that
// the session had.
func (c *cache) show(ctx context.Context, shown *realizar.Prompt) (held int, err error) {
	if held, err = c.session.MatchPrompt(shown); err != nil {
		return 0, err
	}
	if err := c.session.Truncate(held); err != nil || held == shown.Len() {
		return held, err
	}
	return held, c.session.PrefillPrompt(ctx, shown, held)
}
