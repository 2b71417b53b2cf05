// OpenAI's embeddings.
package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"net/http"

	"realizar.dev/go"
)

// embeddingRequest is a request for embeddings of texts.
type embeddingRequest struct {
	Model          string `json:"model"`
	Input          inputs `json:"input"`
	EncodingFormat string `json:"encoding_format"`
	Dimensions     *int   `json:"dimensions"`
	Pooling        string `json:"pooling"`
	User           any    `json:"user"` // no effect
}

// maxInputs is the maximum number of texts to embed or rerank at once, because all vectors are in memory together.
const maxInputs = 2048

// poolings are the names of pooling modes.
var poolings = map[string]realizar.Pooling{
	"": realizar.PoolingModel, "mean": realizar.PoolingMean, "cls": realizar.PoolingCLS, "last": realizar.PoolingLast,
}

// embeddings serves POST /v1/embeddings.
func (s *server) embeddings(w http.ResponseWriter, r *http.Request) error {
	var request embeddingRequest
	if err := readKnown(w, r, &request); err != nil {
		return err
	}
	pooling, known := poolings[request.Pooling]
	switch {
	case len(request.Input) == 0:
		return refuse("input", "input is missing or empty; it must have a text")
	case len(request.Input) > maxInputs:
		return refuse("input", "input has %d texts; it must have at most %d", len(request.Input), maxInputs)
	case request.EncodingFormat != "" && request.EncodingFormat != "float" && request.EncodingFormat != "base64":
		return refuse("encoding_format", "encoding_format is %q; it must be \"float\" or \"base64\"", request.EncodingFormat)
	case !known:
		return refuse("pooling", "pooling is %q; it must be \"mean\", \"cls\" or \"last\"", request.Pooling)
	}
	model, err := s.models.lease(r.Context(), request.Model)
	if err != nil {
		return err
	}
	defer model.release()
	tokens, err := inBounds(r.Context(), model, func(l *lease) ([][]uint32, error) { return l.inputTokens(request.Input) })
	if err != nil {
		return err
	}
	total := 0
	for _, text := range tokens {
		total += len(text)
	}
	vectors, err := model.embed(r.Context(), tokens, pooling)
	if request.Pooling == "" && errors.Is(err, realizar.ErrUnsupported) {
		return refuse("pooling", "pooling is missing, and the model %q has none of its own; it must be \"mean\", \"cls\" or \"last\"", request.Model)
	}
	if err != nil {
		return err
	}
	data := make([]any, len(vectors))
	for i, vector := range vectors {
		if wanted := request.Dimensions; wanted != nil {
			if *wanted < 1 || *wanted > len(vector) {
				return refuse("dimensions", "dimensions is %d; it must be from 1 to %d, the dimensions of the model", *wanted, len(vector))
			}
			vector = unit(vector[:*wanted])
		}
		value := any(vector)
		if request.EncodingFormat == "base64" {
			var bytes []byte
			for _, x := range vector {
				bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(x))
			}
			value = base64.StdEncoding.EncodeToString(bytes)
		}
		data[i] = map[string]any{"object": "embedding", "index": i, "embedding": value}
	}
	return writeJSON(w, map[string]any{
		"object": "list", "model": request.Model, "data": data, "usage": map[string]any{"prompt_tokens": total, "total_tokens": total},
	})
}

// inputTokens returns the tokens of texts.
func (l *lease) inputTokens(all inputs) (tokens [][]uint32, err error) {
	for i, input := range all {
		text := input.tokens
		if text == nil {
			if text, err = l.Tokenize(input.text, true, false); err != nil {
				return nil, err
			}
		}
		if len(text) == 0 {
			return nil, refuse("input", "input[%d] is empty; it must have a token", i)
		}
		tokens = append(tokens, text)
	}
	return tokens, nil
}

// embed returns the embeddings of texts, or the scores of pairs.
func (l *lease) embed(ctx context.Context, tokens [][]uint32, pooling realizar.Pooling) ([][]float32, error) {
	if len(l.adapters) > 0 {
		return nil, refuse("model", "model is the adapter %q; embeddings and rerank need a model", l.name)
	}
	leave, err := l.engine.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	for _, text := range tokens {
		recordOf(ctx).counts(len(text), 0, false)
	}
	return l.EmbedTokens(ctx, tokens, &realizar.EmbedOptions{Pooling: pooling})
}

// unit normalizes a vector to length 1; nil if its length is 0.
func unit(vector []float32) []float32 {
	sum := 0.0
	for _, x := range vector {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return vector
	}
	scaled := make([]float32, len(vector))
	for i, x := range vector {
		scaled[i] = float32(float64(x) / math.Sqrt(sum))
	}
	return scaled
}
