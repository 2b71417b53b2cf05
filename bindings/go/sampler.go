package realizar

/*
#include <realizar.h>
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// Sampling says how tokens are chosen. Zero in a field switches it off; the zero value means the most likely token.
type Sampling struct {
	Temperature float32
	TopK        int
	TopP, MinP  float32
	Seed        uint64

	RepeatPenalty, PresencePenalty, FrequencyPenalty float32
	PenaltyWindow                                    int                // how many of the last tokens count; 0: 64
	LogitBias                                        map[uint32]float32 // added to the logits of tokens; math.Inf(-1) forbids one

	TemperatureFirst bool // TopP and MinP see the distribution that the temperature leaves, which is the order of transformers
}

// Sampler chooses tokens. It belongs to one call at a time, and is usable with sessions of any model. A nil *Sampler
// chooses the most likely token.
type Sampler struct{ sampler *owned[*C.rz_sampler] }

// NewSampler makes a sampler.
func NewSampler(options Sampling) (*Sampler, error) {
	params := C.rz_sampler_params{
		temperature: C.float(options.Temperature), top_k: C.uint32_t(max(options.TopK, 0)),
		top_p: C.float(options.TopP), min_p: C.float(options.MinP), seed: C.uint64_t(options.Seed),
		repeat_penalty: C.float(options.RepeatPenalty), presence_penalty: C.float(options.PresencePenalty),
		frequency_penalty: C.float(options.FrequencyPenalty), penalty_window: C.uint32_t(max(options.PenaltyWindow, 0)),
	}
	params.struct_size = C.uint32_t(unsafe.Sizeof(params))
	if options.TemperatureFirst {
		params.flags = C.RZ_SAMPLER_TEMPERATURE_FIRST
	}
	biases := make([]C.rz_logit_bias, 0, len(options.LogitBias))
	for token, bias := range options.LogitBias {
		biases = append(biases, C.rz_logit_bias{token: C.uint32_t(token), bias: C.float(bias)})
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	if len(biases) > 0 {
		pinner.Pin(&biases[0])
		params.biases, params.n_biases = &biases[0], C.size_t(len(biases))
	}
	var e C.rz_error
	var handle *C.rz_sampler
	if err := check(C.rz_sampler_new(&params, &handle, &e), &e); err != nil {
		return nil, err
	}
	s := &Sampler{own(handle, func(handle *C.rz_sampler) { C.rz_sampler_free(handle) })}
	runtime.AddCleanup(s, (*owned[*C.rz_sampler]).close, s.sampler)
	return s, nil
}

// Close frees the sampler once no call uses it. Closing twice is fine.
func (s *Sampler) Close() error {
	s.sampler.close()
	return nil
}

// acquire gives the handle, NULL for nil, and what gives it back.
func (s *Sampler) acquire() (*C.rz_sampler, func(), error) {
	if s == nil {
		return nil, func() {}, nil
	}
	handle, err := s.sampler.acquire()
	return handle, s.sampler.release, err
}
