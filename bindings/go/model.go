package realizar

/*
#include <stdlib.h>
#include <realizar.h>
*/
import "C"

import (
	"context"
	"runtime"
	"sync"
	"unsafe"
)

// Model is a loaded model. It may be used by any number of goroutines at once.
type Model struct {
	mu      sync.RWMutex // held by every call, exclusively by Close
	handle  *C.rz_model  // nil once closed
	cleanup runtime.Cleanup
}

// LoadOptions are optional; the zero value means the defaults.
type LoadOptions struct {
	Threads       int    // 0: as many as there are cores
	Device        uint32 // index of a device; 0: the best one
	Deterministic bool   // the same bits however a prompt was cut into pieces
	Mmap          bool   // use the file in place; the process dies when somebody shortens it
	TextOnly      bool   // tokenizer and template only, no weights
}

// Load reads a .gguf file, a .safetensors file, or a folder with config.json. It stops early when the context ends.
func Load(ctx context.Context, path string, options *LoadOptions) (*Model, error) {
	if options == nil {
		options = &LoadOptions{}
	}
	cancel, stop, err := watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()

	var e C.rz_error
	var threads *C.rz_runtime
	runtimeParams := C.rz_runtime_params{threads: C.uint32_t(max(options.Threads, 0))}
	runtimeParams.struct_size = C.uint32_t(unsafe.Sizeof(runtimeParams))
	if err := check(C.rz_runtime_new(&runtimeParams, &threads, &e), &e); err != nil {
		return nil, err
	}
	defer C.rz_runtime_free(threads) // the model keeps it alive

	params := C.rz_model_params{runtime: threads, device: C.uint32_t(options.Device), cancel: cancel}
	params.struct_size = C.uint32_t(unsafe.Sizeof(params))
	for flag, set := range map[C.uint32_t]bool{
		C.RZ_MODEL_DETERMINISTIC: options.Deterministic,
		C.RZ_MODEL_MMAP:          options.Mmap,
		C.RZ_MODEL_TEXT_ONLY:     options.TextOnly,
	} {
		if set {
			params.flags |= flag
		}
	}

	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	m := &Model{}
	if err := check(C.rz_model_load(name, &params, &m.handle, &e), &e); err != nil {
		return nil, ended(ctx, err)
	}
	m.cleanup = runtime.AddCleanup(m, func(handle *C.rz_model) { C.rz_model_free(handle) }, m.handle)
	return m, nil
}

// Close frees the model once its sessions are closed too. Closing twice is fine.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cleanup.Stop()
	C.rz_model_free(m.handle)
	m.handle = nil
	return nil
}

// use calls f with the handle, which stays valid meanwhile.
func (m *Model) use(f func(handle *C.rz_model, e *C.rz_error) C.rz_status) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.handle == nil {
		return ErrClosed
	}
	var e C.rz_error
	return check(f(m.handle, &e), &e)
}

// Info describes a model.
type Info struct {
	Architecture, Name                           string
	Layers, Hidden, FFN, Heads, KVHeads, HeadDim int
	VocabSize, ContextLength                     int
	Params, WeightBytes                          uint64
	Device                                       uint32
	BOS, EOS                                     uint32 // NoToken where there is none
}

// NoToken stands where a model has no such token.
const NoToken uint32 = C.RZ_TOKEN_NONE

// Info describes the model.
func (m *Model) Info() (Info, error) {
	var c C.rz_model_info
	c.struct_size = C.uint32_t(unsafe.Sizeof(c))
	err := m.use(func(handle *C.rz_model, e *C.rz_error) C.rz_status { return C.rz_model_info_get(handle, &c, e) })
	return Info{
		Architecture: C.GoString(&c.architecture[0]), Name: C.GoString(&c.name[0]),
		Layers: int(c.n_layers), Hidden: int(c.hidden_dim), FFN: int(c.ffn_dim),
		Heads: int(c.n_heads), KVHeads: int(c.n_kv_heads), HeadDim: int(c.head_dim),
		VocabSize: int(c.vocab_size), ContextLength: int(c.context_length),
		Params: uint64(c.n_params), WeightBytes: uint64(c.weight_bytes),
		Device: uint32(c.device), BOS: uint32(c.bos_token), EOS: uint32(c.eos_token),
	}, err
}

// Meta is a metadata value of the file as text.
func (m *Model) Meta(key string) (string, error) {
	name := C.CString(key)
	defer C.free(unsafe.Pointer(name))
	text, err := sized(m, 256, func(handle *C.rz_model, out *byte, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_model_meta_into(handle, name, (*C.char)(unsafe.Pointer(out)), capacity, n, e)
	})
	return string(text), err
}

// Tokenize cuts text into tokens. With special, "<|im_end|>" and the like in the text become their tokens, and no
// tokens are added; without, the text is taken literally behind the token that the model wants at its beginning.
func (m *Model) Tokenize(text string, special bool) ([]uint32, error) {
	flags := C.uint32_t(C.RZ_TOKENIZE_ADD_SPECIAL)
	if special {
		flags = C.RZ_TOKENIZE_PARSE_SPECIAL
	}
	return sized(m, len(text)+2, func(handle *C.rz_model, out *uint32, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_tokenize_into(handle, (*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.size_t(len(text)), flags,
			(*C.uint32_t)(out), capacity, n, e)
	})
}

// Detokenize is the text of tokens, with special tokens written out or left away.
func (m *Model) Detokenize(tokens []uint32, special bool) (string, error) {
	var flags C.uint32_t
	if special {
		flags = C.RZ_DETOKENIZE_SPECIAL
	}
	text, err := sized(m, 8*len(tokens), func(handle *C.rz_model, out *byte, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_detokenize_into(handle, (*C.uint32_t)(unsafe.SliceData(tokens)), C.size_t(len(tokens)), flags,
			(*C.char)(unsafe.Pointer(out)), capacity, n, e)
	})
	return string(text), err
}

// Message is one turn of a conversation. Roles are "system", "user" and "assistant".
type Message struct{ Role, Content string }

// RenderChat writes a conversation with the model's own template, up to where the assistant speaks next. It fails with
// [ErrUnsupported] where the model has no template.
func (m *Model) RenderChat(messages []Message) (string, error) {
	raw := make([]C.rz_chat_message, len(messages))
	for i, message := range messages {
		raw[i].role, raw[i].content = C.CString(message.Role), C.CString(message.Content)
		defer C.free(unsafe.Pointer(raw[i].role))
		defer C.free(unsafe.Pointer(raw[i].content))
	}
	text, err := sized(m, 4096, func(handle *C.rz_model, out *byte, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_chat_render_into(handle, unsafe.SliceData(raw), C.size_t(len(raw)), C.RZ_CHAT_ADD_GENERATION_PROMPT,
			(*C.char)(unsafe.Pointer(out)), capacity, n, e)
	})
	return string(text), err
}

// isEnd tells whether a token ends a turn or a text.
func (m *Model) isEnd(token C.uint32_t) (end bool, err error) {
	err = m.use(func(handle *C.rz_model, e *C.rz_error) C.rz_status {
		end = C.rz_token_is_end(handle, token) != 0
		return C.RZ_OK
	})
	return end, err
}

// sized calls f with a buffer that grows once to the size that f asks for.
func sized[T any](m *Model, capacity int,
	f func(handle *C.rz_model, out *T, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status) ([]T, error) {
	var out []T
	var n C.size_t
	err := m.use(func(handle *C.rz_model, e *C.rz_error) C.rz_status {
		for {
			out = make([]T, capacity)
			status := f(handle, unsafe.SliceData(out), C.size_t(len(out)), &n, e)
			if status != C.RZ_ERR_BUFFER_TOO_SMALL {
				return status
			}
			capacity = int(n)
		}
	})
	if err != nil {
		return nil, err
	}
	return out[:n], nil
}
