package realizar

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"unsafe"

	"realizar.dev/go/hub"
)

// Model is a loaded model. It may be used by any number of goroutines at once.
type Model struct{ model *owned[*rz_model] }

// None is an explicit 0, for options whose comment names None and whose 0 means a default.
const None = -1

// Placement places the MoE experts of layers that are on GPUs (expert offload).
type Placement struct {
	Place      Place
	FirstLayer int    // with PlaceCPU: first layer concerned
	Layers     int    // with PlaceCPU: number of layers with experts; 0: all
	Bytes      uint64 // with PlaceGPU
}

// Load loads a .gguf file, a .safetensors file, a folder with config.json, or a model of the Hub as [Fetch] does. It
// stops early when the context ends.
func Load(ctx context.Context, path string, options *LoadOptions) (*Model, error) {
	if err := Open(""); err != nil { // before anything is downloaded
		return nil, err
	}
	if strings.HasPrefix(path, hub.Prefix) {
		var told func(done, total uint64) error
		if options != nil {
			told = options.Progress
		}
		found, err := Fetch(ctx, path, told)
		if err != nil {
			return nil, err
		}
		path = found
	}
	if err := noNUL("path", path); err != nil {
		return nil, err
	}
	name := cString(path)
	return loadWith(ctx, options, func(params *rz_model_params, handle **rz_model, e *rz_error) int32 {
		return lib.rz_model_load(name, params, handle, e)
	})
}

// Fetch downloads a model of the Hugging Face Hub, "hf:owner/name" or "hf:owner/name:quantization", and returns its
// path in the cache of the Hub's own client (see [hub.Fetch]). Without a quantization, the free memory of the devices
// decides. progress gets bytes done and in total, and may be nil.
func Fetch(ctx context.Context, model string, progress func(done, total uint64) error) (string, error) {
	if ctx == nil {
		return "", missing("ctx")
	}
	var free uint64
	for _, device := range Devices() {
		if device.Available {
			free = max(free, device.MemoryFree)
		}
	}
	path, err := hub.Fetch(ctx, model, &hub.Options{Free: free, Progress: progress})
	var failed *hub.Error
	if err != nil && over(ctx) != nil {
		return "", over(ctx)
	} else if errors.As(err, &failed) {
		code := ErrIO
		if e := (*Error)(nil); errors.As(failed.Err, &e) {
			code = e.Code
		}
		return "", &Error{Code: code, Message: failed.Message, causes: []error{failed.Err}}
	}
	return path, err
}

// loadWith loads with a function that gets the parameters.
func loadWith(ctx context.Context, options *LoadOptions,
	f func(params *rz_model_params, handle **rz_model, e *rz_error) int32) (*Model, error) {
	var handle *rz_model
	shared, err := withParams(ctx, options, func(params *rz_model_params, e *rz_error) int32 {
		return f(params, &handle, e)
	})
	if err != nil {
		return nil, err
	}
	// The log of the runtime is called until the model is freed.
	m := &Model{own(handle, func(handle *rz_model) {
		lib.rz_model_free(handle)
		shared.release()
	})}
	runtime.AddCleanup(m, (*owned[*rz_model]).drop, m.model)
	return m, nil
}

// withParams calls f with the load parameters. Without an error, the caller must release the runtime.
func withParams(ctx context.Context, options *LoadOptions,
	f func(params *rz_model_params, e *rz_error) int32) (*owned[*rz_runtime], error) {
	if err := Open(""); err != nil {
		return nil, err
	}
	if options == nil {
		options = &LoadOptions{}
	} else if options.Runtime != nil && options.Threads != 0 {
		return nil, wrong("Runtime and Threads are both set; set one")
	}
	if err := noNUL("PackedPath", options.PackedPath); err != nil {
		return nil, err
	}
	if err := noNUL("TestedPath", options.TestedPath); err != nil {
		return nil, err
	}
	if len(options.Shares) > 0 && len(options.Shares) != len(options.Devices) {
		return nil, wrong("Shares has %d entries; it must have as many as Devices, %d", len(options.Shares), len(options.Devices))
	}
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	var counts counts
	placements := make([]rz_placement, len(options.Placements))
	for i, p := range options.Placements {
		placements[i] = rz_placement{
			what: rz_PLACED_EXPERTS, place: uint32(p.Place), first_layer: counts.of(p.FirstLayer, "FirstLayer"),
			n_layers: counts.of(p.Layers, "Layers"), bytes: p.Bytes,
		}
		sizedStruct(&placements[i])
	}
	if counts.err != nil {
		return nil, counts.err
	}
	cancel, stop, err := newCancel(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()

	shared := options.Runtime
	if shared == nil {
		if shared, err = NewRuntime(&RuntimeOptions{Threads: options.Threads}); err != nil {
			return nil, err
		}
		defer shared.Close() // the model keeps it alive
	}
	threads, _, err := required[*rz_runtime](shared, "Runtime")
	if err != nil {
		return nil, err
	}
	params.runtime, params.cancel = threads, cancel
	var pinner runtime.Pinner
	defer pinner.Unpin()
	if options.PackedPath != "" {
		params.packed_path = cString(options.PackedPath)
		pinner.Pin(params.packed_path)
	}
	if options.TestedPath != "" {
		params.tested_path = cString(options.TestedPath)
		pinner.Pin(params.tested_path)
	}
	template := []byte(options.ChatTemplate)
	params.chat_template, params.chat_template_len = pinned(&pinner, template), uintptr(len(template))
	params.devices, params.n_devices = pinned(&pinner, options.Devices), uintptr(len(options.Devices))
	params.device_split = pinned(&pinner, options.Shares)
	params.placements, params.n_placements = pinned(&pinner, placements), uintptr(len(placements))
	told := progress{call: options.Progress}
	var forget func()
	params.progress, params.progress_user, forget = told.tell()
	defer forget()

	var e rz_error
	if err := check(f(&params, &e), &e); err != nil {
		shared.runtime.release()
		return nil, told.instead(ended(err, ctx))
	}
	return shared.runtime, nil
}

// Close closes the model: later calls of its methods fail with [ErrClosed]; running embeddings and encoder loads end
// early. Sessions and conversations remain usable, and the last of them frees the memory. Close never waits. Closing
// twice is fine.
func (m *Model) Close() error {
	return m.held().close()
}

// NoToken is the value of a special token that the model lacks.
const NoToken uint32 = rz_TOKEN_NONE

// Info returns the description of the model.
func (m *Model) Info() (Info, error) {
	info := Info{}
	err := use(m, func(handle *rz_model, e *rz_error) int32 {
		var c rz_model_info
		status := lib.rz_model_info_get(handle, sizedStruct(&c), e)
		info = c.value()
		info.HasTemplate = c.chat_template&rz_TEMPLATE_PRESENT != 0
		info.TemplateWritesBOS = c.chat_template&rz_TEMPLATE_WRITES_BOS != 0
		for i := uint32(0); i < c.n_devices && status == rz_OK; i++ {
			var device rz_model_device
			status = lib.rz_model_device_get(handle, i, sizedStruct(&device), e)
			info.Devices, info.DeviceLayers = append(info.Devices, device.device), append(info.DeviceLayers, int(device.n_layers))
		}
		return status
	})
	return info, err
}

// AdvisedSampling returns the model's recommended sampling parameters, or nil. Only replies without a sampler use them
// by default.
func (m *Model) AdvisedSampling() (*Sampling, error) {
	var c rz_model_sampling
	err := use(m, func(handle *rz_model, e *rz_error) int32 {
		return lib.rz_model_sampling_get(handle, sizedStruct(&c), e)
	})
	if err != nil || c.advised == 0 {
		return nil, err
	}
	return &Sampling{
		Temperature: c.temperature, TopK: int(c.top_k), TopP: c.top_p, MinP: c.min_p,
		RepeatPenalty: c.repeat_penalty, PenaltyWindow: int(c.penalty_window),
		TemperatureFirst: true, // recommended for transformers, with its order
	}, nil
}

// Meta returns a metadata value of the file as text.
func (m *Model) Meta(key string) (string, error) {
	if err := noNUL("key", key); err != nil {
		return "", err
	}
	name := cString(key)
	text, err := sized(m, 256, func(handle *rz_model, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return lib.rz_model_meta_into(handle, name, out, capacity, n, e)
	})
	return string(text), err
}

// MetaKeys returns the keys of the metadata in alphabetical order.
func (m *Model) MetaKeys() (keys []string, err error) {
	for {
		key, err := sized(m, 256, func(handle *rz_model, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
			return lib.rz_model_meta_key_into(handle, uintptr(len(keys)), out, capacity, n, e)
		})
		if errors.Is(err, ErrNotFound) {
			return keys, nil
		} else if err != nil {
			return nil, err
		}
		keys = append(keys, string(key))
	}
}

// MetaList returns the elements of a metadata array as texts.
func (m *Model) MetaList(key string) (elements []string, err error) {
	// A missing key must be an error, not an empty list.
	if _, err := m.Meta(key); err != nil {
		return nil, err
	}
	name := cString(key)
	for {
		element, err := sized(m, 256, func(handle *rz_model, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
			return lib.rz_model_meta_element_into(handle, name, uintptr(len(elements)), out, capacity, n, e)
		})
		if errors.Is(err, ErrNotFound) {
			return elements, nil
		} else if err != nil {
			return nil, err
		}
		elements = append(elements, string(element))
	}
}

// TokenBytes returns the bytes of a token, which may be a part of a character.
func (m *Model) TokenBytes(token uint32) ([]byte, error) {
	return sized(m, 64, func(handle *rz_model, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return lib.rz_token_bytes_into(handle, token, out, capacity, n, nil, e)
	})
}

// IsEnd reports whether a token ends a turn or a text (EOS, EOT); false after Close.
func (m *Model) IsEnd(token uint32) bool {
	status := rz_OK
	_ = use(m, func(handle *rz_model, _ *rz_error) int32 {
		status = int(lib.rz_token_is_end(handle, token))
		return rz_OK
	})
	return status != 0
}

// Tokenize converts text to tokens. With special, BOS and EOS are added as the model defines. With parse, "<|im_end|>"
// and the like in the text become special tokens; do not use it for text of users.
func (m *Model) Tokenize(text string, special, parse bool) ([]uint32, error) {
	var flags uint32
	if special {
		flags |= rz_TOKENIZE_ADD_SPECIAL
	}
	if parse {
		flags |= rz_TOKENIZE_PARSE_SPECIAL
	}
	return tokenize(m, text, flags)
}

func tokenize(model holder[*rz_model], text string, flags uint32) ([]uint32, error) {
	return sized(model, len(text)+2, func(handle *rz_model, out *uint32, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return lib.rz_tokenize_into(handle, unsafe.StringData(text), uintptr(len(text)), flags,
			out, capacity, n, nil, e)
	})
}

// Detokenize returns the text of tokens, with or without special tokens.
func (m *Model) Detokenize(tokens []uint32, special bool) (string, error) {
	var flags uint32
	if special {
		flags = rz_DETOKENIZE_SPECIAL
	}
	text, err := sized(m, 8*len(tokens), func(handle *rz_model, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return lib.rz_detokenize_into(handle, unsafe.SliceData(tokens), uintptr(len(tokens)), flags,
			out, capacity, n, e)
	})
	return string(text), err
}

// sized calls f with a buffer that grows once to the size that f requires.
func sized[H, T any](of holder[H], capacity int,
	f func(handle H, out *T, capacity uintptr, n *uintptr, e *rz_error) int32) ([]T, error) {
	defer runtime.KeepAlive(of)
	object := of.held()
	handle, err := object.acquire()
	if err != nil {
		return nil, err
	}
	defer object.release()
	var e rz_error
	for {
		var n uintptr
		out := make([]T, capacity)
		status := f(handle, unsafe.SliceData(out), uintptr(len(out)), &n, &e)
		if status != rz_ERR_BUFFER_TOO_SMALL {
			return out[:n], check(status, &e)
		}
		capacity = int(n)
	}
}

// pinned returns the address of a slice, pinned until pinner.Unpin; nil for an empty slice.
func pinned[T any](pinner *runtime.Pinner, all []T) *T {
	if len(all) == 0 {
		return nil
	}
	pinner.Pin(&all[0])
	return &all[0]
}

// whole converts a number to an unsigned 32-bit integer of C.
func whole(n int, name string) (uint32, error) {
	var c counts
	number := c.of(n, name)
	return number, c.err
}

// counts converts numbers to C types and keeps the first range error.
type counts struct{ err error }

// orNone also accepts None.
func (c *counts) orNone(n int, name string) uint32 {
	if n == None {
		return rz_NONE
	}
	return c.of(n, name)
}

func (c *counts) of(n int, name string) uint32 {
	if n >= 0 && uint64(n) <= math.MaxUint32 {
		return uint32(n)
	}
	if c.err == nil {
		c.err = wrong("%s is %d; it must be a whole number from 0 to %d", name, n, uint32(math.MaxUint32))
	}
	return 0
}

// noNUL rejects a text with a NUL, at which C would end it.
func noNUL(name, text string) error {
	if strings.IndexByte(text, 0) >= 0 {
		return wrong("%s has a NUL byte; it must have none", name)
	}
	return nil
}
