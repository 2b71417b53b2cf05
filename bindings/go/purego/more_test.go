package realizar

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func fresh(t *testing.T, model *Model, capacity int) *Session {
	t.Helper()
	session, err := model.NewSession(capacity)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func TestJobsFailAloneAndTellProbabilities(t *testing.T) {
	model := load(t)
	nothing := map[uint32]float32{}
	for token := range uint32(512) {
		nothing[token] = float32(math.Inf(-1))
	}
	tokens, err := model.Tokenize(prompt)
	if err != nil {
		t.Fatal(err)
	}
	var jobs []*Job
	for _, options := range []Options{{Sampling: Sampling{LogitBias: nothing}}, {MaxTokens: 6, Logprobs: 2, Draft: DraftLookup}} {
		job, err := fresh(t, model, 64).NewJob(t.Context(), tokens, &options)
		if err != nil || job.Err() != nil {
			t.Fatal(err, job.Err())
		}
		defer job.Close()
		jobs = append(jobs, job)
	}
	for more := true; more; {
		if more, err = StepJobs(jobs, NoLimit); err != nil {
			t.Fatal(err)
		}
	}
	failed, _ := jobs[0].End()
	went, _ := jobs[1].End()
	why := jobs[0].Err()
	if _, err := jobs[0].Step(NoLimit); failed != EndFailed || went != EndLength || why == nil || err == nil || err.Error() != why.Error() {
		t.Error(failed, went, why, err)
	}
	made, _ := jobs[1].Tokens()
	rows, err := jobs[1].Logprobs()
	if err != nil || len(rows) != 6 {
		t.Fatal(rows, err)
	}
	other := fresh(t, model, 64)
	if err := other.Prefill(t.Context(), tokens); err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		likeliest, err := other.Logprobs(2)
		// Greedily the likeliest is the one that is made.
		if err != nil || row.Token != made[i] || !slices.Equal(row.Likeliest, likeliest) || row.Likeliest[0] != row.Logprob {
			t.Error(i, row, likeliest, err)
		}
		if err := other.Prefill(t.Context(), []uint32{row.Token}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADeadlineIsNotCalledACancel(t *testing.T) {
	session := fresh(t, load(t), 8192)
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer stop()
	for _, err := range session.Generate(ctx, strings.Repeat(prompt, 500), nil) {
		if err != nil && (!errors.Is(err, ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "cancel")) {
			t.Error(err)
		}
	}
	if err := session.Prefill(ctx, []uint32{1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestTokenByToken(t *testing.T) {
	model := load(t)
	tokens, err := model.Tokenize(prompt)
	if err != nil {
		t.Fatal(err)
	}
	one, two := fresh(t, model, 64), fresh(t, model, 64)
	for _, session := range []*Session{one, two} {
		if err := session.Prefill(t.Context(), tokens); err != nil || session.Capacity() != 64 {
			t.Fatal(err)
		}
	}
	logits, err := one.Logits()
	best, sampleErr := one.Sample(nil)
	if err != nil || sampleErr != nil || logits[best] != slices.Max(logits) {
		t.Error(best, err, sampleErr)
	}
	sampler, err := NewSampler(Sampling{LogitBias: map[uint32]float32{best: float32(math.Inf(-1))}})
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := model.NewGrammar(GrammarRegex|GrammarWhitespace, "a"); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	grammar, err := model.NewGrammar(GrammarChoices, `["yes"]`)
	if err != nil {
		t.Fatal(err)
	}
	defer grammar.Close()
	if err := sampler.SetGrammar(grammar); err != nil {
		t.Error(err)
	}
	chosen, err := two.Sample(sampler)
	if text, textErr := model.Detokenize([]uint32{chosen}); err != nil || textErr != nil || !strings.HasPrefix("yes", strings.TrimSpace(text)) {
		t.Error(text, err, textErr)
	}
	if err := sampler.SetGrammar(nil); err != nil {
		t.Error(err)
	}
	next, err := DecodeBatch([]*Session{one, two}, []uint32{best, best}, []*Sampler{nil, sampler})
	if err != nil || next[0] != next[1] || one.Len() != 6 {
		t.Error(next, err)
	}
	if err := two.Truncate(5); err != nil {
		t.Error(err)
	}
	if again, err := two.Decode(best, nil); err != nil || again != next[0] {
		t.Error(again, err)
	}
	scored := fresh(t, model, 64)
	if scores, err := scored.Score(t.Context(), tokens); err != nil || scores[0] != 0 || scores[4] >= 0 {
		t.Error(scores, err)
	}

	// A session that was saved goes on as the one it was.
	var state bytes.Buffer
	if err := one.Save(&state); err != nil {
		t.Fatal(err)
	}
	loaded, err := model.LoadSession(bytes.NewReader(state.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	if err := errors.Join(loaded.Release(), loaded.Shift(1, 2), one.Shift(1, 2)); err != nil {
		t.Error(err)
	}
	was, err := one.Decode(7, nil)
	if is, loadedErr := loaded.Decode(7, nil); err != nil || loadedErr != nil || was != is {
		t.Error(was, is, err, loadedErr)
	}
	if held, err := loaded.Tokens(); err != nil || !slices.Equal(held, []uint32{tokens[0], tokens[3], tokens[4], best, 7}) {
		t.Error(held, err)
	}
	if _, err := model.LoadSession(bytes.NewReader(state.Bytes()[:1000])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	state.Bytes()[300]++
	if _, err := model.LoadSession(&state); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}

	stream, err := model.NewTextStream()
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	begin, _ := model.Tokenize("Once upon a")
	if err := stream.Follow(begin); err != nil {
		t.Error(err)
	}
	piece, err := stream.Push(tokens[4])
	if rest, flushErr := stream.Flush(); err != nil || flushErr != nil || piece+rest != " time" {
		t.Error(piece, rest, err, flushErr)
	}
}

func TestAReplyComesInParts(t *testing.T) {
	file, err := os.ReadFile(os.Getenv("REALIZAR_CHAT"))
	if err != nil {
		t.Skip("REALIZAR_CHAT names no model with a template")
	}
	model, err := LoadFrom(t.Context(), map[string][]byte{"chat.gguf": file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	conversation := []byte(`{"messages": [{"role": "user", "content": "Once upon a time"}], "tool_choice": "required", "parallel_tool_calls": false,
		"tools": [{"type": "function", "function": {"name": "go", "parameters": {"type": "object", "properties": {"by": {"enum": ["car", "bus"]}},
		"required": ["by"], "additionalProperties": false}}}]}`)
	grammar, err := model.NewGrammar(GrammarTools, string(conversation))
	if err != nil {
		t.Fatal(err)
	}
	defer grammar.Close()
	session := fresh(t, model, 512)
	var name, arguments string
	var last Part
	for part, err := range session.Reply(t.Context(), conversation, &Options{Grammar: grammar, MaxTokens: 200}) {
		if err != nil {
			t.Fatal(err)
		}
		switch last = part; part.Kind {
		case PartToolName:
			name += part.Text
		case PartToolArguments:
			arguments += part.Text
		}
	}
	var by struct{ By string }
	if err := json.Unmarshal([]byte(arguments), &by); err != nil || name != "go" || by.By != "car" && by.By != "bus" || last != (Part{Kind: PartEnd}) {
		t.Error(err, name, arguments, last)
	}
	answer := ""
	for piece, err := range session.Chat(t.Context(), []Message{{"user", prompt}}, &Options{Stops: []string{" She"}}) {
		if err != nil {
			t.Fatal(err)
		}
		answer += piece
	}
	if answer != ", there was a little girl named Lily." {
		t.Errorf("%q", answer)
	}
	if text, err := model.RenderConversation(conversation); err != nil || !strings.Contains(text, prompt) {
		t.Error(text, err)
	}
}

func TestLoadsAndPlans(t *testing.T) {
	model := load(t)
	folder := t.TempDir()
	for name, text := range map[string]string{
		"config.json": `{"model_type":"llama","magic_norm":true}`, "generation_config.json": `{"temperature":0.5,"top_k":20}`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Load(t.Context(), folder, &LoadOptions{TextOnly: true}); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "magic_norm") {
		t.Error(err)
	}
	unknown, err := Load(t.Context(), folder, &LoadOptions{TextOnly: true, AllowUnknown: true})
	if err != nil {
		t.Fatal(err)
	}
	defer unknown.Close()
	info, err := unknown.Info()
	sampling, adviceErr := unknown.AdvisedSampling()
	if err != nil || adviceErr != nil || info.Unknown != 1 || !sampling.TemperatureFirst || sampling.Temperature != 0.5 || sampling.TopK != 20 {
		t.Error(info, sampling, err, adviceErr)
	}
	if sampling, err := model.AdvisedSampling(); sampling != nil || err != nil {
		t.Error(sampling, err)
	}
	one, err := PlanLoad(t.Context(), storyModel, nil, 1, 256, 0, 0)
	three, err3 := PlanLoad(t.Context(), storyModel, nil, 3, 256, 0, 0)
	if err != nil || err3 != nil || three.TotalHost-one.TotalHost != 2*one.CacheHost || one.CacheHost == 0 {
		t.Error(one, three, err, err3)
	}
	if narrow, err := PlanLoad(t.Context(), storyModel, nil, 1, 256, CacheQ8, CacheQ4); err != nil || narrow.CacheToken >= one.CacheToken {
		t.Error(narrow, err)
	}
	var mu sync.Mutex
	var said []string
	shared, err := NewRuntime(&RuntimeOptions{Threads: 1, Log: func(level LogLevel, message string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, message)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := shared.SetThreads(2); err != nil {
		t.Error(err)
	}
	var last, all uint64
	logged, err := Load(t.Context(), storyModel, &LoadOptions{Runtime: shared, Progress: func(done, total uint64) error {
		last, all = done, total
		return nil
	}})
	if last != all || all == 0 {
		t.Error(last, all)
	}
	sentinel := errors.New("enough")
	if _, err := Load(t.Context(), storyModel, &LoadOptions{Progress: func(uint64, uint64) error { return sentinel }}); err != sentinel {
		t.Error(err)
	}
	if err != nil || len(said) == 0 || !strings.HasPrefix(said[0], "llama, 5 layers") {
		t.Fatal(said, err)
	}
	shared.Close()
	defer logged.Close()
	if devices, err := Devices(); err != nil || devices[0].Kind != CPU || devices[0].Unavailable != "" {
		t.Error(devices, err)
	}
	if key, err := model.Meta("general.architecture"); err != nil || key != "llama" {
		t.Error(key, err)
	}
	if keys, err := model.MetaKeys(); err != nil || !slices.Contains(keys, "general.architecture") {
		t.Error(keys, err)
	}
	if _, err := model.MetaList("none"); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	if bytes, err := model.TokenBytes(1); err != nil || string(bytes) != "<s>" || model.IsEnd(1) {
		t.Error(bytes, err)
	}
	if tokens, err := model.TokenizeSpecial("<s>"); err != nil || !slices.Equal(tokens, []uint32{1}) {
		t.Error(tokens, err)
	}
	if text, err := model.DetokenizeSpecial([]uint32{1}); err != nil || text != "<s>" {
		t.Error(text, err)
	}
	if each, err := model.Embed(t.Context(), [][]uint32{{1, 7}, {1}}, PoolingNone, false); err != nil || len(each) != 3 {
		t.Error(each, err)
	}
	cpu, err := model.DeviceMetrics(CPU)
	metrics, metricsErr := model.Metrics()
	if err != nil || metricsErr != nil || cpu.Dispatches == 0 || metrics.Load.Count != 1 {
		t.Error(cpu, metrics, err, metricsErr)
	}
	if err := model.ResetMetrics(); err != nil {
		t.Error(err)
	}
	session, err := model.NewSessionOf(64, CacheF32, CacheF32)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	adapter, err := model.LoadAdapter("../../../tests/data/story-adapter.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer adapter.Close()
	text := func() (all string) {
		for piece, err := range session.Generate(t.Context(), prompt, &Options{MaxTokens: 30}) {
			if err != nil {
				t.Fatal(err)
			}
			all += piece
		}
		return all
	}
	if err := session.SetAdapters(ScaledAdapter{adapter, 1}); err != nil {
		t.Error(err)
	}
	if adapted := text(); !strings.HasPrefix(adapted, ", there was a little girl named Lily. She loved to draw") {
		t.Error(adapted)
	}
	if err := session.SetAdapters(); err != nil {
		t.Error(err)
	}
	if plain := text(); !strings.HasPrefix(story, plain) {
		t.Error(plain)
	}
}
