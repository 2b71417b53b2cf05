// Sampling parameters of requests.
package main

import (
	"math"
	"math/rand/v2"
	"strconv"

	"realizar.dev/go"
)

// wish has the sampling parameters of a request; nil: the recommended value of the model, or the default (temperature
// 1).
type wish struct {
	Temperature      *float32           `json:"temperature"`
	TopP             *float32           `json:"top_p"`
	MinP             *float32           `json:"min_p"`
	TopK             *int               `json:"top_k"`
	PresencePenalty  *float32           `json:"presence_penalty"`
	FrequencyPenalty *float32           `json:"frequency_penalty"`
	RepeatPenalty    *float32           `json:"repetition_penalty"`
	Seed             *int64             `json:"seed"` // nil: random
	LogitBias        map[string]float32 `json:"logit_bias"`
}

// sampling returns the checked sampling parameters for a choice of a request, counted from 0.
func (l *lease) sampling(w wish, choice int) (*realizar.Sampling, error) {
	s, err := l.AdvisedSampling()
	if err != nil {
		return nil, err
	}
	if s == nil {
		s = &realizar.Sampling{Temperature: 1, TemperatureFirst: true}
	}
	for _, f := range []struct {
		name     string
		wished   *float32
		low, top float32
		field    *float32
	}{
		{"temperature", w.Temperature, 0, 2, &s.Temperature},
		{"top_p", w.TopP, 0, 1, &s.TopP},
		{"min_p", w.MinP, 0, 1, &s.MinP},
		{"presence_penalty", w.PresencePenalty, -2, 2, &s.PresencePenalty},
		{"frequency_penalty", w.FrequencyPenalty, -2, 2, &s.FrequencyPenalty},
		{"repetition_penalty", w.RepeatPenalty, 0, 2, &s.RepeatPenalty},
	} {
		if f.wished == nil {
			continue
		}
		if !(*f.wished >= f.low && *f.wished <= f.top) {
			return nil, refuse(f.name, "%s is %v; it must be from %v to %v", f.name, *f.wished, f.low, f.top)
		}
		*f.field = *f.wished
	}
	if w.TopP != nil && *w.TopP == 0 { // zero probability mass: greedy
		s.TopK, s.TopP = 1, 1
	}
	if w.TopK != nil {
		if s.TopK = *w.TopK; s.TopK < -1 || s.TopK > math.MaxInt32 {
			return nil, refuse("top_k", "top_k is %d; it must be -1 or from 0 to %d", s.TopK, math.MaxInt32)
		}
		s.TopK = max(s.TopK, 0)
	}
	if s.Seed = rand.Uint64(); w.Seed != nil {
		s.Seed = uint64(*w.Seed)
	}
	s.Seed += uint64(choice)
	for name, bias := range w.LogitBias {
		token, err := strconv.ParseUint(name, 10, 32)
		if err != nil || token >= uint64(l.info.VocabSize) {
			return nil, refuse("logit_bias", "logit_bias has the key %q; it must be a token id less than %d", name, l.info.VocabSize)
		}
		if !(bias >= -100 && bias <= 100) {
			return nil, refuse("logit_bias", "logit_bias[%s] is %v; it must be from -100 to 100", name, bias)
		}
		if s.LogitBias == nil {
			s.LogitBias = map[uint32]float32{}
		}
		s.LogitBias[uint32(token)] = bias
	}
	return s, nil
}
