// Reranking of documents by relevance to a query, in the form of Jina and Cohere.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"sort"
	"strings"

	"realizar.dev/go"
)

// rerankRequest is a request to rerank documents.
type rerankRequest struct {
	Model           string     `json:"model"`
	Query           *string    `json:"query"`
	Documents       []document `json:"documents"`
	TopN            *int       `json:"top_n"`
	ReturnDocuments *bool      `json:"return_documents"` // default: true; in version 2 of Cohere's API: false
	MaxTokens       *int       `json:"max_tokens_per_doc"`
}

// document is a text, or an object with the text.
type document struct {
	Text string `json:"text"`
}

func (d *document) UnmarshalJSON(data []byte) error {
	if string(data) != "null" && json.Unmarshal(data, &d.Text) == nil {
		return nil
	}
	var object struct {
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(data, &object); err != nil || object.Text == nil {
		return refuse("documents", "documents has an entry that is neither a text nor an object with text")
	}
	d.Text = *object.Text
	return nil
}

type ranked struct {
	Index    int       `json:"index"`
	Score    float64   `json:"relevance_score"`
	Document *document `json:"document,omitempty"`
}

// rerank serves POST /v1/rerank. The answer lists the documents by relevance, the most relevant first.
func (s *server) rerank(w http.ResponseWriter, r *http.Request) error {
	var request rerankRequest
	if err := readKnown(w, r, &request); err != nil {
		return err
	}
	switch {
	case request.Query == nil:
		return refuse("query", "query is missing; it must be a text")
	case len(request.Documents) == 0:
		return refuse("documents", "documents is missing or empty; it must have a document")
	case len(request.Documents) > maxInputs:
		return refuse("documents", "documents has %d entries; it must have at most %d", len(request.Documents), maxInputs)
	case request.TopN != nil && *request.TopN < 1:
		return refuse("top_n", "top_n is %d; it must be at least 1", *request.TopN)
	case request.MaxTokens != nil && *request.MaxTokens < 1:
		return refuse("max_tokens_per_doc", "max_tokens_per_doc is %d; it must be at least 1", *request.MaxTokens)
	}
	model, err := s.models.lease(r.Context(), request.Model)
	if err != nil {
		return err
	}
	defer model.release()
	documents, err := inBounds(r.Context(), model, func(l *lease) ([]document, error) { return l.cutDocuments(request.Documents, request.MaxTokens) })
	if err != nil {
		return err
	}
	scores, total, err := model.relevance(r.Context(), *request.Query, documents)
	if err != nil {
		return err
	}
	version, returns := "1", true
	if strings.HasPrefix(r.URL.Path, "/v2/") {
		version, returns = "2", false
	}
	if request.ReturnDocuments != nil {
		returns = *request.ReturnDocuments
	}
	results := make([]ranked, len(scores))
	for i, score := range scores {
		results[i] = ranked{Index: i, Score: score}
		if returns {
			results[i].Document = &request.Documents[i]
		}
	}
	sort.SliceStable(results, func(i, j int) bool { return results[i].Score > results[j].Score })
	if request.TopN != nil {
		results = results[:min(*request.TopN, len(results))]
	}
	return writeJSON(w, map[string]any{
		"id": newID("rerank-"), "object": "list", "model": request.Model, "results": results,
		"usage": map[string]any{"prompt_tokens": total, "total_tokens": total},
		"meta": map[string]any{
			"api_version": map[string]any{"version": version}, "billed_units": map[string]any{"search_units": 1},
			"tokens": map[string]any{"input_tokens": total},
		},
	})
}

// cutDocuments truncates documents to a number of tokens; nil: unlimited.
func (l *lease) cutDocuments(all []document, most *int) ([]document, error) {
	if most == nil {
		return all, nil
	}
	cut := make([]document, len(all))
	for i, document := range all {
		cut[i] = document
		tokens, err := l.Tokenize(document.Text, false, false)
		if err == nil && len(tokens) > *most {
			cut[i].Text, err = l.Detokenize(tokens[:*most], false)
		}
		if err != nil {
			return nil, err
		}
	}
	return cut, nil
}

// relevance returns the relevance of each document to a query, and the number of input tokens. The relevance is a score
// of the model's classifier or, without a classifier, the cosine similarity of embeddings.
func (l *lease) relevance(ctx context.Context, query string, documents []document) (scores []float64, total int, err error) {
	tokens, err := inBounds(ctx, l, func(l *lease) ([][]uint32, error) { return l.pairs(query, documents) })
	if err != nil {
		return nil, 0, err
	}
	values, err := l.embed(ctx, tokens, realizar.PoolingRank)
	similar := errors.Is(err, realizar.ErrUnsupported)
	if similar {
		tokens = nil
		for _, document := range append([]document{{query}}, documents...) {
			one, err := l.Tokenize(document.Text, true, false)
			if err != nil {
				return nil, 0, err
			}
			tokens = append(tokens, one)
		}
		values, err = l.embed(ctx, tokens, realizar.PoolingModel)
		if errors.Is(err, realizar.ErrUnsupported) {
			return nil, 0, refuse("model", "the model %q has neither a classifier nor a pooling of its own; rerank needs a reranker or an embedding model", l.name)
		}
	}
	if err != nil {
		return nil, 0, err
	}
	for _, text := range tokens {
		total += len(text)
	}
	scores = make([]float64, len(documents))
	for i := range scores {
		switch {
		case similar:
			for j, x := range values[1+i] {
				scores[i] += float64(x) * float64(values[0][j])
			}
		case len(values[i]) == 1:
			scores[i] = 1 / (1 + math.Exp(-float64(values[i][0])))
		default: // the first of several, such as "yes"
			scores[i] = float64(values[i][0])
		}
	}
	return scores, total, nil
}

// pairs returns a query with each document in the reranker's format: by the file's template, or joined by the model's
// separator. The separator "</s>" is written twice.
func (l *lease) pairs(query string, documents []document) (tokens [][]uint32, err error) {
	template, err := l.Meta("tokenizer.chat_template.rerank")
	if err == nil {
		for _, document := range documents {
			text, err := l.promptTokens(prompt{text: strings.NewReplacer("{query}", query, "{document}", document.Text).Replace(template)})
			if err != nil {
				return nil, err
			}
			tokens = append(tokens, text)
		}
		return tokens, nil
	}
	head, err := l.Tokenize(query, true, false)
	if err != nil {
		return nil, err
	}
	around, err := l.Tokenize("", true, false)
	if err != nil {
		return nil, err
	}
	begins := 0
	if len(around) > 0 && len(head) > 0 && around[0] == head[0] && around[0] == l.info.BOS {
		begins = 1
	}
	if ends, err := l.Detokenize(around[begins:], true); err != nil {
		return nil, err
	} else if ends == "</s>" {
		head = append(head, around[begins:]...)
	}
	for _, document := range documents {
		tail, err := l.Tokenize(document.Text, true, false)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, append(head[:len(head):len(head)], tail[begins:]...))
	}
	return tokens, nil
}
