package realizar

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

func TestJobs(t *testing.T) {
	model := load(t, storyModel)
	tokens, err := model.Tokenize(prompt, false)
	if err != nil {
		t.Fatal(err)
	}
	whole, _ := generate(t, newSession(t, model, 128), prompt, &Options{MaxTokens: 30})
	sessions, jobs := make([]*Session, 3), make([]*Job, 3)
	// Drafts change no token.
	drafts := []JobOptions{{}, {Draft: DraftLookup}, {Draft: DraftModel, DraftModel: model, DraftMax: 4}}
	for i := range jobs {
		sessions[i] = newSession(t, model, 128)
		drafts[i].MaxTokens = 30
		if jobs[i], err = sessions[i].NewJob(tokens, &drafts[i]); err != nil {
			t.Fatal(err)
		}
		defer jobs[i].Close()
	}
	if _, err := sessions[0].Decode(1, nil); !errors.Is(err, ErrBusy) {
		t.Errorf("a session with a job: %v", err)
	}
	texts := make([]string, len(jobs))
	read := func() {
		for i, job := range jobs {
			text, err := job.Text()
			if err != nil {
				t.Fatal(err)
			}
			texts[i] += text
		}
	}
	for more := true; more; read() {
		if more, err = StepJobs(t.Context(), jobs, 100*time.Microsecond); err != nil {
			t.Fatal(err)
		}
	}
	if more, err := StepJobs(t.Context(), nil, NoLimit); more || err != nil {
		t.Error("a step of no jobs", more, err)
	}
	for i, job := range jobs {
		info, err := job.Info()
		made, _ := job.Tokens()
		if err != nil || texts[i] != whole || info.End != EndLength || info.Tokens != 30 || len(made) != 30 || info.FirstToken <= 0 {
			t.Errorf("%q %q %+v %v", texts[i], whole, info, err)
		}
		job.Close()
		if n := sessions[i].Len(); n != len(tokens)+29 || !slices.Equal(sessions[i].tokens, slices.Concat(tokens, made[:29])) {
			t.Error(n, sessions[i].tokens)
		}
	}
	if _, err := sessions[0].NewJob(tokens, &JobOptions{Draft: DraftModel}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("drafts of no model: %v", err)
	}
	if _, err := sessions[0].NewJob(tokens, &JobOptions{Draft: DraftMTP}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("drafts of no layer: %v", err)
	}
	if _, err := jobs[0].Step(t.Context(), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestContextsPauseJobs(t *testing.T) {
	model := load(t, storyModel)
	session := newSession(t, model, 256)
	job, err := session.NewJob(slices.Repeat([]uint32{1, 403, 407}, 50), &JobOptions{MaxTokens: 3, Stops: []string{"\x01"}})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Microsecond)
	defer cancel()
	if more, err := job.Step(ctx, NoLimit); more || !errors.Is(err, ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v %v", more, err)
	}
	// No time is left, or less than none: one share of work, which is no token yet.
	for _, budget := range []time.Duration{0, -1, -time.Hour, math.MinInt64} {
		more, err := job.Step(t.Context(), budget)
		if info, _ := job.Info(); !more || err != nil || info.Tokens != 0 {
			t.Errorf("%v: %v %v %+v", budget, more, err, info)
		}
	}
	for budget, us := range map[time.Duration]uint64{0: 0, -5: 0, 1: 1, 1000: 1, 1001: 2, NoLimit: math.MaxUint64, NoLimit - 1: 9223372036854776} {
		if found := microseconds(budget); found != us {
			t.Error(budget, found)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := job.Step(ended, 0); !errors.Is(err, ErrCancelled) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for more := true; more; {
		if more, err = job.Step(t.Context(), NoLimit); err != nil {
			t.Fatal(err)
		}
	}
	if made, err := job.Tokens(); err != nil || len(made) != 3 {
		t.Error(made, err)
	}
	for _, options := range []*JobOptions{{Stops: []string{""}}, {Stops: []string{"a\x00b"}}} {
		if _, err := newSession(t, model, 8).NewJob([]uint32{1}, options); !errors.Is(err, ErrInvalidArgument) {
			t.Error(err)
		}
	}
}

func TestThreadsChange(t *testing.T) {
	runtime, err := NewRuntime(&RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.Close()
	model, err := Load(t.Context(), storyModel, &LoadOptions{Runtime: runtime})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	before, _ := generate(t, newSession(t, model, 128), prompt, &Options{MaxTokens: 20})
	if err := runtime.SetThreads(3); err != nil {
		t.Fatal(err)
	}
	if after, _ := generate(t, newSession(t, model, 128), prompt, &Options{MaxTokens: 20}); after != before {
		t.Errorf("%q %q", before, after)
	}
	if err := runtime.SetThreads(1 << 20); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}
