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
	PenaltyWindow                                    int                // how many of the last tokens count; 0: all
	LogitBias                                        map[uint32]float32 // added to the logits of tokens; math.Inf(-1) forbids one

	TemperatureFirst bool // the filters see the distribution that the temperature leaves, which is the order of transformers

	TypicalP, TopNSigma                   float32
	XTCProbability, XTCThreshold          float32 // 0 in the threshold: 0.1
	TemperatureRange, TemperatureExponent float32 // 0 in the exponent: 1
	MirostatTau, MirostatEta              float32 // 0 in eta: 0.1
	DRYMultiplier, DRYBase                float32 // 0 in the base: 1.75
	DRYAllowedLength, DRYWindow           int     // 0: 2, and all tokens
	NoRepeatNgramSize                     int
	DRYBreakers, BannedSequences          [][]uint32
	Order                                 []Filter // of the filters and the temperature; nil: the default order
}

// Filter is a filter of tokens, or the temperature.
type Filter uint32

const (
	FilterTopNSigma   Filter = C.RZ_FILTER_TOP_N_SIGMA
	FilterTopK        Filter = C.RZ_FILTER_TOP_K
	FilterTypicalP    Filter = C.RZ_FILTER_TYPICAL_P
	FilterTopP        Filter = C.RZ_FILTER_TOP_P
	FilterMinP        Filter = C.RZ_FILTER_MIN_P
	FilterXTC         Filter = C.RZ_FILTER_XTC
	FilterTemperature Filter = C.RZ_FILTER_TEMPERATURE
)

// Sampler chooses tokens. It belongs to one call at a time, and is usable with sessions of any model. A nil *Sampler
// chooses the most likely token.
type Sampler struct{ sampler *owned[*C.rz_sampler] }

// params are those of C, with memory that the pinner holds.
func (options *Sampling) params(pinner *runtime.Pinner) (C.rz_sampler_params, error) {
	var counts counts
	params := C.rz_sampler_params{
		temperature: C.float(options.Temperature), top_k: counts.of(options.TopK, "TopK"),
		top_p: C.float(options.TopP), min_p: C.float(options.MinP), seed: C.uint64_t(options.Seed),
		repeat_penalty: C.float(options.RepeatPenalty), presence_penalty: C.float(options.PresencePenalty),
		frequency_penalty: C.float(options.FrequencyPenalty), penalty_window: counts.of(options.PenaltyWindow, "PenaltyWindow"),
		typical_p: C.float(options.TypicalP), top_n_sigma: C.float(options.TopNSigma),
		xtc_probability: C.float(options.XTCProbability), xtc_threshold: C.float(options.XTCThreshold),
		temperature_range: C.float(options.TemperatureRange), temperature_exponent: C.float(options.TemperatureExponent),
		mirostat_tau: C.float(options.MirostatTau), mirostat_eta: C.float(options.MirostatEta),
		dry_multiplier: C.float(options.DRYMultiplier), dry_base: C.float(options.DRYBase),
		dry_allowed_length: counts.of(options.DRYAllowedLength, "DRYAllowedLength"), dry_window: counts.of(options.DRYWindow, "DRYWindow"),
		no_repeat_ngram_size: counts.of(options.NoRepeatNgramSize, "NoRepeatNgramSize"),
	}
	params.struct_size = C.uint32_t(unsafe.Sizeof(params))
	if options.TemperatureFirst {
		params.flags = C.RZ_SAMPLER_TEMPERATURE_FIRST
	}
	biases := make([]C.rz_logit_bias, 0, len(options.LogitBias))
	for token, bias := range options.LogitBias {
		biases = append(biases, C.rz_logit_bias{token: C.uint32_t(token), bias: C.float(bias)})
	}
	params.biases, params.n_biases = pinned(pinner, biases), C.size_t(len(biases))
	params.dry_breakers, params.n_dry_breakers = sequences(pinner, options.DRYBreakers)
	params.banned_sequences, params.n_banned_sequences = sequences(pinner, options.BannedSequences)
	params.order, params.n_order = (*C.uint32_t)(pinned(pinner, options.Order)), C.size_t(len(options.Order))
	return params, counts.err
}

// NewSampler makes a sampler.
func NewSampler(options Sampling) (*Sampler, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	params, err := options.params(&pinner)
	if err != nil {
		return nil, err
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

// sequences are some of tokens, in place until pinner lets them go.
func sequences(pinner *runtime.Pinner, all [][]uint32) (*C.rz_token_sequence, C.size_t) {
	if len(all) == 0 {
		return nil, 0
	}
	sequences := make([]C.rz_token_sequence, len(all))
	for i, tokens := range all {
		if len(tokens) > 0 {
			pinner.Pin(&tokens[0])
			sequences[i] = C.rz_token_sequence{tokens: (*C.uint32_t)(&tokens[0]), n_tokens: C.size_t(len(tokens))}
		}
	}
	pinner.Pin(&sequences[0])
	return &sequences[0], C.size_t(len(sequences))
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
