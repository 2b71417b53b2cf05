package realizar

/*
#include <realizar.h>

int32_t realizarGoWrite(void *data, size_t n, void *user);
int32_t realizarGoRead(void *out, size_t n, void *user);
static rz_write_callback write_callback(void) { return (rz_write_callback)realizarGoWrite; }
static rz_read_callback read_callback(void) { return realizarGoRead; }
*/
import "C"

import (
	"io"
	"runtime/cgo"
	"unsafe"
)

// Save writes the session to w, for [Model.LoadSession]: its tokens and what the model remembers of them.
func (s *Session) Save(w io.Writer) error {
	t := transfer{writer: w}
	handle := cgo.NewHandle(&t)
	defer handle.Delete()
	return t.instead(use(s.cache, func(cache *C.rz_cache, e *C.rz_error) C.rz_status {
		return C.rz_cache_save(cache, C.write_callback(), unsafe.Pointer(&handle), nil, e)
	}))
}

// LoadSession reads a session that was saved by a session of the same model. It goes on as that one would have. Zero in
// the options is what was saved.
func (m *Model) LoadSession(r io.Reader, options *SessionOptions) (*Session, error) {
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	t := transfer{reader: r}
	handle := cgo.NewHandle(&t)
	defer handle.Delete()
	s, err := makeSession(m.model, func(model *C.rz_model, cache **C.rz_cache, e *C.rz_error) C.rz_status {
		return C.rz_cache_load(model, &params, C.read_callback(), unsafe.Pointer(&handle), nil, cache, e)
	})
	return s, t.instead(err)
}

// Save writes the conversation to w, for [Model.LoadConversation]: its messages and what the model remembers of them.
func (c *Conversation) Save(w io.Writer) error {
	t := transfer{writer: w}
	handle := cgo.NewHandle(&t)
	defer handle.Delete()
	return t.instead(use(c.conversation, func(conversation *C.rz_conversation, e *C.rz_error) C.rz_status {
		return C.rz_conversation_save(conversation, C.write_callback(), unsafe.Pointer(&handle), nil, e)
	}))
}

// LoadConversation reads a conversation that was saved with the same model. It goes on as that one would have. Of the
// options Cache, Context and Store count, the others were saved.
func (m *Model) LoadConversation(r io.Reader, options *ConversationOptions) (*Conversation, error) {
	t := transfer{reader: r}
	handle := cgo.NewHandle(&t)
	defer handle.Delete()
	c, err := m.conversation(options, func(model *C.rz_model, params *C.rz_conversation_params, out **C.rz_conversation, e *C.rz_error) C.rz_status {
		return C.rz_conversation_load(model, params, C.read_callback(), unsafe.Pointer(&handle), out, e)
	})
	return c, t.instead(err)
}

// Tokens are those in the session.
func (s *Session) Tokens() ([]uint32, error) {
	return sized(s.cache, 0, func(cache *C.rz_cache, out *uint32, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_cache_tokens_into(cache, (*C.uint32_t)(out), capacity, n, e)
	})
}

// Match is how many of the first of some tokens the session need not compute again.
func (s *Session) Match(tokens []uint32) (int, error) {
	var common C.uint32_t
	err := use(s.cache, func(cache *C.rz_cache, e *C.rz_error) C.rz_status {
		return C.rz_cache_match(cache, (*C.uint32_t)(unsafe.SliceData(tokens)), C.size_t(len(tokens)), &common, e)
	})
	return int(common), err
}

// Shift forgets drop tokens behind the first keep. The next call computes those behind them again.
func (s *Session) Shift(keep, drop int) error {
	var counts counts
	first, gone := counts.of(keep, "keep"), counts.of(drop, "drop")
	if counts.err != nil {
		return counts.err
	}
	return use(s.cache, func(cache *C.rz_cache, e *C.rz_error) C.rz_status {
		return C.rz_cache_shift(cache, first, gone, e)
	})
}

// Release gives the memory of the session back and keeps its tokens. The next call computes them again.
func (s *Session) Release() error {
	return use(s.cache, func(cache *C.rz_cache, e *C.rz_error) C.rz_status { return C.rz_cache_release(cache, e) })
}

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
	var n C.size_t
	if err := use(s.cache, func(cache *C.rz_cache, e *C.rz_error) C.rz_status {
		return C.rz_logits_into(cache, nil, 0, &n, e)
	}); err != nil {
		return nil, err
	}
	k = min(k, int(n)) // of the vocabulary
	tokens, logprobs := make([]uint32, k), make([]float32, k)
	if err := use(s.cache, func(cache *C.rz_cache, e *C.rz_error) C.rz_status {
		return C.rz_top_logprobs(cache, C.uint32_t(k), (*C.uint32_t)(unsafe.SliceData(tokens)),
			(*C.float)(unsafe.SliceData(logprobs)), &n, e)
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
