package realizar

import "unsafe"

// GrammarKind is the language in which a grammar is written.
type GrammarKind uint32

const (
	GrammarJSONSchema GrammarKind = rz_GRAMMAR_JSON_SCHEMA // a JSON Schema
	GrammarRegex      GrammarKind = rz_GRAMMAR_REGEX       // a regular expression
	GrammarLark       GrammarKind = rz_GRAMMAR_LARK        // a grammar of Lark
	GrammarGBNF       GrammarKind = rz_GRAMMAR_GBNF        // a grammar of llama.cpp
	GrammarJSON       GrammarKind = rz_GRAMMAR_JSON        // any JSON value, of an empty text
	GrammarChoices    GrammarKind = rz_GRAMMAR_CHOICES     // one of some texts, of a JSON array of strings
	GrammarTools      GrammarKind = rz_GRAMMAR_TOOLS       // the reply to a [Transcript] in JSON: text, or calls of its tools
)

// GrammarFlags change a grammar.
type GrammarFlags uint32

const (
	// GrammarWhitespace is for kinds of JSON: white space between its parts.
	GrammarWhitespace GrammarFlags = rz_GRAMMAR_FLAG_WHITESPACE
	// GrammarBestEffort is for GrammarJSONSchema: keywords that cannot be compiled are left out and logged.
	GrammarBestEffort GrammarFlags = rz_GRAMMAR_FLAG_BEST_EFFORT
)

// Grammar says what may be written. It is usable with any number of samplers at once.
type Grammar struct{ grammar *owned[*rz_grammar] }

// NewGrammar compiles a grammar for the vocabulary of the model.
func (m *Model) NewGrammar(kind GrammarKind, text string, flags GrammarFlags) (*Grammar, error) {
	return made(m, func(model *rz_model, out **rz_grammar, e *rz_error) int32 {
		return lib.rz_grammar_new(model, uint32(kind), uint32(flags), unsafe.StringData(text),
			uintptr(len(text)), nil, out, e)
	}, lib.rz_grammar_free, func(o *owned[*rz_grammar]) *Grammar { return &Grammar{o} })
}

// Close frees the grammar; samplers that use it go on. Closing twice is fine.
func (g *Grammar) Close() error {
	return g.held().close()
}

func (g *Grammar) held() *owned[*rz_grammar] {
	if g == nil {
		return nil
	}
	return g.grammar
}

// SetGrammar lets the sampler choose only what continues a text of the grammar, from its start; nil: anything.
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
