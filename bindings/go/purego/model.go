package realizar

import (
	"context"
	"errors"
	"time"
	"unsafe"
)

// AdvisedSampling is what the makers of the model advise, nil where they do not. Nothing of it takes effect by itself.
func (m *Model) AdvisedSampling() (*Sampling, error) {
	s, err := filled(m.model, c.rz_model_sampling_get)
	if err != nil || s.advised == 0 {
		return nil, err
	}
	return &Sampling{
		Temperature: s.temperature, TopK: int(s.top_k), TopP: s.top_p, MinP: s.min_p, RepeatPenalty: s.repeat_penalty,
		PenaltyWindow: int(s.penalty_window), TemperatureFirst: true, // they advise it for transformers
	}, nil
}

// Meta is a metadata value of the file as text.
func (m *Model) Meta(key string) (string, error) {
	name, err := terminated("key", key)
	if err != nil {
		return "", err
	}
	text, err := sized(m.model, 256, func(model uintptr, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return c.rz_model_meta_into(model, name, out, capacity, n, e)
	})
	return string(text), err
}

// MetaKeys lists the keys of the metadata in alphabetical order.
func (m *Model) MetaKeys() ([]string, error) {
	return m.listed(func(model, i uintptr, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return c.rz_model_meta_key_into(model, i, out, capacity, n, e)
	})
}

// MetaList is the elements of an array of the metadata as texts.
func (m *Model) MetaList(key string) ([]string, error) {
	// So that a missing key is not an empty list.
	if _, err := m.Meta(key); err != nil {
		return nil, err
	}
	name, _ := terminated("key", key)
	return m.listed(func(model, i uintptr, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return c.rz_model_meta_element_into(model, name, i, out, capacity, n, e)
	})
}

// listed is entries up to the one that there is not.
func (m *Model) listed(f func(model, i uintptr, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32) (all []string, err error) {
	for {
		entry, err := sized(m.model, 256, func(model uintptr, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
			return f(model, uintptr(len(all)), out, capacity, n, e)
		})
		if errors.Is(err, ErrNotFound) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, string(entry))
	}
}

// TokenBytes are the bytes of one token, which may be a part of a character.
func (m *Model) TokenBytes(token uint32) ([]byte, error) {
	return sized(m.model, 64, func(model uintptr, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return c.rz_token_bytes_into(model, token, out, capacity, n, nil, e)
	})
}

// IsEnd tells whether a token ends a turn or a text; false once the model is closed.
func (m *Model) IsEnd(token uint32) (isEnd bool) {
	_ = m.model.use(func(model uintptr, _ *rz_error) int32 {
		isEnd = c.rz_token_is_end(model, token) != 0
		return 0
	})
	return isEnd
}

// TextStream turns tokens into text as they come, holding back the bytes of an unfinished character. It belongs to one
// call at a time.
type TextStream struct{ stream *handle }

// NewTextStream makes a stream whose first token begins a text.
func (m *Model) NewTextStream() (*TextStream, error) {
	return made(m.model, c.rz_textstream_new, c.rz_textstream_free, func(h *handle) *TextStream { return &TextStream{h} })
}

// Follow puts tokens ahead of those to come, such as a prompt, without their text.
func (t *TextStream) Follow(tokens []uint32) error {
	return t.stream.use(func(stream uintptr, e *rz_error) int32 {
		return c.rz_textstream_follow(stream, unsafe.SliceData(tokens), uintptr(len(tokens)), e)
	})
}

// Push adds a token and returns the text that is complete with it, often none.
func (t *TextStream) Push(token uint32) (string, error) {
	text, err := sized(t.stream, 256, func(stream uintptr, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return c.rz_textstream_push_into(stream, token, out, capacity, n, e)
	})
	return string(text), err
}

// Flush ends the text and returns the rest of it.
func (t *TextStream) Flush() (string, error) {
	text, err := sized(t.stream, 256, c.rz_textstream_flush_into)
	return string(text), err
}

// Close frees the stream. Closing twice is fine.
func (t *TextStream) Close() error {
	t.stream.close()
	return nil
}

// Plan is the memory that a model and its sessions take, in bytes.
type Plan struct {
	GPULayers                  int
	WeightsHost, WeightsDevice uint64
	CacheHost, CacheDevice     uint64 // of one session with room for all its tokens
	CacheToken                 uint64 // what one more token of capacity adds to a session
	ScratchHost, ScratchDevice uint64
	LoadPeakHost               uint64
	TotalHost, TotalDevice     uint64
	ExpertsHost, ExpertsDevice uint64       // parts of the weights: experts of layers on GPUs
	FirstExpertsHost           int          // first layer whose experts of these are on the CPU
	NExpertsHost               int          // layers from that to the last of them
	Devices                    []PlanDevice // what lies on each GPU that has layers
}

// PlanDevice is the part of a plan that is on one GPU, in bytes.
type PlanDevice struct {
	Device                         uint32
	Layers                         int
	Weights, Cache, Scratch, Total uint64
}

// PlanLoad tells what [Load] and so many sessions will take, before a weight is read.
func PlanLoad(ctx context.Context, path string, options *LoadOptions, session *SessionOptions, sessions int) (Plan, error) {
	name, err := terminated("path", path)
	if err != nil {
		return Plan{}, err
	}
	caches, err := whole(sessions, "sessions")
	if err != nil {
		return Plan{}, err
	}
	cache, err := session.params()
	if err != nil {
		return Plan{}, err
	}
	var p rz_model_plan
	p.struct_size = uint32(unsafe.Sizeof(p))
	var parts [rz_DEVICES_MAX]rz_model_plan_device
	for i := range parts {
		parts[i].struct_size = uint32(unsafe.Sizeof(parts[i]))
	}
	var n uintptr
	err = withParams(ctx, options, func(params *rz_model_params, e *rz_error) int32 {
		return c.rz_model_plan_get(name, nil, 0, params, &cache, caches, &p, &parts[0], uintptr(len(parts)), &n, e)
	})
	var devices []PlanDevice
	for _, d := range parts[:n] {
		devices = append(devices, PlanDevice{d.device, int(d.n_layers), d.weights, d.cache, d.scratch, d.total})
	}
	return Plan{
		int(p.gpu_layers), p.weights_host, p.weights_device, p.cache_host, p.cache_device, p.cache_token, p.scratch_host, p.scratch_device,
		p.load_peak_host, p.total_host, p.total_device, p.experts_host, p.experts_device, int(p.experts_host_first), int(p.experts_host_layers),
		devices,
	}, err
}

// Phase counts how often something was done, and how long it took in all.
type Phase struct {
	Count uint64
	Time  time.Duration
}

// Metrics tell what a model has done since it was loaded or [Model.ResetMetrics] was called.
type Metrics struct {
	Load, Tokenize, Prefill, Decode, Sample, Detokenize, Encode Phase
}

// Metrics reads the counters of the model.
func (m *Model) Metrics() (Metrics, error) {
	x, err := filled(m.model, c.rz_metrics_get)
	phase := func(p rz_phase_metrics) Phase { return Phase{p.count, time.Duration(p.sum_ns)} }
	return Metrics{phase(x.load), phase(x.tokenize), phase(x.prefill), phase(x.decode), phase(x.sample), phase(x.detokenize), phase(x.encode)}, err
}

// DeviceMetrics tell what one kind of device has done: a dispatch is one pass through its layers.
type DeviceMetrics struct {
	Dispatches, Bytes                               uint64
	LatencySum, LatencyMin, LatencyMax, LatencyMean time.Duration
	LatencyHistogram                                [32]uint64 // entry i: below 2^i microseconds
}

// DeviceMetrics reads the counters of one kind of device.
func (m *Model) DeviceMetrics(kind DeviceKind) (DeviceMetrics, error) {
	x, err := filled(m.model, func(model uintptr, out *rz_backend_metrics, e *rz_error) int32 {
		return c.rz_backend_metrics_get(model, uint32(kind), out, e)
	})
	return DeviceMetrics{
		x.dispatches, x.bytes, time.Duration(x.latency_sum_ns), time.Duration(x.latency_min_ns), time.Duration(x.latency_max_ns),
		time.Duration(x.latency_mean_ns), x.latency_histogram,
	}, err
}

// ResetMetrics sets the counters to zero.
func (m *Model) ResetMetrics() error {
	return m.model.use(func(model uintptr, _ *rz_error) int32 {
		c.rz_metrics_reset(model)
		return 0
	})
}
