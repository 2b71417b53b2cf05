package realizar

import (
	"context"
	"runtime"
	"unsafe"
)

// Embed returns an embedding per text, or with [PoolingNone] a vector per token of all texts. It adds BOS and EOS as
// [Model.Tokenize] does. It stops early when the context ends.
func (m *Model) Embed(ctx context.Context, texts []string, options *EmbedOptions) ([][]float32, error) {
	tokens := make([][]uint32, len(texts))
	for i, text := range texts {
		var err error
		if tokens[i], err = m.Tokenize(text, true, false); err != nil {
			return nil, err
		}
	}
	return m.EmbedTokens(ctx, tokens, options)
}

// EmbedTokens is [Model.Embed] for tokens.
func (m *Model) EmbedTokens(ctx context.Context, texts [][]uint32, options *EmbedOptions) ([][]float32, error) {
	// C reads the lists of tokens through pointers in Go memory.
	var pinner runtime.Pinner
	defer pinner.Unpin()
	n, sum := uintptr(len(texts)), 0
	tokens, lengths := make([]*uint32, n), make([]uintptr, n)
	for i, text := range texts {
		tokens[i], lengths[i] = pinned(&pinner, text), uintptr(len(text))
		sum += len(text)
	}
	return m.embed(ctx, options, len(texts), sum, func(model *rz_model, params *rz_embed_params, out *float32, capacity uintptr, size *uintptr, cancel *rz_cancel, e *rz_error) int32 {
		return lib.rz_embed_into(model, params, unsafe.SliceData(tokens), unsafe.SliceData(lengths), n, out, capacity, size, cancel, e)
	})
}

// EmbedPrompts is [Model.Embed] for prompts, which may contain images.
func (m *Model) EmbedPrompts(ctx context.Context, prompts []*Prompt, options *EmbedOptions) ([][]float32, error) {
	list, release, err := handlesOf[*rz_prompt](prompts, "prompts")
	if err != nil {
		return nil, err
	}
	defer release()
	sum := 0
	for _, prompt := range prompts {
		sum += prompt.Len()
	}
	return m.embed(ctx, options, len(list), sum, func(model *rz_model, params *rz_embed_params, out *float32, capacity uintptr, size *uintptr, cancel *rz_cancel, e *rz_error) int32 {
		return lib.rz_embed_prompts_into(model, params, unsafe.SliceData(list), uintptr(len(list)), out, capacity, size, cancel, e)
	})
}

// embed returns the vectors that f writes, for this number of texts and tokens in total.
func (m *Model) embed(ctx context.Context, options *EmbedOptions, texts, tokens int,
	f func(model *rz_model, params *rz_embed_params, out *float32, capacity uintptr, n *uintptr, cancel *rz_cancel, e *rz_error) int32) ([][]float32, error) {
	if options == nil {
		options = &EmbedOptions{}
	}
	if options.Pooling == PoolingNone {
		texts = tokens
	}
	cancel, stop, err := m.held().watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	if texts == 0 {
		return nil, nil
	}
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	values, err := sized(m, 0, func(model *rz_model, out *float32, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return f(model, &params, out, capacity, n, cancel, e)
	})
	if err != nil {
		return nil, m.held().ended(err, ctx)
	}
	return divided(values, texts), nil
}

// divided splits values into vectors of one length.
func divided(values []float32, vectors int) [][]float32 {
	result := make([][]float32, vectors)
	for i := range result {
		width := len(values) / vectors
		result[i] = values[i*width : (i+1)*width : (i+1)*width]
	}
	return result
}
