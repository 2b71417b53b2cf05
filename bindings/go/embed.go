package realizar

/*
#include <realizar.h>
*/
import "C"

import (
	"context"
	"runtime"
	"unsafe"
)

// Pooling is the way from the vectors of a text's tokens to one vector.
type Pooling uint32

const (
	PoolingModel Pooling = C.RZ_POOLING_MODEL // the one that the model was made with
	PoolingNone  Pooling = C.RZ_POOLING_NONE  // a vector for each token
	PoolingMean  Pooling = C.RZ_POOLING_MEAN
	PoolingCLS   Pooling = C.RZ_POOLING_CLS
	PoolingLast  Pooling = C.RZ_POOLING_LAST
	PoolingRank  Pooling = C.RZ_POOLING_RANK // the scores of a reranker
)

// EmbedOptions are optional; the zero value means the model's pooling and vectors of length 1.
type EmbedOptions struct {
	Pooling Pooling
	Raw     bool // vectors keep their lengths
}

func (o *EmbedOptions) params() (params C.rz_embed_params) {
	params.struct_size = C.uint32_t(unsafe.Sizeof(params))
	params.pooling = C.uint32_t(o.Pooling)
	if o.Raw {
		params.flags = C.RZ_EMBED_RAW
	}
	return params
}

// EmbedTexts is [Model.Embed] for texts, which [Model.Tokenize] turns into tokens, with the tokens that begin and end a
// text.
func (m *Model) EmbedTexts(ctx context.Context, texts []string, options *EmbedOptions) ([][]float32, error) {
	tokens := make([][]uint32, len(texts))
	for i, text := range texts {
		var err error
		if tokens[i], err = m.Tokenize(text, true, false); err != nil {
			return nil, err
		}
	}
	return m.Embed(ctx, tokens, options)
}

// Embed turns texts, which are tokens as Tokenize makes them, into vectors: one for each text, or with [PoolingNone]
// one for each token of all texts. It stops early when the context ends.
func (m *Model) Embed(ctx context.Context, texts [][]uint32, options *EmbedOptions) ([][]float32, error) {
	if options == nil {
		options = &EmbedOptions{}
	}
	if len(texts) == 0 {
		return nil, nil
	}
	cancel, stop, err := watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	params := options.params()
	// C reads the lists of tokens through pointers that lie in memory of Go.
	var pinner runtime.Pinner
	defer pinner.Unpin()
	n := len(texts)
	vectors := n
	if options.Pooling == PoolingNone {
		vectors = 0
	}
	tokens, lengths := make([]*C.uint32_t, n), make([]C.size_t, n)
	for i, text := range texts {
		tokens[i], lengths[i] = (*C.uint32_t)(pinned(&pinner, text)), C.size_t(len(text))
		if options.Pooling == PoolingNone {
			vectors += len(text)
		}
	}
	values, err := sized(m.model, 0, func(handle *C.rz_model, out *float32, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_embed_into(handle, &params, &tokens[0], &lengths[0], C.size_t(len(texts)), (*C.float)(out), capacity, n, cancel, e)
	})
	if err != nil {
		return nil, ended(ctx, err)
	}
	return divided(values, vectors), nil
}

// divided is values as vectors of one length.
func divided(values []float32, vectors int) [][]float32 {
	result := make([][]float32, vectors)
	for i := range result {
		width := len(values) / vectors
		result[i] = values[i*width : (i+1)*width : (i+1)*width]
	}
	return result
}
