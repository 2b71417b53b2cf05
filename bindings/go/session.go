package realizar

/*
#include <realizar.h>
*/
import "C"

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"
)

// Session is one line of conversation. It keeps what it has computed: a prompt that begins like the one before, as
// that of the next turn does, costs only its new end. It keeps its model alive too.
type Session struct {
	busy   sync.Mutex // held by every call
	model  *owned[*C.rz_model]
	cache  *owned[*C.rz_cache]
	tokens []uint32 // what the cache holds
}

// SessionOptions are optional; the zero value means the defaults.
type SessionOptions struct {
	Capacity int // tokens, prompt and answer together; 0: as the model was trained, at most 8192
}

// NewSession makes an empty session.
func (m *Model) NewSession(options *SessionOptions) (*Session, error) {
	var params C.rz_cache_params
	params.struct_size = C.uint32_t(unsafe.Sizeof(params))
	if options != nil {
		params.capacity = C.uint32_t(max(options.Capacity, 0))
	}
	return makeSession(m.model, nil, func(model *C.rz_model, cache **C.rz_cache, e *C.rz_error) C.rz_status {
		return C.rz_cache_new(model, &params, cache, e)
	})
}

// makeSession makes a session of what is left of a model: its Close ends the model for others only.
func makeSession(model *owned[*C.rz_model], tokens []uint32,
	f func(model *C.rz_model, cache **C.rz_cache, e *C.rz_error) C.rz_status) (*Session, error) {
	handle, err := model.acquire()
	if err != nil {
		return nil, err
	}
	var e C.rz_error
	var cache *C.rz_cache
	if err := check(f(handle, &cache, &e), &e); err != nil {
		model.release()
		return nil, err
	}
	kept := own(handle, func(*C.rz_model) { model.release() })
	s := &Session{model: kept, tokens: tokens, cache: own(cache, func(cache *C.rz_cache) {
		C.rz_cache_free(cache)
		kept.close()
	})}
	runtime.AddCleanup(s, (*owned[*C.rz_cache]).close, s.cache)
	return s, nil
}

// Close frees the session. A running call ends with [ErrClosed] before its next token and frees it then; Close itself
// never waits, so it may be called from the callback of that call. Closing twice is fine.
func (s *Session) Close() error {
	s.cache.close()
	return nil
}

// enter takes the session for one call.
func (s *Session) enter() (cache *C.rz_cache, leave func(), err error) {
	if !s.busy.TryLock() {
		return nil, nil, &Error{Code: ErrBusy, Message: "the session is in use by another call"}
	}
	if cache, err = s.cache.acquire(); err != nil {
		s.busy.Unlock()
		return nil, nil, err
	}
	return cache, func() {
		s.tokens = s.tokens[:min(len(s.tokens), int(C.rz_cache_len(cache)))]
		s.cache.release()
		s.busy.Unlock()
	}, nil
}

// Fork makes a second session with the same past.
func (s *Session) Fork() (*Session, error) {
	cache, leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	return makeSession(s.model, slices.Clone(s.tokens), func(_ *C.rz_model, fork **C.rz_cache, e *C.rz_error) C.rz_status {
		return C.rz_cache_fork(cache, fork, e)
	})
}

// Len is the number of tokens in the session; 0 once it is closed.
func (s *Session) Len() int {
	cache, err := s.cache.acquire()
	if err != nil {
		return 0
	}
	defer s.cache.release()
	return int(C.rz_cache_len(cache))
}

// Truncate rewinds to the first n tokens.
func (s *Session) Truncate(n int) error {
	cache, leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	var e C.rz_error
	return check(C.rz_cache_truncate(cache, C.uint32_t(max(n, 0)), &e), &e)
}

// Prefill appends tokens; afterwards Logits and Sample have those of the last one.
func (s *Session) Prefill(ctx context.Context, tokens []uint32) error {
	cache, leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	cancel, stop, err := watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	return s.prefill(ctx, cache, tokens, cancel)
}

func (s *Session) prefill(ctx context.Context, cache *C.rz_cache, tokens []uint32, cancel *C.rz_cancel) error {
	var e C.rz_error
	status := C.rz_prefill(cache, (*C.uint32_t)(unsafe.SliceData(tokens)), C.size_t(len(tokens)), cancel, &e)
	if err := check(status, &e); err != nil {
		return ended(ctx, err)
	}
	s.tokens = append(s.tokens, tokens...)
	return nil
}

// Sample chooses a token from the current logits.
func (s *Session) Sample(sampler *Sampler) (uint32, error) {
	return s.choose(sampler, func(cache *C.rz_cache, sampler *C.rz_sampler, token *C.uint32_t, e *C.rz_error) C.rz_status {
		return C.rz_sample(cache, sampler, token, e)
	})
}

// Decode appends a token and chooses the next one.
func (s *Session) Decode(token uint32, sampler *Sampler) (uint32, error) {
	return s.choose(sampler, func(cache *C.rz_cache, sampler *C.rz_sampler, next *C.uint32_t, e *C.rz_error) C.rz_status {
		status := C.rz_decode_token(cache, C.uint32_t(token), sampler, next, e)
		if status >= 0 {
			s.tokens = append(s.tokens, token)
		}
		return status
	})
}

func (s *Session) choose(sampler *Sampler,
	f func(cache *C.rz_cache, sampler *C.rz_sampler, token *C.uint32_t, e *C.rz_error) C.rz_status) (uint32, error) {
	cache, leave, err := s.enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	chooser, release, err := sampler.acquire()
	if err != nil {
		return 0, err
	}
	defer release()
	var e C.rz_error
	var token C.uint32_t
	err = check(f(cache, chooser, &token, &e), &e)
	return uint32(token), err
}

// Logits are those after the last token, one for each entry of the vocabulary.
func (s *Session) Logits() ([]float32, error) {
	_, leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	return sized(s.cache, 0, func(cache *C.rz_cache, out *float32, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_logits_into(cache, (*C.float)(out), capacity, n, e)
	})
}

// DecodeBatch is [Session.Decode] for several sessions of one model in one pass over the weights: tokens[i] is appended to
// sessions[i], and the token that follows is entry i of the result. samplers may be nil, and so may each of them.
func DecodeBatch(sessions []*Session, tokens []uint32, samplers []*Sampler) ([]uint32, error) {
	n := len(sessions)
	if len(tokens) != n || samplers != nil && len(samplers) != n {
		return nil, &Error{Code: ErrInvalidArgument, Message: "a batch has as many tokens and samplers as sessions"}
	}
	caches, choosers, next := make([]*C.rz_cache, n), make([]*C.rz_sampler, n), make([]uint32, n)
	for i, s := range sessions {
		cache, leave, err := s.enter()
		if err != nil {
			return nil, err
		}
		defer leave()
		caches[i] = cache
	}
	for i, s := range samplers {
		sampler, release, err := s.acquire()
		if err != nil {
			return nil, err
		}
		defer release()
		choosers[i] = sampler
	}
	var e C.rz_error
	if err := check(C.rz_decode_batch(unsafe.SliceData(caches), (*C.uint32_t)(unsafe.SliceData(tokens)), C.size_t(n),
		unsafe.SliceData(choosers), (*C.uint32_t)(unsafe.SliceData(next)), &e), &e); err != nil {
		return nil, err
	}
	for i, s := range sessions {
		s.tokens = append(s.tokens, tokens[i])
	}
	return next, nil
}

// Options say how an answer is made. They are optional; the zero value means the most likely token, until the model
// ends its turn.
type Options struct {
	Sampling
	MaxTokens int // 0: no limit but the capacity of the session
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
	return s.run(ctx, tokens, options, emit)
}

// Chat answers a conversation, given as a whole, and calls emit with each piece of the answer, which is whole UTF-8.
// It ends early when the context does, or with the error of emit.
func (s *Session) Chat(ctx context.Context, messages []Message, options *Options, emit func(piece string) error) (Stats, error) {
	tokens, err := tokenizeChat(s.model, messages)
	if err != nil {
		return Stats{}, err
	}
	return s.run(ctx, tokens, options, emit)
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

func (s *Session) run(ctx context.Context, prompt []uint32, options *Options, emit func(piece string) error) (stats Stats, err error) {
	cache, leave, err := s.enter()
	if err != nil {
		return stats, err
	}
	defer leave()
	if options == nil {
		options = &Options{}
	}
	cancel, stop, err := watch(ctx)
	if err != nil {
		return stats, err
	}
	defer stop()
	owner, err := NewSampler(options.Sampling)
	if err != nil {
		return stats, err
	}
	defer owner.Close()
	sampler, release, err := owner.acquire()
	if err != nil {
		return stats, err
	}
	defer release()
	if options.Sampling.greedy() {
		sampler = nil // so that a GPU need not bring logits back
	}
	model, err := s.model.acquire()
	if err != nil {
		return stats, err
	}
	defer s.model.release()
	var e C.rz_error
	var stream *C.rz_textstream
	if err := check(C.rz_textstream_new(model, &stream, &e), &e); err != nil {
		return stats, err
	}
	defer C.rz_textstream_free(stream)
	if err := check(C.rz_textstream_follow(stream, (*C.uint32_t)(unsafe.SliceData(prompt)), C.size_t(len(prompt)), &e), &e); err != nil {
		return stats, err
	}

	// The last token of a prompt is always computed, because the answer starts from its logits.
	for stats.CachedTokens < min(len(s.tokens), len(prompt)-1) && s.tokens[stats.CachedTokens] == prompt[stats.CachedTokens] {
		stats.CachedTokens++
	}
	if err := check(C.rz_cache_truncate(cache, C.uint32_t(stats.CachedTokens), &e), &e); err != nil {
		return stats, err
	}
	s.tokens = s.tokens[:stats.CachedTokens]
	rest := prompt[stats.CachedTokens:]
	start := time.Now()
	if err := s.prefill(ctx, cache, rest, cancel); err != nil {
		return stats, err
	}
	stats.PromptTokens = len(rest)
	stats.PromptTime = time.Since(start)

	start = time.Now()
	defer func() { stats.AnswerTime = time.Since(start) }()
	// write hands on what f puts into a buffer, which grows to the size that f asks for.
	buffer := make([]byte, 256)
	write := func(f func(out *C.char, capacity C.size_t, n *C.size_t) C.rz_status) error {
		var n C.size_t
		status := f((*C.char)(unsafe.Pointer(&buffer[0])), C.size_t(len(buffer)), &n)
		if status == C.RZ_ERR_BUFFER_TOO_SMALL {
			buffer = make([]byte, n)
			status = f((*C.char)(unsafe.Pointer(&buffer[0])), C.size_t(len(buffer)), &n)
		}
		if err := check(status, &e); err != nil || n == 0 {
			return err
		}
		return emit(string(buffer[:n]))
	}
	var token C.uint32_t
	status := C.rz_sample(cache, sampler, &token, &e)
	for ; status >= 0; stats.AnswerTokens++ {
		if C.rz_token_is_end(model, token) != 0 || options.MaxTokens > 0 && stats.AnswerTokens == options.MaxTokens {
			return stats, write(func(out *C.char, capacity C.size_t, n *C.size_t) C.rz_status {
				return C.rz_textstream_flush_into(stream, out, capacity, n, &e)
			})
		}
		if err := write(func(out *C.char, capacity C.size_t, n *C.size_t) C.rz_status {
			return C.rz_textstream_push_into(stream, token, out, capacity, n, &e)
		}); err != nil {
			return stats, err
		}
		if s.cache.isClosed() {
			return stats, ErrClosed
		}
		s.tokens = append(s.tokens, uint32(token))
		var made C.size_t
		status = C.rz_generate_into(cache, token, sampler, &token, 1, &made, cancel, &e)
	}
	return stats, ended(ctx, check(status, &e))
}

// greedy tells whether the most likely token is the choice.
func (s Sampling) greedy() bool {
	return s.Temperature == 0 && s.RepeatPenalty == 0 && s.PresencePenalty == 0 && s.FrequencyPenalty == 0 && len(s.LogitBias) == 0
}
