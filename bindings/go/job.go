package realizar

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"runtime"
	"time"
	"unsafe"
)

// Job is a generation that advances in steps: a prompt and the tokens after it. It occupies its session until it is
// closed.
type Job struct {
	job   *owned[*rz_job]
	ctx   context.Context
	width int // entries per row of log probabilities
}

// checkDraft rejects a draft model that would have no effect.
func checkDraft(draft Draft, model *Model) error {
	if model != nil && draft != DraftModel {
		return wrong("Draft is %d; it must be DraftModel with a DraftModel", draft)
	}
	return nil
}

// EndNone means that a job or a reply has not ended.
const EndNone EndReason = 0

// NewJob creates a job that appends a prompt to the session and generates. It computes nothing yet. The context ends
// its steps; [StepJobs] skips the job from then on, and [Job.Err] returns the reason.
func (s *Session) NewJob(ctx context.Context, prompt []uint32, options *JobOptions) (*Job, error) {
	if options == nil {
		options = &JobOptions{}
	}
	if err := checkDraft(options.Draft, options.DraftModel); err != nil {
		return nil, err
	}
	sampler, release, err := optional[*rz_sampler](options.Sampler, "Sampler")
	if err != nil {
		return nil, err
	}
	defer release()
	grammar, releaseGrammar, err := optional[*rz_grammar](options.Grammar, "Grammar")
	if err != nil {
		return nil, err
	}
	defer releaseGrammar()
	draft, releaseDraft, err := optional[*rz_model](options.DraftModel, "DraftModel")
	if err != nil {
		return nil, err
	}
	defer releaseDraft()
	media, releaseMedia, err := optional[*rz_prompt](options.Prompt, "Prompt")
	if err != nil {
		return nil, err
	}
	defer releaseMedia()
	var pinner runtime.Pinner
	defer pinner.Unpin()
	stops, err := cStops(&pinner, options.Stops)
	if err != nil {
		return nil, err
	}
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	first, err := whole(options.PromptFirst, "PromptFirst")
	if err != nil {
		return nil, err
	}
	params.sampler, params.grammar, params.draft_model = sampler, grammar, draft
	params.draft, params.prompt, params.prompt_first = uint32(options.Draft), media, uintptr(first)
	params.tokens, params.n_tokens = pinned(&pinner, prompt), uintptr(len(prompt))
	params.stops, params.n_stops = pinned(&pinner, stops), uintptr(len(stops))
	if options.PromptFirst != 0 && options.Prompt == nil {
		return nil, wrong("PromptFirst is %d; it must be 0 without Prompt", options.PromptFirst)
	}
	if options.Chat != nil {
		chat, err := marshal(options.Chat)
		if err != nil {
			return nil, err
		}
		params.chat, params.chat_len = pinned(&pinner, chat), uintptr(len(chat))
	}
	cancel, stop, err := newCancel(ctx)
	if err != nil {
		return nil, err
	}
	held := s.held()
	cache, err := held.acquire() // until the job is freed
	if err != nil {
		stop()
		return nil, err
	}
	end := func() {
		stop()
		held.release()
	}
	params.cancel = cancel
	var e rz_error
	var handle *rz_job
	if err := check(lib.rz_job_new(cache, &params, &handle, &e), &e); err != nil {
		end()
		return nil, ended(err, ctx)
	}
	j := &Job{ctx: ctx, width: max(options.Logprobs, 0) + 1, job: own(handle, func(handle *rz_job) {
		lib.rz_job_free(handle)
		end()
	}, cancel)}
	runtime.AddCleanup(j, (*owned[*rz_job]).drop, j.job)
	return j, nil
}

// cStops returns stop sequences for C, pinned until pinner.Unpin.
func cStops(pinner *runtime.Pinner, stops []string) ([]*byte, error) {
	list := make([]*byte, len(stops))
	for i, stop := range stops {
		if err := noNUL(fmt.Sprintf("stop string %d", i), stop); err != nil {
			return nil, err
		}
		list[i] = cString(stop)
		pinner.Pin(list[i])
	}
	return list, nil
}

// Close frees the job, at any time, and releases its session, which keeps the completed tokens. A running step ends
// early. Closing twice is fine.
func (j *Job) Close() error {
	return j.held().close()
}

// NoLimit is an unlimited time budget: the step ends when a job has generated a token.
const NoLimit time.Duration = math.MaxInt64

// microseconds converts a budget, rounding up; negative budgets are 0.
func microseconds(budget time.Duration) uint64 {
	if budget == NoLimit {
		return math.MaxUint64
	}
	whole := max(budget, 0) / time.Microsecond
	if whole*time.Microsecond < budget {
		whole++
	}
	return uint64(whole)
}

// Step computes the job for about the budget. It reports whether there is more to do.
func (j *Job) Step(budget time.Duration) (more bool, err error) {
	return step(j, func(job *rz_job, e *rz_error) int32 { return lib.rz_job_step(job, microseconds(budget), e) })
}

// StepJobs is [Job.Step] for several jobs of one model (continuous batching). It reports whether there is more to do;
// false without jobs. A failed job ends with [EndFailed] and does not affect others; a job whose context has ended is
// skipped. [Job.Err] returns the error of either.
func StepJobs(jobs []*Job, budget time.Duration) (more bool, err error) {
	return stepAll(jobs, "jobs", func(jobs []*rz_job, e *rz_error) int32 {
		return lib.rz_jobs_step(unsafe.SliceData(jobs), uintptr(len(jobs)), microseconds(budget), e)
	})
}

func (j *Job) contexts() []context.Context { return []context.Context{j.ctx} }

// stepper is an object that advances in steps until one of its contexts ends.
type stepper[H any] interface {
	holder[H]
	contexts() []context.Context
}

// step makes one step of an object.
func step[H any, T stepper[H]](one T, f func(handle H, e *rz_error) int32) (more bool, err error) {
	object := one.held()
	handle, err := object.acquire()
	if err != nil {
		return false, err
	}
	defer object.release()
	contexts := one.contexts()
	if err := over(contexts...); err != nil { // the library notices a moment later
		return false, err
	}
	var e rz_error
	status := f(handle, &e)
	return status == rz_AGAIN, object.ended(check(status, &e), contexts...)
}

// stepAll makes one step of the objects whose contexts have not ended. If all have, there is no more to do.
func stepAll[H any, T stepper[H]](all []T, name string, f func(handles []H, e *rz_error) int32) (more bool, err error) {
	handles, release, err := handlesOf[H](all, name)
	if err != nil {
		return false, err
	}
	defer release()
	going := handles[:0]
	for i, each := range all {
		if over(each.contexts()...) == nil {
			going = append(going, handles[i])
		}
	}
	if len(going) == 0 {
		return false, nil
	}
	var e rz_error
	status := f(going, &e)
	if status != rz_ERR_CANCELLED && status != rz_ERR_DEADLINE {
		return status == rz_AGAIN, check(status, &e)
	}
	// Stop each object that would continue.
	for _, each := range all {
		if each.held().isClosed() {
			return false, each.held().ended(check(status, &e))
		}
	}
	return false, nil
}

// Err returns the error that ended the job ([EndFailed]) or paused it ([JobInfo].Stopped); else nil.
func (j *Job) Err() error {
	if err := use(j, lib.rz_job_error); err != nil {
		return err
	}
	info, err := j.Info()
	return cmp.Or(err, info.Stopped)
}

// Stream computes the job to its end and yields its text in pieces of whole UTF-8 characters; an error comes last.
func (j *Job) Stream() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for more := true; more; {
			var stepped error
			more, stepped = j.Step(NoLimit)
			text, err := j.Text() // also the text before an error
			if text != "" && !yield(text, nil) {
				return
			}
			if stepped != nil {
				err = stepped
			}
			if err != nil {
				yield("", err)
				return
			}
		}
	}
}

// Text returns the text since the last call, in whole UTF-8 characters, without stop sequences.
func (j *Job) Text() (string, error) {
	text, err := sized(j, 256, lib.rz_job_text_into)
	return string(text), err
}

// Parts returns the parts of the reply since the last call, for JobOptions.Chat.
func (j *Job) Parts() ([]Part, error) {
	return partsOf(j, lib.rz_job_next_into)
}

// Tokens returns the tokens since the last call, including one that ends the text.
func (j *Job) Tokens() ([]uint32, error) {
	return sized(j, 64, lib.rz_job_tokens_into)
}

// TokenLogprobs is a generated token and the most likely alternatives, in descending order.
type TokenLogprobs struct {
	Logprob
	Likeliest []Logprob
}

// Logprobs returns the log probabilities of tokens since the last call, for JobOptions.Logprobs.
func (j *Job) Logprobs() ([]TokenLogprobs, error) {
	if j.held() == nil {
		return nil, missing("the job")
	}
	return logprobsOf(j, j.width, lib.rz_job_logprobs_into)
}

// logprobsOf returns the pending rows of an object, of width entries each.
func logprobsOf[H any](object holder[H], width int,
	read func(handle H, tokens *uint32, logprobs *float32, capacity uintptr, n *uintptr, e *rz_error) int32) (rows []TokenLogprobs, err error) {
	var values []float32
	tokens, err := sized(object, 64, func(handle H, out *uint32, capacity uintptr, n *uintptr, e *rz_error) int32 {
		values = make([]float32, capacity)
		return read(handle, out, unsafe.SliceData(values), capacity, n, e)
	})
	all := paired(tokens, values)
	for ; err == nil && len(all) >= width; all = all[width:] {
		rows = append(rows, TokenLogprobs{all[0], all[1:width]})
	}
	return rows, err
}

// Info returns the state of the job.
func (j *Job) Info() (JobInfo, error) {
	return described(j, lib.rz_job_info_get, func(c *rz_job_info) JobInfo {
		info := c.value()
		info.Stopped = stopped(j, c.state != rz_STATE_ENDED, c.stopped)
		return info
	})
}

// stopped returns the error that paused an unfinished object; else nil.
func stopped[H any](one stepper[H], unfinished bool, status int32) error {
	if !unfinished {
		return nil
	} else if err := over(one.contexts()...); err != nil || status >= 0 {
		return err
	}
	return one.held().ended(&Error{Code: Code(status), Message: "the call is asked to stop"}, one.contexts()...)
}
