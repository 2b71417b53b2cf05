package realizar

import (
	"runtime"
	"unsafe"
)

// Sampling has the sampling parameters. Zero in a field disables it; the zero value means greedy decoding.
type Sampling struct {
	Temperature float32
	TopK        int
	TopP, MinP  float32
	Seed        uint64

	RepeatPenalty, PresencePenalty, FrequencyPenalty float32
	PenaltyWindow                                    int                // last tokens that are penalized; 0: all
	LogitBias                                        map[uint32]float32 // added to the logits of tokens; math.Inf(-1) forbids one

	TemperatureFirst bool // apply the temperature before the filters, as transformers does

	TypicalP, TopNSigma                   float32
	XTCProbability, XTCThreshold          float32 // 0 in the threshold: 0.1
	TemperatureRange, TemperatureExponent float32 // 0 in the exponent: 1
	MirostatTau, MirostatEta              float32 // 0 in eta: 0.1
	DRYMultiplier, DRYBase                float32 // 0 in the base: 1.75
	DRYAllowedLength, DRYWindow           int     // 0: 2, and all tokens
	NoRepeatNgramSize                     int
	DRYBreakers, BannedSequences          [][]uint32
	Order                                 []Filter // order of the filters and the temperature; nil: the default
}

// Filter is a filter of tokens, or the temperature.
type Filter uint32

const (
	FilterTopNSigma   Filter = rz_FILTER_TOP_N_SIGMA // Sampling.TopNSigma
	FilterTopK        Filter = rz_FILTER_TOP_K       // Sampling.TopK
	FilterTypicalP    Filter = rz_FILTER_TYPICAL_P   // Sampling.TypicalP
	FilterTopP        Filter = rz_FILTER_TOP_P       // Sampling.TopP
	FilterMinP        Filter = rz_FILTER_MIN_P       // Sampling.MinP
	FilterXTC         Filter = rz_FILTER_XTC         // Sampling.XTCProbability
	FilterTemperature Filter = rz_FILTER_TEMPERATURE // Sampling.Temperature
)

// Sampler samples tokens, for sessions of any model, one call at a time. A nil *Sampler means greedy decoding.
type Sampler struct{ sampler *owned[*rz_sampler] }

// params returns the C parameters, with pinned memory.
func (options *Sampling) params(pinner *runtime.Pinner) (rz_sampler_params, error) {
	var counts counts
	params := rz_sampler_params{
		temperature: options.Temperature, top_k: counts.of(options.TopK, "TopK"),
		top_p: options.TopP, min_p: options.MinP, seed: options.Seed,
		repeat_penalty: options.RepeatPenalty, presence_penalty: options.PresencePenalty,
		frequency_penalty: options.FrequencyPenalty, penalty_window: counts.of(options.PenaltyWindow, "PenaltyWindow"),
		typical_p: options.TypicalP, top_n_sigma: options.TopNSigma,
		xtc_probability: options.XTCProbability, xtc_threshold: options.XTCThreshold,
		temperature_range: options.TemperatureRange, temperature_exponent: options.TemperatureExponent,
		mirostat_tau: options.MirostatTau, mirostat_eta: options.MirostatEta,
		dry_multiplier: options.DRYMultiplier, dry_base: options.DRYBase,
		dry_allowed_length: counts.of(options.DRYAllowedLength, "DRYAllowedLength"), dry_window: counts.of(options.DRYWindow, "DRYWindow"),
		no_repeat_ngram_size: counts.of(options.NoRepeatNgramSize, "NoRepeatNgramSize"),
	}
	params.struct_size = uint32(unsafe.Sizeof(params))
	if options.TemperatureFirst {
		params.flags = rz_SAMPLER_TEMPERATURE_FIRST
	}
	biases := make([]rz_logit_bias, 0, len(options.LogitBias))
	for token, bias := range options.LogitBias {
		biases = append(biases, rz_logit_bias{token: token, bias: bias})
	}
	params.biases, params.n_biases = pinned(pinner, biases), uintptr(len(biases))
	params.dry_breakers, params.n_dry_breakers = sequences(pinner, options.DRYBreakers)
	params.banned_sequences, params.n_banned_sequences = sequences(pinner, options.BannedSequences)
	params.order, params.n_order = (*uint32)(pinned(pinner, options.Order)), uintptr(len(options.Order))
	return params, counts.err
}

// NewSampler makes a sampler.
func NewSampler(options Sampling) (*Sampler, error) {
	if err := Open(""); err != nil {
		return nil, err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	params, err := options.params(&pinner)
	if err != nil {
		return nil, err
	}
	var e rz_error
	var handle *rz_sampler
	if err := check(lib.rz_sampler_new(&params, &handle, &e), &e); err != nil {
		return nil, err
	}
	s := &Sampler{own(handle, lib.rz_sampler_free)}
	runtime.AddCleanup(s, (*owned[*rz_sampler]).drop, s.sampler)
	return s, nil
}

// sequences returns token sequences for C, pinned until pinner.Unpin.
func sequences(pinner *runtime.Pinner, all [][]uint32) (*rz_token_sequence, uintptr) {
	sequences := make([]rz_token_sequence, len(all))
	for i, tokens := range all {
		sequences[i] = rz_token_sequence{pinned(pinner, tokens), uintptr(len(tokens))}
	}
	return pinned(pinner, sequences), uintptr(len(sequences))
}

// Close frees the sampler once no call uses it. Closing twice is fine.
func (s *Sampler) Close() error {
	return s.held().close()
}

func (s *Sampler) held() *owned[*rz_sampler] {
	if s == nil {
		return nil
	}
	return s.sampler
}
