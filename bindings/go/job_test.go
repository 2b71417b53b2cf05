// The tests of jobs.
package realizar

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestJobs(t *testing.T) {
	model := load(t, storyModel)
	tokens, err := model.Tokenize(prompt, true, false)
	must(t, err)
	whole := generate(t, newSession(t, model, 128), prompt, &JobOptions{MaxTokens: 30})
	sessions, jobs := make([]*Session, 3), make([]*Job, 3)
	// Drafts change no token.
	drafts := []JobOptions{{}, {Draft: DraftLookup}, {Draft: DraftModel, DraftModel: model, DraftMax: 4}}
	for i := range jobs {
		sessions[i] = newSession(t, model, 128)
		drafts[i].MaxTokens = 30
		if jobs[i], err = sessions[i].NewJob(t.Context(), tokens, &drafts[i]); err != nil {
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
			must(t, err)
			texts[i] += text
		}
	}
	for more := true; more; read() {
		if more, err = StepJobs(jobs, 100*time.Microsecond); err != nil {
			t.Fatal(err)
		}
	}
	if more, err := StepJobs(nil, NoLimit); more || err != nil {
		t.Error("a step of no jobs", more, err)
	}
	for i, job := range jobs {
		info, err := job.Info()
		made, _ := job.Tokens()
		if err != nil || texts[i] != whole || info.End != EndLength || info.Tokens != 30 || len(made) != 30 || info.FirstToken <= 0 {
			t.Errorf("%q %q %+v %v", texts[i], whole, info, err)
		}
		job.Close()
		held, err := sessions[i].Tokens()
		if n := sessions[i].Len(); err != nil || n != len(tokens)+29 || !slices.Equal(held, slices.Concat(tokens, made[:29])) {
			t.Error(n, held, err)
		}
	}
	if _, err := sessions[0].NewJob(t.Context(), tokens, &JobOptions{Draft: DraftModel}); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("drafts of no model: %v", err)
	}
	if _, err := sessions[0].NewJob(t.Context(), tokens, &JobOptions{Draft: DraftMTP}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("drafts of no layer: %v", err)
	}
	if _, err := jobs[0].Step(0); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// newLateJob returns a job whose context ends soon, and the context. One that ends before there is a job is tried again
// with more time.
func newLateJob(t *testing.T, session *Session, tokens []uint32) (*Job, context.Context) {
	t.Helper()
	for wait := time.Millisecond; ; wait *= 2 {
		late, stop := context.WithTimeout(t.Context(), wait)
		t.Cleanup(stop)
		job, err := session.NewJob(late, tokens, nil)
		if errors.Is(err, context.DeadlineExceeded) && wait < time.Minute {
			continue
		}
		must(t, err)
		t.Cleanup(func() { job.Close() })
		return job, late
	}
}

func TestContextsEndJobs(t *testing.T) {
	model := load(t, storyModel)
	long := slices.Repeat([]uint32{1, 403, 407}, 2000)
	job, _ := newLateJob(t, newSession(t, model, 8192), long)
	if more, err := job.Step(NoLimit); more || !errors.Is(err, ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v %v", more, err)
	}
	// No time is left, or less than none: one share of work, which is no token yet.
	going, err := newSession(t, model, 8192).NewJob(t.Context(), long, nil)
	must(t, err)
	defer going.Close()
	for _, budget := range []time.Duration{0, -1, -time.Hour, math.MinInt64} {
		more, err := going.Step(budget)
		if info, _ := going.Info(); !more || err != nil || info.Tokens != 0 {
			t.Errorf("%v: %v %v %+v", budget, more, err, info)
		}
	}
	for budget, us := range map[time.Duration]uint64{0: 0, -5: 0, 1: 1, 1000: 1, 1001: 2, NoLimit: math.MaxUint64, NoLimit - 1: 9223372036854776} {
		if found := microseconds(budget); found != us {
			t.Error(budget, found)
		}
	}
	session := newSession(t, model, 128)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if job, err = session.NewJob(ctx, []uint32{1, 403, 407, 261, 378}, nil); err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	pieces, last := 0, error(nil)
	for _, err := range job.Stream() {
		if pieces++; pieces == 5 {
			cancel()
		}
		last = err
	}
	if !errors.Is(last, ErrCancelled) || !errors.Is(last, context.Canceled) || pieces != 6 {
		t.Error(pieces, last)
	}
	// The session keeps what is complete and goes on once the job is closed.
	if err := session.Truncate(0); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	job.Close()
	if session.Len() < 5 {
		t.Error(session.Len())
	}
	if text := generate(t, session, prompt, &JobOptions{MaxTokens: 100}); !strings.HasPrefix(text, story) {
		t.Errorf("%q", text)
	}
	if _, err := session.NewJob(ctx, []uint32{1}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, options := range []*JobOptions{{Stops: []string{""}}, {Stops: []string{"a\x00b"}}} {
		if _, err := newSession(t, model, 8).NewJob(t.Context(), []uint32{1}, options); !errors.Is(err, ErrInvalidArgument) {
			t.Error(err)
		}
	}
}

func TestThreadsChange(t *testing.T) {
	runtime, err := NewRuntime(&RuntimeOptions{Threads: 1})
	must(t, err)
	defer runtime.Close()
	model, err := Load(t.Context(), storyModel, &LoadOptions{Runtime: runtime})
	must(t, err)
	defer model.Close()
	before := generate(t, newSession(t, model, 128), prompt, &JobOptions{MaxTokens: 20})
	must(t, runtime.SetThreads(3))
	if after := generate(t, newSession(t, model, 128), prompt, &JobOptions{MaxTokens: 20}); after != before {
		t.Errorf("%q %q", before, after)
	}
	if err := runtime.SetThreads(1 << 20); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestJobsTellProbabilities(t *testing.T) {
	model := load(t, storyModel)
	tokens, err := model.Tokenize(prompt, true, false)
	must(t, err)
	job, err := newSession(t, model, 64).NewJob(t.Context(), tokens, &JobOptions{MaxTokens: 6, Logprobs: 3})
	must(t, err)
	defer job.Close()
	var rows []TokenLogprobs
	for more := true; more; {
		if more, err = job.Step(NoLimit); err != nil {
			t.Fatal(err)
		}
		now, err := job.Logprobs()
		must(t, err)
		rows = append(rows, now...)
	}
	made, err := job.Tokens()
	if err != nil || len(rows) != 6 || len(made) != 6 {
		t.Fatal(rows, made, err)
	}
	other := newSession(t, model, 64)
	must(t, other.Prefill(t.Context(), tokens))
	for i, row := range rows {
		likeliest, err := other.Logprobs(3)
		// Greedily the likeliest is the one that is made.
		if err != nil || row.Token != made[i] || row.Logprob != row.Likeliest[0] || !slices.Equal(row.Likeliest, likeliest) {
			t.Error(i, row, likeliest, err)
		}
		if err := other.Prefill(t.Context(), []uint32{row.Token}); err != nil {
			t.Fatal(err)
		}
	}
	alone, err := newSession(t, model, 64).NewJob(t.Context(), tokens, &JobOptions{MaxTokens: 1, Logprobs: None})
	must(t, err)
	defer alone.Close()
	_, err = alone.Step(NoLimit)
	must(t, err)
	if now, err := alone.Logprobs(); err != nil || len(now) != 1 || now[0].Logprob != rows[0].Logprob || len(now[0].Likeliest) != 0 {
		t.Error(now, err)
	}
	for logprobs, wanted := range map[int]Code{0: ErrInvalidArgument, 33: ErrInvalidArgument} {
		job, err := newSession(t, model, 8).NewJob(t.Context(), tokens, &JobOptions{Logprobs: logprobs})
		if err == nil {
			_, err = job.Logprobs()
			job.Close()
		}
		if !errors.Is(err, wanted) {
			t.Error(logprobs, err)
		}
	}
}

func TestAJobThatFailsEndsAlone(t *testing.T) {
	model := load(t, storyModel)
	sampler, err := NewSampler(nothing())
	must(t, err)
	defer sampler.Close()
	var jobs []*Job
	for _, options := range []JobOptions{{Sampler: sampler}, {MaxTokens: 3}} {
		job, err := newSession(t, model, 64).NewJob(t.Context(), []uint32{1, 403}, &options)
		must(t, err)
		defer job.Close()
		must(t, job.Err())
		jobs = append(jobs, job)
	}
	for more := true; more; {
		if more, err = StepJobs(jobs, NoLimit); err != nil {
			t.Fatal(err)
		}
	}
	failed, _ := jobs[0].Info()
	went, _ := jobs[1].Info()
	if failed.End != EndFailed || went.End != EndLength || went.Tokens != 3 || jobs[1].Err() != nil {
		t.Errorf("%+v %+v", failed, went)
	}
	why := jobs[0].Err()
	if _, err := jobs[0].Step(NoLimit); why == nil || err == nil || err.Error() != why.Error() {
		t.Error(why, err)
	}
}

func TestEachJobOfABatchHasAContext(t *testing.T) {
	model := load(t, storyModel)
	first, cancel := context.WithCancel(t.Context())
	late, soon := newLateJob(t, newSession(t, model, 256), []uint32{1, 403})
	jobs := []*Job{nil, late, nil}
	for i, ctx := range map[int]context.Context{0: first, 2: t.Context()} {
		var err error
		jobs[i], err = newSession(t, model, 256).NewJob(ctx, []uint32{1, 403}, &JobOptions{MaxTokens: 200})
		must(t, err)
		defer jobs[i].Close()
	}
	if more, err := StepJobs(jobs, NoLimit); !more || err != nil {
		t.Fatal(more, err)
	}
	cancel()
	<-soon.Done()
	for more := true; more; {
		var err error
		if more, err = StepJobs(jobs[2:], NoLimit); err != nil {
			t.Fatal(err)
		}
	}
	if more, err := StepJobs(jobs[:2], NoLimit); more || err != nil {
		t.Error(more, err)
	}
	if err := jobs[0].Err(); !errors.Is(err, ErrCancelled) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := jobs[1].Err(); !errors.Is(err, ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "cancel") {
		t.Error(err)
	}
	// The one that goes on is not stopped by those beside it.
	going, err := newSession(t, model, 64).NewJob(t.Context(), []uint32{1, 403}, &JobOptions{MaxTokens: 20})
	must(t, err)
	defer going.Close()
	for ended := false; !ended; {
		_, err := StepJobs([]*Job{jobs[0], going}, NoLimit)
		info, told := going.Info()
		if ended = info.End == EndLength; told != nil || err != nil {
			t.Fatal(err, told)
		}
	}
	info, _ := jobs[0].Info()
	if !errors.Is(info.Stopped, ErrCancelled) || !errors.Is(info.Stopped, context.Canceled) || info.Tokens > 2 {
		t.Errorf("%+v", info)
	}
	if info, _ := going.Info(); info.Stopped != nil || info.Tokens != 20 {
		t.Errorf("%+v", info)
	}
	if _, err := newSession(t, model, 64).NewJob(first, []uint32{1}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAJobReplies(t *testing.T) {
	model := load(t, chatModel(t, plainTemplate))
	transcript := &Transcript{Messages: []any{Message{"user", prompt}}}
	tokens, err := model.TokenizeChat(transcript)
	must(t, err)
	job, err := newSession(t, model, 64).NewJob(t.Context(), tokens, &JobOptions{Chat: transcript, Stops: []string{" She"}})
	must(t, err)
	defer job.Close()
	var parts []Part
	for more := true; more; {
		more, err = job.Step(NoLimit)
		must(t, err)
		now, err := job.Parts()
		must(t, err)
		parts = append(parts, now...)
	}
	text := ""
	for _, part := range parts[:len(parts)-1] {
		text += part.Text
	}
	if text != ", there was a little girl named Lily." || parts[len(parts)-1].Kind != PartEnd {
		t.Errorf("%+v", parts)
	}
	if _, err := job.Text(); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestADeadlineIsNotCalledACancel(t *testing.T) {
	session := newSession(t, load(t, storyModel), 8192)
	for range 3 {
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, err := session.Score(ctx, slices.Repeat([]uint32{1, 403, 407}, 1000))
		if !errors.Is(err, ErrDeadline) || !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "cancel") {
			t.Error(err)
		}
		stop()
	}
}
