package realizar

import "unsafe"

// Grammar is a compiled grammar for constrained decoding, usable with any number of samplers at once.
type Grammar struct{ grammar *owned[*rz_grammar] }

// NewGrammar compiles a grammar for the vocabulary of the model.
func (m *Model) NewGrammar(kind GrammarKind, text string, flags GrammarFlags) (*Grammar, error) {
	return made(m, func(model *rz_model, out **rz_grammar, e *rz_error) int32 {
		return lib.rz_grammar_new(model, uint32(kind), uint32(flags), unsafe.StringData(text),
			uintptr(len(text)), nil, out, e)
	}, lib.rz_grammar_free, func(o *owned[*rz_grammar]) *Grammar { return &Grammar{o} })
}

// Close frees the grammar; samplers that use it remain usable. Closing twice is fine.
func (g *Grammar) Close() error {
	return g.held().close()
}

// SetGrammar constrains sampling to a grammar, from its start; nil: no constraint.
func (s *Sampler) SetGrammar(g *Grammar) error {
	handle, release, err := optional[*rz_grammar](g, "g")
	if err != nil {
		return err
	}
	defer release()
	return use(s, func(sampler *rz_sampler, e *rz_error) int32 {
		return lib.rz_sampler_grammar_set(sampler, handle, e)
	})
}
