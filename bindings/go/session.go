package realizar

import (
	"context"
	"fmt"
	"runtime"
	"unsafe"
)

// Session is tokens with their KV cache, for single steps and for jobs; chats are easier with a [Conversation]. It
// keeps its model alive.
type Session struct {
	model *owned[*rz_model]
	cache *owned[*rz_cache]
}

// NewSession makes an empty session.
func (m *Model) NewSession(options *SessionOptions) (*Session, error) {
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	return makeSession(m, func(model *rz_model, cache **rz_cache, e *rz_error) int32 {
		return lib.rz_cache_new(model, &params, cache, e)
	})
}

// makeSession makes a session of a model.
func makeSession(model holder[*rz_model],
	f func(model *rz_model, cache **rz_cache, e *rz_error) int32) (*Session, error) {
	return keeping(model, f, lib.rz_cache_free,
		func(model *owned[*rz_model], cache *owned[*rz_cache]) *Session { return &Session{model, cache} })
}

// keeping makes an object from a model and keeps the model alive after its Close.
func keeping[H, T any](of holder[*rz_model], f func(model *rz_model, out *H, e *rz_error) int32, free func(H),
	stands func(model *owned[*rz_model], object *owned[H]) *T) (*T, error) {
	defer runtime.KeepAlive(of)
	model := of.held()
	handle, err := model.acquire()
	if err != nil {
		return nil, err
	}
	kept := own(handle, func(*rz_model) { model.release() })
	t, err := made(kept, f, func(object H) {
		free(object)
		kept.close()
	}, func(object *owned[H]) *T { return stands(kept, object) })
	if err != nil {
		kept.close()
	}
	return t, err
}

// Close frees the session and ends its running call early; a job of it remains usable. It never waits. Closing twice is
// fine.
func (s *Session) Close() error {
	return s.held().close()
}

// Fork copies the session; both share the KV cache copy-on-write.
func (s *Session) Fork() (*Session, error) {
	cache, err := s.held().acquire()
	if err != nil {
		return nil, err
	}
	defer s.cache.release()
	return makeSession(s.model, func(_ *rz_model, fork **rz_cache, e *rz_error) int32 {
		return lib.rz_cache_fork(cache, fork, e)
	})
}

// Len returns the number of tokens in the session; 0 after Close.
func (s *Session) Len() (n int) {
	_ = use(s, func(cache *rz_cache, _ *rz_error) int32 {
		n = int(lib.rz_cache_len(cache))
		return rz_OK
	})
	return n
}

// Capacity returns the context length in tokens; 0 after Close.
func (s *Session) Capacity() (n int) {
	_ = use(s, func(cache *rz_cache, _ *rz_error) int32 {
		n = int(lib.rz_cache_capacity(cache))
		return rz_OK
	})
	return n
}

// Truncate rewinds to the first n tokens.
func (s *Session) Truncate(n int) error {
	length, err := whole(n, "n")
	if err != nil {
		return err
	}
	return use(s, func(cache *rz_cache, e *rz_error) int32 {
		return lib.rz_cache_truncate(cache, length, e)
	})
}

// Prefill appends tokens; Logits and Sample then use the logits of the last one.
func (s *Session) Prefill(ctx context.Context, tokens []uint32) error {
	return s.append(ctx, func(cache *rz_cache, cancel *rz_cancel, e *rz_error) int32 {
		return lib.rz_prefill(cache, unsafe.SliceData(tokens), uintptr(len(tokens)), cancel, e)
	})
}

// Score appends tokens and returns the log probability (natural logarithm) of each, given all tokens before; 0 for the
// first token of an empty session.
func (s *Session) Score(ctx context.Context, tokens []uint32) ([]float32, error) {
	scores := make([]float32, len(tokens))
	return scores, s.append(ctx, func(cache *rz_cache, cancel *rz_cancel, e *rz_error) int32 {
		return lib.rz_score(cache, unsafe.SliceData(tokens), uintptr(len(tokens)),
			unsafe.SliceData(scores), cancel, e)
	})
}

func (s *Session) append(ctx context.Context, f func(cache *rz_cache, cancel *rz_cancel, e *rz_error) int32) error {
	cancel, stop, err := s.held().watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	return s.held().ended(use(s, func(cache *rz_cache, e *rz_error) int32 { return f(cache, cancel, e) }), ctx)
}

// Sample chooses a token from the current logits.
func (s *Session) Sample(sampler *Sampler) (uint32, error) {
	return s.choose(sampler, lib.rz_sample)
}

// Decode appends a token and chooses the next one.
func (s *Session) Decode(token uint32, sampler *Sampler) (uint32, error) {
	return s.choose(sampler, func(cache *rz_cache, sampler *rz_sampler, next *uint32, e *rz_error) int32 {
		return lib.rz_decode_token(cache, token, sampler, next, e)
	})
}

func (s *Session) choose(sampler *Sampler,
	f func(cache *rz_cache, sampler *rz_sampler, token *uint32, e *rz_error) int32) (uint32, error) {
	chooser, release, err := optional[*rz_sampler](sampler, "sampler")
	if err != nil {
		return 0, err
	}
	defer release()
	var token uint32
	err = use(s, func(cache *rz_cache, e *rz_error) int32 { return f(cache, chooser, &token, e) })
	return token, err
}

// Logits returns the logits after the last token, one per entry of the vocabulary.
func (s *Session) Logits() ([]float32, error) {
	return sized(s, 0, lib.rz_logits_into)
}

// DecodeBatch is [Session.Decode] for several sessions of one model as one batch: it appends tokens[i] to sessions[i]
// and returns the next token as entry i. samplers and its entries may be nil (greedy).
func DecodeBatch(sessions []*Session, tokens []uint32, samplers []*Sampler) ([]uint32, error) {
	n := len(sessions)
	if len(tokens) != n || samplers != nil && len(samplers) != n {
		return nil, wrong("tokens has %d entries and samplers %d; they must have as many as sessions, %d", len(tokens), len(samplers), n)
	}
	caches, release, err := handlesOf[*rz_cache](sessions, "sessions")
	if err != nil {
		return nil, err
	}
	defer release()
	if n == 0 {
		return nil, nil
	}
	choosers, next := make([]*rz_sampler, n), make([]uint32, n)
	for i, s := range samplers {
		sampler, release, err := optional[*rz_sampler](s, fmt.Sprintf("samplers[%d]", i))
		if err != nil {
			return nil, err
		}
		defer release()
		choosers[i] = sampler
	}
	var e rz_error
	if err := check(lib.rz_decode_batch(unsafe.SliceData(caches), unsafe.SliceData(tokens), uintptr(n),
		unsafe.SliceData(choosers), unsafe.SliceData(next), &e), &e); err != nil {
		return nil, err
	}
	return next, nil
}
