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
	"sync"
	"time"
	"unsafe"
)

// Session is one line of conversation. It keeps what it has computed: a prompt that begins like the one before, as
// that of the next turn does, costs only its new end.
type Session struct {
	mu      sync.Mutex // held by every call
	model   *Model
	cache   *C.rz_cache // nil once closed
	tokens  []uint32    // what the cache holds
	cleanup runtime.Cleanup
}

// SessionOptions are optional; the zero value means the defaults.
type SessionOptions struct {
	Capacity int // tokens, prompt and answer together; 0: as the model was trained
}

// NewSession makes an empty session. It keeps the weights alive, but tokenizing needs the model to stay open.
func (m *Model) NewSession(options *SessionOptions) (*Session, error) {
	var params C.rz_cache_params
	params.struct_size = C.uint32_t(unsafe.Sizeof(params))
	if options != nil {
		params.capacity = C.uint32_t(max(options.Capacity, 0))
	}
	s := &Session{model: m}
	if err := m.use(func(handle *C.rz_model, e *C.rz_error) C.rz_status {
		return C.rz_cache_new(handle, &params, &s.cache, e)
	}); err != nil {
		return nil, err
	}
	s.free()
	return s, nil
}

// free has the cache freed with the session.
func (s *Session) free() {
	s.cleanup = runtime.AddCleanup(s, func(cache *C.rz_cache) { C.rz_cache_free(cache) }, s.cache)
}

// Close frees the session. Closing twice is fine.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cleanup.Stop()
	C.rz_cache_free(s.cache)
	s.cache = nil
	return nil
}

// enter takes the session for one call.
func (s *Session) enter() error {
	if !s.mu.TryLock() {
		return &Error{Code: ErrBusy, Message: "the session is in use by another call"}
	}
	if s.cache == nil {
		s.mu.Unlock()
		return ErrClosed
	}
	return nil
}

// Fork makes a second session with the same past.
func (s *Session) Fork() (*Session, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var e C.rz_error
	fork := &Session{model: s.model, tokens: append([]uint32(nil), s.tokens...)}
	if err := check(C.rz_cache_fork(s.cache, &fork.cache, &e), &e); err != nil {
		return nil, err
	}
	fork.free()
	return fork, nil
}

// Options say how an answer is made. They are optional; the zero value means the most likely token, until the model
// ends its turn.
type Options struct {
	MaxTokens   int     // 0: no limit but the capacity of the session
	Temperature float32 // 0: always the most likely token
	TopK        int
	TopP, MinP  float32
	Seed        uint64
}

// Stats tell what an answer cost.
type Stats struct {
	CachedTokens, PromptTokens, AnswerTokens int // tokens of the prompt that were there already and that were not
	PromptTime, AnswerTime                   time.Duration
}

// Generate continues a text and calls emit with each piece of it, which is whole UTF-8. It ends early when the context
// does, or with the error of emit.
func (s *Session) Generate(ctx context.Context, prompt string, options *Options, emit func(piece string) error) (Stats, error) {
	tokens, err := s.model.Tokenize(prompt, false)
	if err != nil {
		return Stats{}, err
	}
	return s.run(ctx, tokens, options, emit)
}

// Chat answers a conversation, given as a whole, and calls emit with each piece of the answer, which is whole UTF-8.
// It ends early when the context does, or with the error of emit.
func (s *Session) Chat(ctx context.Context, messages []Message, options *Options, emit func(piece string) error) (Stats, error) {
	text, err := s.model.RenderChat(messages)
	if err != nil {
		return Stats{}, err
	}
	tokens, err := s.model.Tokenize(text, true)
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
	if err := s.enter(); err != nil {
		return stats, err
	}
	defer s.mu.Unlock()
	if options == nil {
		options = &Options{}
	}
	cancel, stop, err := watch(ctx)
	if err != nil {
		return stats, err
	}
	defer stop()
	var e C.rz_error
	try := func(status C.rz_status) bool {
		err = ended(ctx, check(status, &e))
		return err == nil
	}

	var sampler *C.rz_sampler
	if options.Temperature > 0 {
		params := C.rz_sampler_params{
			temperature: C.float(options.Temperature), top_k: C.uint32_t(max(options.TopK, 0)),
			top_p: C.float(options.TopP), min_p: C.float(options.MinP), seed: C.uint64_t(options.Seed),
		}
		params.struct_size = C.uint32_t(unsafe.Sizeof(params))
		if !try(C.rz_sampler_new(&params, &sampler, &e)) {
			return stats, err
		}
		defer C.rz_sampler_free(sampler)
	}
	var stream *C.rz_textstream
	if err := s.model.use(func(handle *C.rz_model, e *C.rz_error) C.rz_status {
		return C.rz_textstream_new(handle, &stream, e)
	}); err != nil {
		return stats, err
	}
	defer C.rz_textstream_free(stream)

	// The last token of a prompt is always computed, because the answer starts from its logits.
	for stats.CachedTokens < min(len(s.tokens), len(prompt)-1) && s.tokens[stats.CachedTokens] == prompt[stats.CachedTokens] {
		stats.CachedTokens++
	}
	rest := prompt[stats.CachedTokens:]
	defer func() { s.tokens = s.tokens[:C.rz_cache_len(s.cache)] }()
	if !try(C.rz_cache_truncate(s.cache, C.uint32_t(stats.CachedTokens), &e)) {
		return stats, err
	}
	s.tokens = append(s.tokens[:stats.CachedTokens], rest...)
	start := time.Now()
	if !try(C.rz_prefill(s.cache, (*C.uint32_t)(unsafe.SliceData(rest)), C.size_t(len(rest)), cancel, &e)) {
		return stats, err
	}
	stats.PromptTokens = len(rest)
	stats.PromptTime = time.Since(start)

	start = time.Now()
	defer func() { stats.AnswerTime = time.Since(start) }()
	var token C.uint32_t
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
	for ok := try(C.rz_sample(sampler, s.cache, &token, &e)); ok; {
		end, err := s.model.isEnd(token)
		if err != nil {
			return stats, err
		}
		if end || options.MaxTokens > 0 && stats.AnswerTokens == options.MaxTokens {
			break
		}
		stats.AnswerTokens++
		if err := write(func(out *C.char, capacity C.size_t, n *C.size_t) C.rz_status {
			return C.rz_textstream_push_into(stream, token, out, capacity, n, &e)
		}); err != nil {
			return stats, err
		}
		s.tokens = append(s.tokens, uint32(token))
		var made C.size_t
		ok = try(C.rz_generate_into(s.cache, token, sampler, &token, 1, &made, cancel, &e))
	}
	if err != nil {
		return stats, err
	}
	return stats, write(func(out *C.char, capacity C.size_t, n *C.size_t) C.rz_status {
		return C.rz_textstream_flush_into(stream, out, capacity, n, &e)
	})
}
