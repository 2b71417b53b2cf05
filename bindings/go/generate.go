package realizar

/*
#include <realizar.h>
*/
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"
)

// Options say how an answer is made. They are optional; the zero value means the most likely token, until the model
// ends its turn.
type Options struct {
	Sampling
	Grammar    *Grammar // what may be written, from its start; nil: anything
	MaxTokens  int      // 0: no limit but the capacity of the session
	Stops      []string // none of them empty; the answer ends ahead of the first that is complete, in a chat in its content
	Draft      Draft    // how next tokens are guessed, which changes nothing but the time
	DraftMax   int      // tokens of a draft at most; 0: chosen by the library
	DraftModel *Model   // as in JobOptions
}

// Stats tell what an answer cost.
type Stats struct {
	CachedTokens, PromptTokens, AnswerTokens int // tokens of the prompt that were there already and that were not
	PromptTime, AnswerTime                   time.Duration
}

// Generate continues a text and calls emit with each piece of it, which is whole UTF-8. It ends early when the context
// does, or with the error of emit.
func (s *Session) Generate(ctx context.Context, prompt string, options *Options, emit func(piece string) error) (Stats, error) {
	tokens, err := tokenize(s.model, prompt, C.RZ_TOKENIZE_ADD_SPECIAL)
	if err != nil {
		return Stats{}, err
	}
	return s.run(ctx, tokens, nil, options, texts(emit))
}

// Chat answers a conversation, given as a whole, and calls emit with each piece of the answer's content, which is whole
// UTF-8. It ends early when the context does, or with the error of emit.
func (s *Session) Chat(ctx context.Context, messages []Message, options *Options, emit func(piece string) error) (Stats, error) {
	conversation, err := conversationOf(messages)
	if err != nil {
		return Stats{}, err
	}
	return s.reply(ctx, conversation, options, texts(emit))
}

// Reply is Chat for any conversation, with all parts of the reply: what the model thinks, content, calls of tools, and
// the end.
func (s *Session) Reply(ctx context.Context, conversation *Conversation, options *Options, emit func(part Part) error) (Stats, error) {
	text, err := json.Marshal(conversation)
	if err != nil {
		return Stats{}, err
	}
	return s.reply(ctx, text, options, func(job *Job) error {
		parts, err := job.Parts()
		for i := 0; err == nil && i < len(parts); i++ {
			err = emit(parts[i])
		}
		return err
	})
}

var errBreak = errors.New("the loop was left")

// Stream is Chat for range loops; an error comes last.
func (s *Session) Stream(ctx context.Context, messages []Message, options *Options) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		_, err := s.Chat(ctx, messages, options, func(piece string) error {
			if !yield(piece, nil) {
				return errBreak
			}
			return nil
		})
		if err != nil && err != errBreak {
			yield("", err)
		}
	}
}

// texts hands on what is new of a job.
func texts(emit func(piece string) error) func(job *Job) error {
	return func(job *Job) error {
		if piece, err := job.Text(); err != nil || piece == "" {
			return err
		} else {
			return emit(piece)
		}
	}
}

func (s *Session) reply(ctx context.Context, conversation []byte, options *Options, emit func(job *Job) error) (Stats, error) {
	tokens, err := tokenizeConversation(s.model, conversation)
	if err != nil {
		return Stats{}, err
	}
	return s.run(ctx, tokens, conversation, options, emit)
}

// run works on a job to its end, with emit called behind each step.
func (s *Session) run(ctx context.Context, prompt []uint32, conversation []byte, options *Options,
	emit func(job *Job) error) (stats Stats, err error) {
	if err := ctx.Err(); err != nil {
		return stats, ended(ctx, &Error{Code: ErrCancelled, Message: err.Error()})
	}
	if options == nil {
		options = &Options{}
	}
	all := JobOptions{
		Grammar: options.Grammar, MaxTokens: options.MaxTokens, Stops: options.Stops,
		Draft: options.Draft, DraftMax: options.DraftMax, DraftModel: options.DraftModel,
	}
	if !options.Sampling.greedy() { // without a sampler a GPU need not bring logits back
		if all.Sampler, err = NewSampler(options.Sampling); err != nil {
			return stats, err
		}
		defer all.Sampler.Close()
	}
	job, err := s.goOn(prompt, conversation, &all)
	if err != nil {
		return stats, err
	}
	defer job.Close()
	for more := true; more && err == nil; {
		if s.cache.isClosed() {
			return stats, ErrClosed
		}
		var stepped error
		more, stepped = job.Step(ctx, NoLimit)
		// What was made ahead of an error is handed on too.
		if err = emit(job); err == nil {
			err = stepped
		}
	}
	info, told := job.Info()
	if err == nil {
		err = told
	}
	stats = Stats{
		CachedTokens: len(prompt) - info.Prompt, PromptTokens: info.Prompt, AnswerTokens: info.Tokens,
		PromptTime: info.PromptTime, AnswerTime: info.TokensTime,
	}
	if info.End == EndToken { // which is no part of the answer
		stats.AnswerTokens--
	}
	if err == nil && info.End == EndContext {
		err = &Error{Code: ErrContextFull, Message: "the session has no room for more tokens"}
	}
	return stats, err
}

// greedy tells whether the most likely token is the choice.
func (s Sampling) greedy() bool {
	return s.Temperature == 0 && s.RepeatPenalty == 0 && s.PresencePenalty == 0 && s.FrequencyPenalty == 0 && len(s.LogitBias) == 0 &&
		s.DRYMultiplier == 0 && s.NoRepeatNgramSize == 0 && len(s.BannedSequences) == 0
}
