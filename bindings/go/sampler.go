package realizar

import (
	"runtime"
)

// Sampler samples tokens, for sessions of any model, one call at a time. A nil *Sampler means greedy decoding.
type Sampler struct{ sampler *owned[*rz_sampler] }

// pinned returns the C parameters, with pinned memory.
func (options *Sampling) pinned(pinner *runtime.Pinner) (rz_sampler_params, error) {
	params, err := options.params()
	if err != nil {
		return params, err
	}
	biases := make([]rz_logit_bias, 0, len(options.LogitBias))
	for token, bias := range options.LogitBias {
		biases = append(biases, rz_logit_bias{token: token, bias: bias})
	}
	params.biases, params.n_biases = pinned(pinner, biases), uintptr(len(biases))
	params.dry_breakers, params.n_dry_breakers = sequences(pinner, options.DRYBreakers)
	params.banned_sequences, params.n_banned_sequences = sequences(pinner, options.BannedSequences)
	params.order, params.n_order = (*uint32)(pinned(pinner, options.Order)), uintptr(len(options.Order))
	return params, nil
}

// NewSampler makes a sampler.
func NewSampler(options Sampling) (*Sampler, error) {
	if err := Open(""); err != nil {
		return nil, err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	params, err := options.pinned(&pinner)
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
