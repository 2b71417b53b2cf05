package realizar

import (
	"io"
	"reflect"
	"unsafe"
)

// Save writes the session to w, for [Model.LoadSession]: its tokens and KV cache.
func (s *Session) Save(w io.Writer) error {
	return save(s, w, lib.rz_cache_save)
}

// LoadSession reads a session that was saved with the same model. It continues as the saved one would have. Zero in the
// options means the saved value.
func (m *Model) LoadSession(r io.Reader, options *SessionOptions) (*Session, error) {
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	return restored(r, func(read, user uintptr) (*Session, error) {
		return makeSession(m, func(model *rz_model, cache **rz_cache, e *rz_error) int32 {
			return lib.rz_cache_load(model, &params, read, user, nil, cache, e)
		})
	})
}

// Save writes the conversation to w, for [Model.LoadConversation]: its messages and KV cache.
func (c *Conversation) Save(w io.Writer) error {
	return save(c, w, lib.rz_conversation_save)
}

// LoadConversation reads a conversation that was saved with the same model. It continues as the saved one would have.
// The options Cache, Context and Store have an effect; the others were saved, and are rejected.
func (m *Model) LoadConversation(r io.Reader, options *ConversationOptions) (*Conversation, error) {
	if options != nil && (options.Overflow != 0 || options.Adapters != nil || options.System != "" || !reflect.ValueOf(options.Transcript).IsZero()) {
		return nil, wrong("Transcript, System, Adapters and Overflow are of the saved conversation; they must be zero, and the setters change them")
	}
	return restored(r, func(read, user uintptr) (*Conversation, error) {
		return m.conversation(options, func(model *rz_model, params *rz_conversation_params, out **rz_conversation, e *rz_error) int32 {
			return lib.rz_conversation_load(model, params, read, user, out, e)
		})
	})
}

// Tokens returns the tokens in the session.
func (s *Session) Tokens() ([]uint32, error) {
	return sized(s, 0, lib.rz_cache_tokens_into)
}

// Match returns the length of the prefix of tokens that is already in the KV cache.
func (s *Session) Match(tokens []uint32) (int, error) {
	var common uint32
	err := use(s, func(cache *rz_cache, e *rz_error) int32 {
		return lib.rz_cache_match(cache, unsafe.SliceData(tokens), uintptr(len(tokens)), &common, e)
	})
	return int(common), err
}

// Shift removes drop tokens after the first keep (context shift). The next call computes the later tokens again.
func (s *Session) Shift(keep, drop int) error {
	var counts counts
	first, gone := counts.of(keep, "keep"), counts.of(drop, "drop")
	if counts.err != nil {
		return counts.err
	}
	return use(s, func(cache *rz_cache, e *rz_error) int32 {
		return lib.rz_cache_shift(cache, first, gone, e)
	})
}

// Release frees the KV cache and keeps the tokens. The next call computes it again.
func (s *Session) Release() error {
	return use(s, lib.rz_cache_release)
}

// Logprob is a token and its log probability (natural logarithm).
type Logprob struct {
	Token   uint32
	Logprob float32
}

// Logprobs returns the k most likely next tokens, in descending order.
func (s *Session) Logprobs(k int) ([]Logprob, error) {
	if _, err := whole(k, "k"); err != nil {
		return nil, err
	}
	var n uintptr
	if err := use(s, func(cache *rz_cache, e *rz_error) int32 {
		return lib.rz_logits_into(cache, nil, 0, &n, e)
	}); err != nil {
		return nil, err
	}
	k = min(k, int(n)) // at most the vocabulary
	tokens, logprobs := make([]uint32, k), make([]float32, k)
	if err := use(s, func(cache *rz_cache, e *rz_error) int32 {
		return lib.rz_top_logprobs(cache, uint32(k), unsafe.SliceData(tokens),
			unsafe.SliceData(logprobs), &n, e)
	}); err != nil {
		return nil, err
	}
	return paired(tokens[:n], logprobs), nil
}

func paired(tokens []uint32, values []float32) []Logprob {
	all := make([]Logprob, len(tokens))
	for i := range all {
		all[i] = Logprob{tokens[i], values[i]}
	}
	return all
}
