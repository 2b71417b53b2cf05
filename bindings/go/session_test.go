// The tests of sessions.
package realizar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	prompt = "Once upon a time"
	// The greedy continuation as an independent float64 implementation computes it.
	story = ", there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red " +
		"ball. She wanted to play with it, but it was too high.\nLily's mom said, \"Lily, let's go to the park.\""
)

func load(t *testing.T, path string) *Model {
	t.Helper()
	model, err := Load(t.Context(), path, &LoadOptions{Threads: 2})
	must(t, err)
	t.Cleanup(func() { model.Close() })
	return model
}

func newSession(t *testing.T, model *Model, capacity int) *Session {
	t.Helper()
	session, err := model.NewSession(&SessionOptions{Capacity: capacity})
	must(t, err)
	t.Cleanup(func() { session.Close() })
	return session
}

// generate continues a text, of which the session keeps what it holds.
func generate(t *testing.T, session *Session, prompt string, options *JobOptions) (text string) {
	t.Helper()
	tokens := tokensOf(t, session, prompt)
	held, err := session.Match(tokens)
	must(t, err)
	held = min(held, len(tokens)-1)
	must(t, session.Truncate(held))
	return written(t, session, tokens[held:], options)
}

// written is the text that follows tokens.
func written(t *testing.T, session *Session, tokens []uint32, options *JobOptions) (text string) {
	t.Helper()
	job, err := session.NewJob(t.Context(), tokens, options)
	must(t, err)
	defer job.Close()
	for piece, err := range job.Stream() {
		must(t, err)
		text += piece
	}
	return text
}

func TestGreedyStory(t *testing.T) {
	session := newSession(t, load(t, storyModel), 0)
	if text := generate(t, session, prompt, &JobOptions{MaxTokens: 100}); !strings.HasPrefix(text, story) {
		t.Errorf("got %q", text)
	}
}

func TestDevices(t *testing.T) {
	model, err := Load(t.Context(), storyModel, &LoadOptions{Devices: []uint32{1}})
	must(t, err)
	defer model.Close()
	if info, err := model.Info(); err != nil || info.Device != 1 || len(info.Devices)+len(info.DeviceLayers) != 0 {
		t.Fatal(info, err)
	}
	for _, options := range []LoadOptions{
		{Devices: []uint32{1, 1}}, {Devices: []uint32{1}, Device: 1}, {Devices: []uint32{1}, Shares: []float32{-1}},
		{Devices: []uint32{1}, Shares: []float32{1, 1}}, {Shares: []float32{1}},
	} {
		if _, err := Load(t.Context(), storyModel, &options); !errors.Is(err, ErrInvalidArgument) {
			t.Error(options, err)
		}
	}
}

func TestPackedPath(t *testing.T) {
	packed := filepath.Join(t.TempDir(), "weights")
	for range 2 {
		model, err := Load(t.Context(), storyModel, &LoadOptions{PackedPath: packed})
		must(t, err)
		if text := generate(t, newSession(t, model, 0), prompt, &JobOptions{MaxTokens: 30}); !strings.HasPrefix(story, text) {
			t.Errorf("got %q", text)
		}
		model.Close()
	}
	if _, err := os.Stat(packed); err != nil {
		t.Error(err)
	}
}

func TestInfoAndText(t *testing.T) {
	model := load(t, storyModel)
	info, err := model.Info()
	if err != nil || info.Architecture != "llama" || info.NLayers != 5 || info.NHeads != 8 || info.NKVHeads != 4 ||
		info.HeadDim != 8 || info.VocabSize != 512 || info.BOS != 1 {
		t.Errorf("%+v %v", info, err)
	}
	if info.Capabilities != CanGenerate || info.EmbeddingDim != 64 || info.Pooling != PoolingModel || info.NScores != 0 {
		t.Errorf("%+v", info)
	}
	if chat, err := load(t, chatModel(t, plainTemplate)).Info(); err != nil || chat.Capabilities != CanGenerate|CanSystem|CanTools {
		t.Errorf("%+v %v", chat, err)
	}
	if architecture, err := model.Meta("general.architecture"); err != nil || architecture != "llama" {
		t.Errorf("%q %v", architecture, err)
	}
	if _, err := model.Meta("none"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	tokens, err := model.Tokenize("A day at the park, naïve.", true, false)
	must(t, err)
	if text, err := model.Detokenize(tokens, false); err != nil || strings.TrimSpace(text) != "A day at the park, naïve." {
		t.Errorf("%q %v", text, err)
	}
	if _, err := model.RenderChat(&Transcript{Messages: []any{Message{"user", "x"}}}); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	_, err := Load(t.Context(), "no such file.gguf", nil)
	var e *Error
	if !errors.As(err, &e) || e.Code != ErrIO || !errors.Is(err, ErrIO) || !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "no such file.gguf") {
		t.Error(err)
	}
	if name := ErrFormat.Error(); name != "RZ_ERR_FORMAT" {
		t.Error(name)
	}

	model := load(t, storyModel)
	session := newSession(t, model, 16)
	if _, err := session.NewJob(t.Context(), make([]uint32, 17), nil); !errors.Is(err, ErrContextFull) {
		t.Error(err)
	}
	// A full session ends the text.
	if text := generate(t, session, prompt, nil); text == "" || !strings.HasPrefix(story, text) {
		t.Errorf("%q", text)
	}
	session.Close()
	session.Close()
	if _, err := session.Fork(); err != ErrClosed {
		t.Error(err)
	}
	other := newSession(t, model, 0)
	tokens := tokensOf(t, other, prompt)
	model.Close()
	if _, err := model.Info(); err != ErrClosed {
		t.Error(err)
	}
	if _, err := model.NewSession(nil); err != ErrClosed {
		t.Error(err)
	}
	// A session goes on without its model.
	if text := written(t, other, tokens, &JobOptions{MaxTokens: 100}); !strings.HasPrefix(text, story) {
		t.Errorf("got %q", text)
	}
}

func TestSampling(t *testing.T) {
	session := newSession(t, load(t, storyModel), 0)
	text := func(seed uint64) string {
		sampler, err := NewSampler(Sampling{Temperature: 1, TopP: 0.95, Seed: seed, LogitBias: map[uint32]float32{3: -1}})
		must(t, err)
		defer sampler.Close()
		return generate(t, session, prompt, &JobOptions{MaxTokens: 60, Sampler: sampler})
	}
	one, again, two := text(1), text(1), text(2)
	if one != again || one == two {
		t.Errorf("%q\n%q\n%q", one, again, two)
	}
}

func TestConcurrentSessions(t *testing.T) {
	model := load(t, storyModel)
	base := newSession(t, model, 0)
	generate(t, base, prompt, &JobOptions{MaxTokens: 1})
	var group sync.WaitGroup
	for range 8 {
		session, err := base.Fork()
		must(t, err)
		group.Add(1)
		go func() {
			defer group.Done()
			defer session.Close()
			for range 3 {
				if text := generate(t, session, prompt, &JobOptions{MaxTokens: 100}); !strings.HasPrefix(text, story) {
					t.Errorf("got %q", text)
				}
			}
		}()
	}
	group.Wait()
}

func TestNULIsRefused(t *testing.T) {
	model := load(t, storyModel)
	if _, err := Load(t.Context(), storyModel+"\x00", nil); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := model.Meta("general.architecture\x00"); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	// Plain text has a length, so a NUL in it is a character like any other.
	tokens, err := model.Tokenize("a\x00b", true, false)
	must(t, err)
	if text, err := model.Detokenize(tokens, false); err != nil || text != "a\x00b" {
		t.Errorf("%q %v", text, err)
	}
}

func TestTokenByToken(t *testing.T) {
	model := load(t, storyModel)
	tokens, err := model.Tokenize(prompt, true, false)
	must(t, err)
	one, two := newSession(t, model, 64), newSession(t, model, 64)
	for _, session := range []*Session{one, two} {
		if err := session.Prefill(t.Context(), tokens); err != nil || session.Len() != 5 {
			t.Fatal(err)
		}
	}
	logits, err := one.Logits()
	if err != nil || len(logits) != 512 {
		t.Fatal(err)
	}
	best, err := one.Sample(nil)
	if err != nil || logits[best] != slices.Max(logits) {
		t.Error(best, err)
	}
	sampler, err := NewSampler(Sampling{LogitBias: map[uint32]float32{best: float32(math.Inf(-1))}})
	must(t, err)
	defer sampler.Close()
	if other, err := two.Sample(sampler); err != nil || other == best {
		t.Error(other, err)
	}
	for _, before := range []uint32{tokens[len(tokens)-1], best} {
		banned, err := NewSampler(Sampling{
			BannedSequences: [][]uint32{{1, 2, 3}, {before, best}}, DRYBreakers: [][]uint32{{13}}, Order: []Filter{FilterTemperature, FilterXTC},
		})
		if err != nil {
			t.Fatal(err)
		}
		if other, err := two.Sample(banned); err != nil || (other == best) != (before == best) {
			t.Error(other, err)
		}
		banned.Close()
	}
	if _, err := NewSampler(Sampling{Temperature: 0.7, Order: []Filter{FilterTopP}}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	next, err := DecodeBatch([]*Session{one, two}, []uint32{best, best}, []*Sampler{nil, nil})
	if err != nil || next[0] != next[1] || one.Len() != 6 {
		t.Error(next, err)
	}
	must(t, two.Truncate(5))
	if again, err := two.Decode(best, nil); err != nil || again != next[0] {
		t.Error(again, err)
	}
	if _, err := DecodeBatch([]*Session{one, one}, next, nil); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	if info, _ := model.Info(); !model.IsEnd(info.EOS) || model.IsEnd(best) {
		t.Error(info.EOS, best)
	}
	if bytes, err := model.TokenBytes(1); err != nil || string(bytes) != "<s>" {
		t.Errorf("%q %v", bytes, err)
	}
	if keys, err := model.MetaKeys(); err != nil || !slices.Contains(keys, "general.architecture") {
		t.Error(keys, err)
	}
	metrics, err := model.Metrics()
	if err != nil || metrics.Prefill.Count != 2 || metrics.Load.Count != 1 {
		t.Errorf("%+v %v", metrics, err)
	}
	if cpu, err := model.DeviceMetrics(CPU); err != nil || cpu.Dispatches == 0 || cpu.LatencyMax < cpu.LatencyMin {
		t.Errorf("%+v %v", cpu, err)
	}
}

func TestTheCollectorFreesWhatIsLeft(t *testing.T) {
	for range 20 {
		model, err := Load(t.Context(), storyModel, &LoadOptions{TextOnly: true})
		must(t, err)
		if tokens, err := model.Tokenize(prompt, true, false); err != nil || len(tokens) != 5 {
			t.Errorf("%v %v", tokens, err)
		}
		runtime.GC()
	}
}

func TestEmbed(t *testing.T) {
	model := load(t, storyModel)
	texts := [][]uint32{{1, 7, 9}, {1}}
	if _, err := model.EmbedTokens(t.Context(), texts, nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a model without a pooling: %v", err)
	}
	if _, err := model.EmbedTokens(t.Context(), [][]uint32{{1}, {}}, &EmbedOptions{Pooling: PoolingMean}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("an empty text: %v", err)
	}
	together, err := model.EmbedTokens(t.Context(), texts, &EmbedOptions{Pooling: PoolingMean})
	if err != nil || len(together) != 2 {
		t.Fatal(together, err)
	}
	alone, err := model.EmbedTokens(t.Context(), texts[1:], &EmbedOptions{Pooling: PoolingMean})
	if err != nil || !slices.Equal(alone[0], together[1]) {
		t.Error(alone, err)
	}
	var length float64
	for _, x := range together[0] {
		length += float64(x) * float64(x)
	}
	if math.Abs(length-1) > 1e-5 {
		t.Error(length)
	}
	if each, err := model.EmbedTokens(t.Context(), texts, &EmbedOptions{Pooling: PoolingNone}); err != nil || len(each) != 4 {
		t.Error(len(each), err)
	}
}

func TestGrammar(t *testing.T) {
	model := load(t, storyModel)
	grammar, err := model.NewGrammar(GrammarChoices, `[" red", " blue"]`, 0)
	must(t, err)
	sampler, err := NewSampler(Sampling{})
	must(t, err)
	defer sampler.Close()
	must(t, sampler.SetGrammar(grammar))
	must(t, grammar.Close())
	session := newSession(t, model, 64)
	tokens, err := model.Tokenize(prompt, true, false)
	must(t, err)
	must(t, session.Prefill(t.Context(), tokens))
	var written []uint32
	token, err := session.Sample(sampler)
	info, _ := model.Info()
	for err == nil && token != info.EOS {
		written = append(written, token)
		token, err = session.Decode(token, sampler)
	}
	must(t, err)
	if text, err := model.Detokenize(append(tokens, written...), false); err != nil || text != prompt+" red" && text != prompt+" blue" {
		t.Errorf("%q %v", text, err)
	}
	must(t, sampler.SetGrammar(nil))
	if err := sampler.SetGrammar(grammar); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := model.NewGrammar(GrammarJSON, "", GrammarWhitespace); err != nil {
		t.Error(err)
	}
	if _, err := model.NewGrammar(GrammarRegex, "a", GrammarWhitespace); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := model.NewGrammar(GrammarRegex, "(", 0); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := model.NewGrammar(GrammarRegex, strings.Repeat("a", 300_000), 0); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
}

func TestAdapters(t *testing.T) {
	model := load(t, storyModel)
	adapter, err := model.LoadAdapter(filepath.Dir(storyModel) + "/story-adapter.gguf")
	must(t, err)
	session := newSession(t, model, 128)
	const length = 100
	text := func(adapters ...ScaledAdapter) string {
		must(t, session.SetAdapters(adapters...))
		text := generate(t, session, prompt, &JobOptions{MaxTokens: length})
		return text
	}
	plain := text()
	changed := text(ScaledAdapter{adapter, 1})
	if !strings.HasPrefix(story, plain[:40]) || !strings.HasPrefix(changed, adaptedStory) {
		t.Errorf("%q and %q", plain, changed)
	}
	if again := text(ScaledAdapter{adapter, 1}, ScaledAdapter{adapter, -1}); again != plain {
		t.Errorf("%q", again)
	}
	if err := session.SetAdapters(ScaledAdapter{adapter, float32(math.NaN())}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	if err := session.SetAdapters(ScaledAdapter{adapter, 1}); err != nil || session.Len() != 0 {
		t.Error(session.Len(), err)
	}
	must(t, adapter.Close())
	if again := generate(t, session, prompt, &JobOptions{MaxTokens: length}); again != changed {
		t.Errorf("%q, an adapter is gone", again)
	}
	if err := session.SetAdapters(ScaledAdapter{adapter, 1}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := model.LoadAdapter(storyModel); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

func TestSavedSessionGoesOn(t *testing.T) {
	model := load(t, storyModel)
	session := newSession(t, model, 64)
	tokens, err := model.Tokenize(prompt, true, false)
	must(t, err)
	must(t, session.Prefill(t.Context(), tokens))
	var state bytes.Buffer
	must(t, session.Save(&state))
	loaded, err := load(t, storyModel).LoadSession(bytes.NewReader(state.Bytes()), nil)
	must(t, err)
	defer loaded.Close()
	same := func(a, b *Session) {
		t.Helper()
		next, err := a.Decode(7, nil)
		other, otherErr := b.Decode(7, nil)
		if err != nil || otherErr != nil || next != other {
			t.Errorf("%d %v, %d %v", next, err, other, otherErr)
		}
	}
	same(loaded, session)
	if common, err := loaded.Match(append(slices.Clone(tokens), 9)); err != nil || common != len(tokens) {
		t.Error(common, err)
	}
	must(t, errors.Join(loaded.Release(), loaded.Shift(1, 2), session.Shift(1, 2)))
	same(loaded, session)
	if now, err := loaded.Tokens(); err != nil || !slices.Equal(now, append([]uint32{tokens[0]}, tokens[3], tokens[4], 7, 7)) {
		t.Error(now, err)
	}
	// What a reader or writer says is the error.
	if _, err := model.LoadSession(bytes.NewReader(state.Bytes()[:1000]), nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if err := session.Save(failingWriter{}); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	state.Bytes()[300]++
	if _, err := model.LoadSession(&state, nil); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

func TestScores(t *testing.T) {
	model := load(t, storyModel)
	session := newSession(t, model, 64)
	tokens, err := model.Tokenize(prompt, true, false)
	must(t, err)
	scores, err := session.Score(t.Context(), tokens[:4])
	if err != nil || len(scores) != 4 || scores[0] != 0 || scores[3] >= 0 {
		t.Fatal(scores, err)
	}
	likeliest, err := session.Logprobs(1000)
	if err != nil || len(likeliest) != 512 {
		t.Fatal(len(likeliest), err)
	}
	sum := 0.0
	for _, l := range likeliest {
		sum += math.Exp(float64(l.Logprob))
	}
	if math.Abs(sum-1) > 1e-4 {
		t.Error(sum)
	}
	last, err := session.Score(t.Context(), tokens[4:])
	for _, l := range likeliest {
		if err == nil && l.Token == tokens[4] && l.Logprob != last[0] {
			t.Error(l, last)
		}
	}
}

func TestUnknownKeysAndWhatTheMakersAdvise(t *testing.T) {
	if sampling, err := load(t, storyModel).AdvisedSampling(); sampling != nil || err != nil {
		t.Error(sampling, err)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"config.json": `{"model_type":"llama","magic_norm":true}`, "generation_config.json": `{"temperature":0.5,"top_k":20}`,
	} {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	if _, err := Load(t.Context(), folder, &LoadOptions{TextOnly: true}); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "magic_norm") {
		t.Error(err)
	}
	model, err := Load(t.Context(), folder, &LoadOptions{TextOnly: true, AllowUnknown: true})
	must(t, err)
	defer model.Close()
	if info, err := model.Info(); err != nil || info.Unknown != 1 {
		t.Error(info, err)
	}
	if sampling, err := model.AdvisedSampling(); err != nil || sampling.Temperature != 0.5 || sampling.TopK != 20 || sampling.TopP != 0 || !sampling.TemperatureFirst {
		t.Error(sampling, err)
	}
	if _, err := model.MetaList("none"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestPlans(t *testing.T) {
	one, err := PlanLoad(t.Context(), storyModel, nil, &SessionOptions{Capacity: 256}, 1)
	must(t, err)
	three, err := PlanLoad(t.Context(), storyModel, nil, &SessionOptions{Capacity: 256}, 3)
	if err != nil || three.TotalHost-one.TotalHost != 2*one.CacheHost || one.CacheHost == 0 {
		t.Error(one, three, err)
	}
	narrow, err := PlanLoad(t.Context(), storyModel, nil, &SessionOptions{Capacity: 256, KType: CacheQ8_0, VType: CacheQ4_0}, 1)
	if err != nil || narrow.CacheToken >= one.CacheToken {
		t.Error(narrow.CacheToken, one.CacheToken, err)
	}
	if info, err := load(t, storyModel).Info(); err != nil || info.WeightBytes != one.WeightsHost {
		t.Error(info, one, err)
	}
	if _, err := PlanLoad(t.Context(), "none.gguf", nil, nil, 1); !errors.Is(err, ErrIO) {
		t.Error(err)
	}
}

func TestElementTypes(t *testing.T) {
	for _, kind := range []ElementType{TypeDefault, TypeF32, TypeF16, TypeBF16, TypeQ4_0, TypeQ4_1, TypeQ5_0, TypeQ5_1, TypeQ8_0, TypeQ4_K, TypeQ5_K, TypeQ6_K} {
		model, err := Load(t.Context(), storyModel, &LoadOptions{Quantize: kind})
		must(t, err)
		model.Close()
	}
	if _, err := Load(t.Context(), storyModel, &LoadOptions{Quantize: 19}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	model := load(t, storyModel)
	for _, kind := range []CacheType{CacheDefault, CacheF16, CacheQ8_0, CacheF32} {
		session, err := model.NewSession(&SessionOptions{Capacity: 64, KType: kind, VType: kind})
		if err != nil {
			t.Fatal(kind, err)
		}
		if text := generate(t, session, prompt, &JobOptions{MaxTokens: 8}); !strings.HasPrefix(story, text) || session.Capacity() != 64 {
			t.Errorf("%d %q", kind, text)
		}
		session.Close()
	}
	if session, err := model.NewSession(&SessionOptions{VType: CacheQ4_0}); err != nil || session.Close() != nil {
		t.Error(err)
	}
	if _, err := model.NewSession(&SessionOptions{KType: 99}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestProgress(t *testing.T) {
	var last, all uint64
	model, err := Load(t.Context(), storyModel, &LoadOptions{Progress: func(done, total uint64) error {
		last, all = done, total
		return nil
	}})
	if err != nil || last != all || all == 0 {
		t.Fatal(last, all, err)
	}
	model.Close()
	sentinel := errors.New("enough")
	if _, err := Load(t.Context(), storyModel, &LoadOptions{Progress: func(uint64, uint64) error { return sentinel }}); err != sentinel {
		t.Error(err)
	}
}

func TestTextStream(t *testing.T) {
	model := load(t, storyModel)
	stream, err := model.NewTextStream()
	must(t, err)
	const text = "größe €"
	tokens, err := model.Tokenize(text, true, false)
	must(t, err)
	written := func(tokens ...uint32) (all string) {
		for _, token := range tokens {
			piece, err := stream.Push(token)
			must(t, err)
			all += piece
		}
		rest, err := stream.Flush()
		must(t, err)
		return all + rest
	}
	if all := written(tokens...); all != text {
		t.Errorf("%q", all)
	}
	whole, _ := model.Tokenize("Once upon a time", true, false)
	begin, _ := model.Tokenize("Once upon a", true, false)
	if alone := written(whole[len(whole)-1]); alone != "time" {
		t.Errorf("%q", alone)
	}
	// Behind a prompt the space of a word stays.
	must(t, stream.Follow(begin))
	if behind := written(whole[len(whole)-1]); behind != " time" {
		t.Errorf("%q", behind)
	}
	if err := stream.Follow([]uint32{512}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	stream.Close()
	if _, err := stream.Push(1); err != ErrClosed {
		t.Error(err)
	}
}

func TestNumbersOutOfRangeAreRefused(t *testing.T) {
	model := load(t, storyModel)
	session, err := model.NewSession(&SessionOptions{Capacity: 16})
	must(t, err)
	defer session.Close()
	tokens, err := model.Tokenize(prompt, true, false)
	must(t, err)
	made, err := model.NewPrompt([]PromptPart{{Tokens: tokens}}, false)
	must(t, err)
	job := func(options JobOptions) error {
		_, err := session.NewJob(t.Context(), tokens, &options)
		return err
	}
	sampler := func(sampling Sampling) error {
		_, err := NewSampler(sampling)
		return err
	}
	for _, n := range []int{-1, 1 << 32, math.MinInt, math.MaxInt} {
		for name, call := range map[string]func() error{
			"MaxTokens":         func() error { return job(JobOptions{MaxTokens: n}) },
			"DraftMax":          func() error { return job(JobOptions{DraftMax: n}) },
			"PromptFirst":       func() error { return job(JobOptions{PromptFirst: n}) },
			"TopK":              func() error { return sampler(Sampling{TopK: n}) },
			"PenaltyWindow":     func() error { return sampler(Sampling{PenaltyWindow: n}) },
			"DRYWindow":         func() error { return sampler(Sampling{DRYWindow: n}) },
			"NoRepeatNgramSize": func() error { return sampler(Sampling{NoRepeatNgramSize: n}) },
			"Capacity":          func() error { _, err := model.NewSession(&SessionOptions{Capacity: n}); return err },
			"Threads":           func() error { _, err := NewRuntime(&RuntimeOptions{Threads: n}); return err },
			"Layers": func() error {
				_, err := Load(t.Context(), storyModel, &LoadOptions{Placements: []Placement{{Layers: n}}})
				return err
			},
			"sessions":   func() error { _, err := PlanLoad(t.Context(), storyModel, nil, nil, n); return err },
			"MinTokens":  func() error { _, err := model.NewStore(&StoreOptions{MinTokens: n}); return err },
			"MaxEntries": func() error { _, err := model.NewStore(&StoreOptions{MaxEntries: n}); return err },
			"n":          func() error { return session.Truncate(n) },
			"drop":       func() error { return session.Shift(0, n) },
			"k":          func() error { _, err := session.Logprobs(n); return err },
			"first":      func() error { return session.PrefillPrompt(t.Context(), made, n) },
			"columns":    func() error { _, err := model.MediaFromRows(Image, []float32{0}, 1, n, 0); return err },
		} {
			err := call()
			if want := fmt.Sprintf("realizar: %s is %d; it must be a whole number from 0 to 4294967295", name, n); !errors.Is(err, ErrInvalidArgument) || err.Error() != want {
				t.Errorf("%s of %d: %v", name, n, err)
			}
		}
	}
}

func TestTokenizeAsTheOtherBindings(t *testing.T) {
	model := load(t, storyModel)
	for _, c := range []struct {
		special, parse bool
		want           []uint32
	}{{true, false, []uint32{1}}, {false, false, nil}} {
		if tokens, err := model.Tokenize("", c.special, c.parse); err != nil || !slices.Equal(tokens, c.want) {
			t.Errorf("%+v: %v %v", c, tokens, err)
		}
	}
	if tokens, err := model.Tokenize("<s>", false, true); err != nil || !slices.Equal(tokens, []uint32{1}) {
		t.Errorf("a name of a token: %v %v", tokens, err)
	}
	if tokens, err := model.Tokenize("<s>", false, false); err != nil || len(tokens) < 2 {
		t.Errorf("a text like the name of a token: %v %v", tokens, err)
	}
	tokens, err := model.Tokenize(prompt, true, false)
	must(t, err)
	options := &EmbedOptions{Pooling: PoolingMean}
	want, err := model.EmbedTokens(t.Context(), [][]uint32{tokens}, options)
	must(t, err)
	if got, err := model.Embed(t.Context(), []string{prompt}, options); err != nil || !slices.Equal(got[0], want[0]) {
		t.Errorf("a text: %v", err)
	}
}
