package realizar

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	storyModel = "../../../tests/data/stories260K-f32.gguf"
	prompt     = "Once upon a time"
	// The greedy continuation as an independent float64 implementation computes it.
	story = ", there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red " +
		"ball. She wanted to play with it, but it was too high.\nLily's mom said, \"Lily, let's go to the park.\""
)

// TestMain opens the library of the variable REALIZAR_LIBRARY, and as a child of TestOpenNamesTheFile prints the error of that.
func TestMain(m *testing.M) {
	path := os.Getenv("REALIZAR_LIBRARY")
	err := Open(path)
	if os.Getenv("REALIZAR_CHILD") != "" {
		fmt.Println(err)
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestOpenNamesTheFile(t *testing.T) {
	noLibrary := t.TempDir() + "/librealizar.so"
	if err := os.WriteFile(noLibrary, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, why := range map[string]string{
		"/none/librealizar.so":        "the library /none/librealizar.so cannot be loaded: ",
		noLibrary:                     "the library " + noLibrary + " cannot be loaded: ",
		os.Getenv("REALIZAR_FOREIGN"): "has no function rz_abi_version",
		os.Getenv("REALIZAR_OTHER"):   "has the interface 99, 1 is needed",
	} {
		if path == "" {
			continue
		}
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "REALIZAR_CHILD=1", "REALIZAR_LIBRARY="+path)
		out, err := child.Output()
		if err != nil || !strings.Contains(string(out), why) || !strings.Contains(string(out), path) {
			t.Errorf("%s: %s %v", path, out, err)
		}
	}
	if err := Open("/none/librealizar.so"); err == nil || Open("") != nil {
		t.Error("a second library", err)
	}
	if version, err := Version(); err != nil || version == "" {
		t.Error(version, err)
	}
}

func load(t *testing.T) *Model {
	t.Helper()
	model, err := Load(t.Context(), storyModel, &LoadOptions{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	return model
}

func newSession(t *testing.T, model *Model, capacity int) *Session {
	t.Helper()
	session, err := model.NewSession(capacity)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func generate(t *testing.T, session *Session, options *Options) (text string) {
	t.Helper()
	for piece, err := range session.Generate(t.Context(), prompt, options) {
		if err != nil {
			t.Error(err)
		}
		text += piece
	}
	return text
}

func TestStory(t *testing.T) {
	model := load(t)
	info, err := model.Info()
	if err != nil || info.Architecture != "llama" || info.NLayers != 5 || info.HasTemplate {
		t.Errorf("%+v %v", info, err)
	}
	session := newSession(t, model, 0)
	if text := generate(t, session, &Options{MaxTokens: 100}); !strings.HasPrefix(text, story) {
		t.Errorf("%q", text)
	}
	if text := generate(t, session, &Options{MaxTokens: 100, Stops: []string{" She"}}); !strings.HasPrefix(story, text+" She") {
		t.Errorf("%q", text)
	}
	if fork, err := session.Fork(); err != nil || fork.Len() != session.Len() {
		t.Error(err)
	}
	tokens, err := model.Tokenize(prompt)
	if text, e := model.Detokenize(tokens); err != nil || e != nil || text != prompt {
		t.Error(text, err, e)
	}
	seeded := &Options{Sampling: Sampling{Temperature: 1, Seed: 7, LogitBias: map[uint32]float32{3: float32(math.Inf(-1))}}, MaxTokens: 30}
	if one, two := generate(t, session, seeded), generate(t, newSession(t, model, 0), seeded); one != two || one == "" {
		t.Errorf("%q %q", one, two)
	}
}

func TestErrors(t *testing.T) {
	_, err := Load(t.Context(), "no such file.gguf", nil)
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, ErrIO) || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no such file.gguf") {
		t.Error(err)
	}
	if name := ErrFormat.Error(); name != "RZ_ERR_FORMAT" || ErrPoisoned.Error() != "RZ_ERR_POISONED" {
		t.Error(name)
	}
	if _, err := Load(t.Context(), storyModel+"\x00", nil); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	model := load(t)
	if _, err := model.TokenizeChat([]Message{{"user", "x"}}); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	if _, err := model.TokenizeChat([]Message{{"user", "\xff"}}); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	session := newSession(t, model, 16)
	job, err := session.NewJob(t.Context(), []uint32{1, 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Fork(); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	job.Close()
	job.Close()
	if _, err := job.Step(0); err != ErrClosed {
		t.Error(err)
	}
	if text := generate(t, session, nil); text == "" || !strings.HasPrefix(story, text) {
		t.Errorf("%q", text) // ends because the session is full
	}
	session.Close()
	if _, err := session.Fork(); err != ErrClosed {
		t.Error(err)
	}
}

func TestContextsEndCalls(t *testing.T) {
	model := load(t)
	session := newSession(t, model, 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pieces, last := 0, error(nil)
	for _, err := range session.Generate(ctx, prompt, nil) {
		if pieces++; pieces == 5 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, ErrCancelled) || !errors.Is(last, context.Canceled) || pieces != 6 {
		t.Error(pieces, last)
	}
	late, stop := context.WithTimeout(t.Context(), time.Nanosecond)
	defer stop()
	<-late.Done()
	if _, err := session.NewJob(late, []uint32{1}, nil); !errors.Is(err, ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := Load(ctx, storyModel, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// Everything may be closed within the loop; what runs goes on.
	text := ""
	for piece, err := range session.Generate(t.Context(), prompt, &Options{MaxTokens: 60}) {
		if err != nil {
			t.Error(err)
		}
		text += piece
		session.Close()
		model.Close()
	}
	if !strings.HasPrefix(story, text) || len(text) < 60 {
		t.Errorf("%q", text)
	}
}

func TestJobsGrammarsAndEmbeddings(t *testing.T) {
	model := load(t)
	tokens, err := model.Tokenize(prompt)
	if err != nil {
		t.Fatal(err)
	}
	grammar, err := model.NewGrammar(GrammarChoices, `[" red", " blue"]`)
	if err != nil {
		t.Fatal(err)
	}
	defer grammar.Close()
	if _, err := model.NewGrammar(GrammarRegex, "("); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	var jobs []*Job
	for _, options := range []*Options{{MaxTokens: 20}, {Grammar: grammar}} {
		job, err := newSession(t, model, 64).NewJob(t.Context(), tokens, options)
		if err != nil {
			t.Fatal(err)
		}
		defer job.Close()
		jobs = append(jobs, job)
	}
	for more, budget := true, -time.Second; more; budget = 200 * time.Microsecond {
		if more, err = StepJobs(jobs, budget); err != nil {
			t.Fatal(err)
		}
	}
	for _, budget := range []time.Duration{-1, 0, NoLimit} {
		if more, err := StepJobs(nil, budget); more || err != nil {
			t.Error(more, err)
		}
	}
	if text, err := jobs[0].Text(); err != nil || !strings.HasPrefix(story, text) || text == "" {
		t.Errorf("%q %v", text, err)
	}
	if text, err := jobs[1].Text(); err != nil || strings.TrimSpace(text) != "red" && strings.TrimSpace(text) != "blue" {
		t.Errorf("%q %v", text, err)
	}
	ends := []EndReason{EndLength, EndGrammar}
	for i, job := range jobs {
		if end, err := job.End(); err != nil || end != ends[i] && end != EndToken {
			t.Error(i, end, err)
		}
	}
	if made, err := jobs[0].Tokens(); err != nil || len(made) != 20 {
		t.Error(made, err)
	}
	vectors, err := model.Embed(t.Context(), [][]uint32{tokens, {1}}, PoolingMean, true)
	if err != nil || len(vectors) != 2 {
		t.Fatal(err)
	}
	sum := 0.0
	for _, v := range vectors[0] {
		sum += float64(v) * float64(v)
	}
	if math.Abs(sum-1) > 1e-5 {
		t.Error(sum)
	}
}

func TestConcurrentSessions(t *testing.T) {
	model := load(t)
	var all sync.WaitGroup
	for range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			session, err := model.NewSession(0)
			if err != nil {
				t.Error(err)
				return
			}
			defer session.Close()
			if text := generate(t, session, &Options{MaxTokens: 60}); !strings.HasPrefix(story, text) {
				t.Errorf("%q", text)
			}
		}()
	}
	all.Wait()
}

func TestChatOfARealModel(t *testing.T) {
	path := os.Getenv("MODEL")
	if path == "" {
		t.Skip("SKIPPED: no MODEL=file.gguf")
	}
	start := time.Now()
	model, err := Load(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	session := newSession(t, model, 0)
	text := ""
	for piece, err := range session.Chat(t.Context(), []Message{{"user", "What is the capital of France, and what is it famous for?"}}, &Options{MaxTokens: 40}) {
		if err != nil {
			t.Fatal(err)
		}
		if text == "" {
			t.Log("from Load to the first piece:", time.Since(start))
		}
		text += piece
	}
	if !strings.Contains(text, "Paris") {
		t.Errorf("%q", text)
	}
}
