package realizar

/*
#include <stdlib.h>
#include <realizar.h>
*/
import "C"

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// Job is a generation that works when it is stepped: a prompt and the tokens that follow it. Its session is in use until
// the job is closed.
type Job struct {
	busy    sync.Mutex // held by every call
	job     *owned[*C.rz_job]
	session *Session
	ctx     context.Context // of the job, where it has one
	isReply bool
	rows    int // tokens whose probabilities were read
}

// JobOptions are optional; the zero value means the most likely token, as many as there is room for.
type JobOptions struct {
	Sampler   *Sampler // copied as it is now
	Grammar   *Grammar // what may be written, from its start; nil: what the sampler allows
	MaxTokens int
	Stops     []string // none of them empty; the text ends ahead of the first that is complete, that of a reply in its content
	Logprobs  int      // likeliest tokens that Job.Logprobs tells with each, at most 32
	// Context ends this job alone: steps of several jobs leave it out from then on, and JobInfo.Stopped tells. nil:
	// nothing does.
	Context  context.Context
	Draft    Draft // how next tokens are guessed, which changes nothing but the time
	DraftMax int   // tokens of a draft at most; 0: chosen by the library
	// DraftModel drafts where Draft is DraftModel: a small model of the same vocabulary.
	DraftModel *Model
}

// Draft is a source of drafts.
type Draft uint32

const (
	DraftNone   Draft = C.RZ_DRAFT_NONE   // none but for what a grammar forces
	DraftLookup Draft = C.RZ_DRAFT_LOOKUP // out of the text itself
	DraftModel  Draft = C.RZ_DRAFT_MODEL  // by a small model
	DraftMTP    Draft = C.RZ_DRAFT_MTP    // by a layer of the model itself, loaded with LoadOptions.MTP
)

// EndReason is why a job has ended.
type EndReason uint32

const (
	EndNone    EndReason = 0 // it has not
	EndToken   EndReason = C.RZ_JOB_END
	EndLength  EndReason = C.RZ_JOB_LENGTH
	EndStop    EndReason = C.RZ_JOB_STOP
	EndContext EndReason = C.RZ_JOB_CONTEXT
	EndGrammar EndReason = C.RZ_JOB_GRAMMAR
	EndFailed  EndReason = C.RZ_JOB_FAILED // by an error of its own: Job.Err
)

// JobInfo is the state of a job.
type JobInfo struct {
	End                                EndReason
	Stopped                            error // why steps leave it out now, because its context has ended; else nil
	Prompt, PromptDone, Tokens         int
	Drafted, Accepted                  int // tokens of drafts that were computed, and those of them that were right
	PromptTime, TokensTime, FirstToken time.Duration
}

// NewJob makes a job that appends a prompt to the session and generates. Nothing is computed yet.
func (s *Session) NewJob(prompt []uint32, options *JobOptions) (*Job, error) {
	cache, leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	return s.makeJob(cache, leave, prompt, nil, options)
}

// NewReply makes a job that replies to a conversation, given as a whole, in parts: Job.Parts. What the session holds of
// it from its start is not computed again.
func (s *Session) NewReply(conversation *Conversation, options *JobOptions) (*Job, error) {
	text, err := json.Marshal(conversation)
	if err != nil {
		return nil, err
	}
	tokens, err := tokenizeConversation(s.model, text)
	if err != nil {
		return nil, err
	}
	return s.goOn(tokens, text, options)
}

// goOn makes a job for a prompt that may begin with what the session holds.
func (s *Session) goOn(prompt []uint32, conversation []byte, options *JobOptions) (*Job, error) {
	cache, leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	var e C.rz_error
	var common C.uint32_t
	status := C.rz_cache_match(cache, (*C.uint32_t)(unsafe.SliceData(prompt)), C.size_t(len(prompt)), &common, &e)
	// The last token of a prompt is always computed, because the answer starts from its logits.
	held := max(min(int(common), len(prompt)-1), 0)
	if status >= 0 {
		status = C.rz_cache_truncate(cache, C.uint32_t(held), &e)
	}
	if err := check(status, &e); err != nil {
		leave()
		return nil, err
	}
	return s.makeJob(cache, leave, prompt[held:], conversation, options)
}

// makeJob makes a job that leaves the session when it is freed, or at once with an error.
func (s *Session) makeJob(cache *C.rz_cache, leave func(), prompt []uint32, conversation []byte, options *JobOptions) (job *Job, err error) {
	defer func() {
		if err != nil {
			leave()
		}
	}()
	if options == nil {
		options = &JobOptions{}
	}
	sampler, release, err := options.Sampler.acquire()
	if err != nil {
		return nil, err
	}
	defer release()
	grammar, releaseGrammar, err := options.Grammar.acquire()
	if err != nil {
		return nil, err
	}
	defer releaseGrammar()
	params := C.rz_job_params{max_tokens: C.uint32_t(max(options.MaxTokens, 0)), n_tokens: C.size_t(len(prompt)), sampler: sampler}
	params.grammar = grammar
	params.draft, params.draft_max = C.uint32_t(options.Draft), C.uint32_t(min(max(options.DraftMax, 0), math.MaxInt32))
	params.logprobs = C.uint32_t(min(max(options.Logprobs, 0), math.MaxInt32))
	if options.DraftModel != nil {
		draft, err := options.DraftModel.model.acquire()
		if err != nil {
			return nil, err
		}
		defer options.DraftModel.model.release()
		params.draft_model = draft
	}
	params.struct_size = C.uint32_t(unsafe.Sizeof(params))
	var pinner runtime.Pinner
	defer pinner.Unpin()
	if len(prompt) > 0 {
		pinner.Pin(&prompt[0])
		params.tokens = (*C.uint32_t)(&prompt[0])
	}
	if n := len(options.Stops); n > 0 {
		stops := make([]*C.char, n)
		for i, stop := range options.Stops {
			if err := noNUL(fmt.Sprintf("stop string %d", i), stop); err != nil {
				return nil, err
			}
			stops[i] = C.CString(stop)
			defer C.free(unsafe.Pointer(stops[i]))
		}
		pinner.Pin(&stops[0])
		params.stops, params.n_stops = &stops[0], C.size_t(n)
	}
	if conversation != nil {
		pinner.Pin(&conversation[0])
		params.chat, params.chat_len = (*C.char)(unsafe.Pointer(&conversation[0])), C.size_t(len(conversation))
	}
	ctx := options.Context
	if ctx == nil {
		ctx = context.Background()
	}
	cancel, stop, err := watch(ctx)
	if err != nil {
		return nil, err
	}
	params.cancel = cancel
	var e C.rz_error
	var handle *C.rz_job
	if err := check(C.rz_job_new(cache, &params, &handle, &e), &e); err != nil {
		stop()
		return nil, err
	}
	j := &Job{session: s, ctx: ctx, isReply: conversation != nil, job: own(handle, func(handle *C.rz_job) {
		C.rz_job_free(handle)
		stop()
		leave()
	})}
	runtime.AddCleanup(j, (*owned[*C.rz_job]).close, j.job)
	return j, nil
}

// Close frees the job, at any moment, and the session with it, which keeps the tokens that are complete. Closing twice
// is fine.
func (j *Job) Close() error {
	j.job.close()
	return nil
}

// enter takes the job for one call.
func (j *Job) enter() (handle *C.rz_job, leave func(), err error) {
	return j.job.enter(&j.busy, "job")
}

// NoLimit is no budget of time: a step with it works until a job has made a token.
const NoLimit time.Duration = math.MaxInt64

// microseconds are those of a budget, of which less than nothing is nothing and a begun one counts as a whole.
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

// Step works on the job for about a budget of time. It tells whether there is more to do. When the context ends, so does
// the step, and the job goes on with the next one.
func (j *Job) Step(ctx context.Context, budget time.Duration) (more bool, err error) {
	return step(ctx, []*Job{j}, func(jobs []*C.rz_job, e *C.rz_error) C.rz_status {
		return C.rz_job_step(jobs[0], C.uint64_t(microseconds(budget)), e)
	})
}

// StepJobs is [Job.Step] for several jobs of one model in common passes over the weights. It tells whether there is more to
// do; of no jobs there is not. A job that fails ends alone, with [EndFailed], and [Job.Err] tells why; one whose own
// context has ended is left out.
func StepJobs(ctx context.Context, jobs []*Job, budget time.Duration) (more bool, err error) {
	return step(ctx, jobs, func(jobs []*C.rz_job, e *C.rz_error) C.rz_status {
		return C.rz_jobs_step(unsafe.SliceData(jobs), C.size_t(len(jobs)), C.uint64_t(microseconds(budget)), e)
	})
}

func step(ctx context.Context, jobs []*Job, f func(jobs []*C.rz_job, e *C.rz_error) C.rz_status) (more bool, err error) {
	handles := make([]*C.rz_job, len(jobs))
	for i, j := range jobs {
		handle, leave, err := j.enter()
		if err != nil {
			return false, err
		}
		defer leave()
		handles[i] = handle
		// A job that has ended asks no more whether to stop, so that each is watched.
		stop, err := watchWith(ctx, j.session.stop)
		if err != nil {
			return false, err
		}
		defer func() {
			stop()
			C.rz_cancel_reset(j.session.stop)
		}()
	}
	var e C.rz_error
	status := f(handles, &e)
	err = check(status, &e)
	for i := 0; i < len(jobs) && err != nil && ctx.Err() == nil; i++ {
		if jobs[i].ctx.Err() != nil { // it was not the context of the step
			return false, ended(jobs[i].ctx, err)
		}
	}
	return status == C.RZ_AGAIN, ended(ctx, err)
}

// Err is the error with which the job has ended, where that was one of its own; else nil.
func (j *Job) Err() error {
	handle, leave, err := j.enter()
	if err != nil {
		return err
	}
	defer leave()
	var e C.rz_error
	return check(C.rz_job_error(handle, &e), &e)
}

// Text is what is new since the last call, whole UTF-8, stop strings cut out; of a reply its content, in place of
// Parts.
func (j *Job) Text() (string, error) {
	if j.isReply {
		parts, err := j.Parts()
		var text strings.Builder
		for _, part := range parts {
			if part.Kind == PartContent || part.Kind == PartEnd {
				text.WriteString(part.Text)
			}
		}
		return text.String(), err
	}
	_, leave, err := j.enter()
	if err != nil {
		return "", err
	}
	defer leave()
	text, err := sized(j.job, 256, func(handle *C.rz_job, out *byte, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_job_text_into(handle, (*C.char)(unsafe.Pointer(out)), capacity, n, e)
	})
	return string(text), err
}

// Parts are those of a reply that are new since the last call, of a job by NewReply.
func (j *Job) Parts() ([]Part, error) {
	_, leave, err := j.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	return partsOf(j.job, func(handle *C.rz_job, kind, index *C.uint32_t, out *C.char, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_job_next_into(handle, kind, index, out, capacity, n, e)
	})
}

// Tokens are those that are new since the last call, one that ends the text included.
func (j *Job) Tokens() ([]uint32, error) {
	_, leave, err := j.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	return sized(j.job, 64, func(handle *C.rz_job, out *uint32, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_job_tokens_into(handle, (*C.uint32_t)(out), capacity, n, e)
	})
}

// TokenLogprobs is a token that was made, and the likeliest ones in its place, the likeliest first.
type TokenLogprobs struct {
	Logprob
	Likeliest []Logprob
}

// Logprobs are those of the tokens that are new since the last call, of a job with JobOptions.Logprobs.
func (j *Job) Logprobs() ([]TokenLogprobs, error) {
	handle, leave, err := j.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	info, err := jobInfo(handle)
	if err != nil {
		return nil, err
	}
	var values []float32
	tokens, err := sized(j.job, 64, func(handle *C.rz_job, out *uint32, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		values = make([]float32, capacity)
		return C.rz_job_logprobs_into(handle, (*C.uint32_t)(out), (*C.float)(unsafe.SliceData(values)), capacity, n, e)
	})
	if err != nil {
		return nil, err
	}
	rows := make([]TokenLogprobs, int(info.n_tokens)-j.rows) // of which each has as many entries
	j.rows = int(info.n_tokens)
	for i := range rows {
		width := len(tokens) / len(rows)
		entry := func(at int) Logprob { return Logprob{tokens[i*width+at], values[i*width+at]} }
		rows[i].Logprob = entry(0)
		for at := 1; at < width; at++ {
			rows[i].Likeliest = append(rows[i].Likeliest, entry(at))
		}
	}
	return rows, nil
}

// Info is the state of the job.
func (j *Job) Info() (JobInfo, error) {
	handle, leave, err := j.enter()
	if err != nil {
		return JobInfo{}, err
	}
	defer leave()
	info, err := jobInfo(handle)
	if err != nil {
		return JobInfo{}, err
	}
	var stopped error
	if info.stopped < 0 {
		stopped = ended(j.ctx, &Error{Code: Code(info.stopped), Message: "the job is asked to stop"})
	}
	return JobInfo{
		Stopped: stopped, End: EndReason(info.end), Prompt: int(info.prompt_total), PromptDone: int(info.prompt_done), Tokens: int(info.n_tokens),
		Drafted: int(info.drafted), Accepted: int(info.accepted),
		PromptTime: time.Duration(info.prompt_ns), TokensTime: time.Duration(info.tokens_ns),
		FirstToken: time.Duration(info.first_token_ns),
	}, nil
}

func jobInfo(handle *C.rz_job) (info C.rz_job_info, err error) {
	info.struct_size = C.uint32_t(unsafe.Sizeof(info))
	var e C.rz_error
	return info, check(C.rz_job_info_get(handle, &info, &e), &e)
}
