package realizar

import "unsafe"

// GrammarKind is the language in which a grammar is written.
type GrammarKind uint32

const (
	GrammarJSONSchema GrammarKind = rz_GRAMMAR_JSON_SCHEMA // a JSON Schema
	GrammarRegex      GrammarKind = rz_GRAMMAR_REGEX       // a regular expression
	GrammarLark       GrammarKind = rz_GRAMMAR_LARK        // a Lark grammar
	GrammarGBNF       GrammarKind = rz_GRAMMAR_GBNF        // a GBNF grammar, as in llama.cpp
	GrammarJSON       GrammarKind = rz_GRAMMAR_JSON        // any JSON value; the text must be empty
	GrammarChoices    GrammarKind = rz_GRAMMAR_CHOICES     // one of several texts, given as a JSON array of strings
	GrammarTools      GrammarKind = rz_GRAMMAR_TOOLS       // the reply to a [Transcript] in JSON: text, or tool calls
)

// GrammarFlags change a grammar.
type GrammarFlags uint32

const (
	// GrammarWhitespace allows whitespace in generated JSON.
	GrammarWhitespace GrammarFlags = rz_GRAMMAR_FLAG_WHITESPACE
	// GrammarBestEffort ignores and logs keywords of a GrammarJSONSchema that cannot be compiled.
	GrammarBestEffort GrammarFlags = rz_GRAMMAR_FLAG_BEST_EFFORT
)

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

func (g *Grammar) held() *owned[*rz_grammar] {
	if g == nil {
		return nil
	}
	return g.grammar
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
