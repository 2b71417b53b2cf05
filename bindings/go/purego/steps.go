package realizar

import (
	"context"
	"runtime"
	"unsafe"
)

// Sampler chooses tokens. It belongs to one call at a time. A nil *Sampler chooses the most likely token.
type Sampler struct{ sampler *handle }

// NewSampler makes a sampler.
func NewSampler(sampling Sampling) (*Sampler, error) {
	if err := Open(""); err != nil {
		return nil, err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	params, err := sampling.params(&pinner)
	if err != nil {
		return nil, err
	}
	return made(nil, func(_ uintptr, out *uintptr, e *rz_error) int32 { return c.rz_sampler_new(&params, out, e) }, c.rz_sampler_free, func(h *handle) *Sampler { return &Sampler{h} })
}

// SetGrammar lets the sampler choose only what continues a text of the grammar, from its start; nil: anything.
func (s *Sampler) SetGrammar(g *Grammar) error {
	object, err := g.handle().acquire()
	if err != nil {
		return err
	}
	defer g.handle().release()
	return s.sampler.use(func(sampler uintptr, e *rz_error) int32 { return c.rz_sampler_grammar_set(sampler, object, e) })
}

// Close frees the sampler once no call uses it. Closing twice is fine.
func (s *Sampler) Close() error {
	s.sampler.close()
	return nil
}

func (s *Sampler) handle() *handle {
	if s == nil {
		return nil
	}
	return s.sampler
}

// Prefill appends tokens; afterwards Logits and Sample have those of the last one.
func (s *Session) Prefill(ctx context.Context, tokens []uint32) error {
	return s.append(ctx, func(cache, cancel uintptr, e *rz_error) int32 {
		return c.rz_prefill(cache, unsafe.SliceData(tokens), uintptr(len(tokens)), cancel, e)
	})
}

// Score appends tokens and gives the natural logarithm of the probability of each after all before it; 0 for the first
// of an empty session.
func (s *Session) Score(ctx context.Context, tokens []uint32) ([]float32, error) {
	scores := make([]float32, len(tokens))
	return scores, s.append(ctx, func(cache, cancel uintptr, e *rz_error) int32 {
		return c.rz_score(cache, unsafe.SliceData(tokens), uintptr(len(tokens)), unsafe.SliceData(scores), cancel, e)
	})
}

func (s *Session) append(ctx context.Context, f func(cache, cancel uintptr, e *rz_error) int32) error {
	cancel, stop, err := watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	return ended(ctx, s.cache.use(func(cache uintptr, e *rz_error) int32 { return f(cache, cancel, e) }))
}

// Sample chooses a token from the current logits.
func (s *Session) Sample(sampler *Sampler) (token uint32, err error) {
	chooser, err := sampler.handle().acquire()
	if err != nil {
		return 0, err
	}
	defer sampler.handle().release()
	err = s.cache.use(func(cache uintptr, e *rz_error) int32 { return c.rz_sample(cache, chooser, &token, e) })
	return token, err
}

// Decode appends a token and chooses the next one.
func (s *Session) Decode(token uint32, sampler *Sampler) (next uint32, err error) {
	chooser, err := sampler.handle().acquire()
	if err != nil {
		return 0, err
	}
	defer sampler.handle().release()
	err = s.cache.use(func(cache uintptr, e *rz_error) int32 { return c.rz_decode_token(cache, token, chooser, &next, e) })
	return next, err
}

// DecodeBatch is [Session.Decode] for several sessions of one model in one pass over the weights. samplers may be nil,
// and so may each of them.
func DecodeBatch(sessions []*Session, tokens []uint32, samplers []*Sampler) ([]uint32, error) {
	n := len(sessions)
	if len(tokens) != n || samplers != nil && len(samplers) != n {
		return nil, &Error{Code: ErrInvalidArgument, Message: "a batch has as many tokens and samplers as sessions"}
	}
	caches, choosers, next := make([]uintptr, n), make([]uintptr, n), make([]uint32, n)
	for i, s := range sessions {
		var err error
		if caches[i], err = s.cache.acquire(); err != nil {
			return nil, err
		}
		defer s.cache.release()
	}
	for i, s := range samplers {
		var err error
		if choosers[i], err = s.handle().acquire(); err != nil {
			return nil, err
		}
		defer s.handle().release()
	}
	var e rz_error
	return next, check(c.rz_decode_batch(unsafe.SliceData(caches), unsafe.SliceData(tokens), uintptr(n), unsafe.SliceData(choosers),
		unsafe.SliceData(next), &e), &e)
}

// Logits are those after the last token, one for each entry of the vocabulary.
func (s *Session) Logits() ([]float32, error) { return sized(s.cache, 0, c.rz_logits_into) }

// Logprob is a token and the natural logarithm of its probability.
type Logprob struct {
	Token   uint32
	Logprob float32
}

// Logprobs are the k likeliest tokens after the last one, the likeliest first.
func (s *Session) Logprobs(k int) ([]Logprob, error) {
	if _, err := whole(k, "k"); err != nil {
		return nil, err
	}
	var n uintptr
	if err := s.cache.use(func(cache uintptr, e *rz_error) int32 {
		return c.rz_logits_into(cache, nil, 0, &n, e)
	}); err != nil {
		return nil, err
	}
	k = min(k, int(n)) // of the vocabulary
	tokens, values := make([]uint32, k), make([]float32, k)
	if err := s.cache.use(func(cache uintptr, e *rz_error) int32 {
		return c.rz_top_logprobs(cache, uint32(k), unsafe.SliceData(tokens), unsafe.SliceData(values), &n, e)
	}); err != nil {
		return nil, err
	}
	return paired(tokens[:n], values), nil
}

func paired(tokens []uint32, values []float32) []Logprob {
	all := make([]Logprob, len(tokens))
	for i := range all {
		all[i] = Logprob{tokens[i], values[i]}
	}
	return all
}

// Tokens are those in the session.
func (s *Session) Tokens() ([]uint32, error) { return sized(s.cache, 0, c.rz_cache_tokens_into) }

// Capacity is the number of tokens that there is room for; 0 once it is closed.
func (s *Session) Capacity() (n int) {
	_ = s.cache.use(func(cache uintptr, _ *rz_error) int32 {
		n = int(c.rz_cache_capacity(cache))
		return 0
	})
	return n
}

// Match is how many of the first of some tokens the session need not compute again.
func (s *Session) Match(tokens []uint32) (int, error) {
	var common uint32
	err := s.cache.use(func(cache uintptr, e *rz_error) int32 {
		return c.rz_cache_match(cache, unsafe.SliceData(tokens), uintptr(len(tokens)), &common, e)
	})
	return int(common), err
}

// Truncate rewinds to the first n tokens.
func (s *Session) Truncate(n int) error {
	length, err := whole(n, "n")
	if err != nil {
		return err
	}
	return s.cache.use(func(cache uintptr, e *rz_error) int32 { return c.rz_cache_truncate(cache, length, e) })
}

// Shift forgets drop tokens behind the first keep. The next call computes those behind them again.
func (s *Session) Shift(keep, drop int) error {
	var counts counts
	first, gone := counts.of(keep, "keep"), counts.of(drop, "drop")
	if counts.err != nil {
		return counts.err
	}
	return s.cache.use(func(cache uintptr, e *rz_error) int32 {
		return c.rz_cache_shift(cache, first, gone, e)
	})
}

// Release gives the memory of the session back and keeps its tokens. The next call computes them again.
func (s *Session) Release() error { return s.cache.use(c.rz_cache_release) }

// Adapter is a low-rank adapter of a model, usable with any number of its sessions at once.
type Adapter struct{ adapter *handle }

// LoadAdapter loads a GGUF file or a folder of PEFT.
func (m *Model) LoadAdapter(path string) (*Adapter, error) {
	name, err := terminated("path", path)
	if err != nil {
		return nil, err
	}
	return made(m.model, func(model uintptr, out *uintptr, e *rz_error) int32 {
		return c.rz_adapter_load(model, name, nil, out, e)
	}, c.rz_adapter_free, func(h *handle) *Adapter { return &Adapter{h} })
}

// Close frees the adapter; sessions that use it go on. Closing twice is fine.
func (a *Adapter) Close() error {
	a.adapter.close()
	return nil
}

// ScaledAdapter is an adapter and the factor on what it changes.
type ScaledAdapter struct {
	Adapter *Adapter
	Scale   float32
}

// SetAdapters has the session use some adapters, or none. It empties the session.
func (s *Session) SetAdapters(adapters ...ScaledAdapter) error {
	objects, scales, release, err := acquireAdapters(adapters)
	if err != nil {
		return err
	}
	defer release()
	return s.cache.use(func(cache uintptr, e *rz_error) int32 {
		return c.rz_cache_adapters_set(cache, unsafe.SliceData(objects), unsafe.SliceData(scales), uintptr(len(objects)), e)
	})
}

// acquireAdapters gives objects and factors, and what ends their use.
func acquireAdapters(adapters []ScaledAdapter) (objects []uintptr, scales []float32, release func(), err error) {
	release = func() {
		for _, a := range adapters[:len(objects)] {
			a.Adapter.adapter.release()
		}
	}
	for _, a := range adapters {
		object, err := a.Adapter.adapter.acquire()
		if err != nil {
			release()
			return nil, nil, nil, err
		}
		objects, scales = append(objects, object), append(scales, a.Scale)
	}
	return objects, scales, release, nil
}
