package realizar

/*
#include <stdlib.h>
#include <realizar.h>
*/
import "C"

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// Job is a generation that works when it is stepped: a prompt and the tokens that follow it. Its session is in use until
// the job is closed.
type Job struct {
	busy   sync.Mutex // held by every call
	job    *owned[*C.rz_job]
	cancel *owned[*C.rz_cancel]
	made   *[]uint32 // tokens that were read
}

// JobOptions are optional; the zero value means the most likely token, as many as there is room for.
type JobOptions struct {
	Sampler   *Sampler // copied as it is now
	Grammar   *Grammar // what may be written, from its start; nil: what the sampler allows
	MaxTokens int
	Stops     []string // none of them empty; the text ends ahead of the first that is complete
	Draft     Draft    // how next tokens are guessed, which changes nothing but the time
	DraftMax  int      // tokens of a draft at most; 0: chosen by the library
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
)

// JobInfo is the state of a job.
type JobInfo struct {
	End                                EndReason
	Prompt, PromptDone, Tokens         int
	Drafted, Accepted                  int // tokens of drafts that were computed, and those of them that were right
	PromptTime, TokensTime, FirstToken time.Duration
}

// NewJob makes a job that appends a prompt to the session and generates. Nothing is computed yet.
func (s *Session) NewJob(prompt []uint32, options *JobOptions) (*Job, error) {
	if options == nil {
		options = &JobOptions{}
	}
	cache, leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	job, err := s.makeJob(cache, leave, prompt, options)
	if err != nil {
		leave()
	}
	return job, err
}

func (s *Session) makeJob(cache *C.rz_cache, leave func(), prompt []uint32, options *JobOptions) (*Job, error) {
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
	var e C.rz_error
	if err := check(C.rz_cancel_new(&params.cancel, &e), &e); err != nil {
		return nil, err
	}
	cancel := own(params.cancel, func(cancel *C.rz_cancel) { C.rz_cancel_free(cancel) })
	var handle *C.rz_job
	if err := check(C.rz_job_new(cache, &params, &handle, &e), &e); err != nil {
		cancel.close()
		return nil, err
	}
	prompt, made := append([]uint32(nil), prompt...), new([]uint32)
	job := own(handle, func(handle *C.rz_job) {
		if rest, err := jobTokens(handle); err == nil {
			*made = append(*made, rest...)
		}
		C.rz_job_free(handle)
		cancel.close()
		// Those that are not in the cache are cut off when the session is left.
		s.tokens = append(append(s.tokens, prompt...), *made...)
		leave()
	})
	j := &Job{job: job, cancel: cancel, made: made}
	runtime.AddCleanup(j, (*owned[*C.rz_job]).close, job)
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
	if !j.busy.TryLock() {
		return nil, nil, &Error{Code: ErrBusy, Message: "the job is in use by another call"}
	}
	if handle, err = j.job.acquire(); err != nil {
		j.busy.Unlock()
		return nil, nil, err
	}
	return handle, func() {
		j.job.release()
		j.busy.Unlock()
	}, nil
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
	return StepJobs(ctx, []*Job{j}, budget)
}

// StepJobs is [Job.Step] for several jobs of one model in common passes over the weights. It tells whether there is more to
// do; of no jobs there is not.
func StepJobs(ctx context.Context, jobs []*Job, budget time.Duration) (more bool, err error) {
	handles := make([]*C.rz_job, len(jobs))
	for i, j := range jobs {
		handle, leave, err := j.enter()
		if err != nil {
			return false, err
		}
		defer leave()
		handles[i] = handle
		// A job that has ended asks no more whether to stop, so that each is watched.
		cancel, err := j.cancel.acquire()
		if err != nil {
			return false, err
		}
		defer j.cancel.release()
		stop, err := watchWith(ctx, cancel)
		if err != nil {
			return false, err
		}
		defer func() {
			stop()
			C.rz_cancel_reset(cancel)
		}()
	}
	var e C.rz_error
	status := C.rz_jobs_step(unsafe.SliceData(handles), C.size_t(len(handles)), C.uint64_t(microseconds(budget)), &e)
	return status == C.RZ_AGAIN, ended(ctx, check(status, &e))
}

// Text is what is new since the last call, whole UTF-8, stop strings cut out.
func (j *Job) Text() (string, error) {
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

// Tokens are those that are new since the last call, one that ends the text included.
func (j *Job) Tokens() ([]uint32, error) {
	handle, leave, err := j.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	tokens, err := jobTokens(handle)
	*j.made = append(*j.made, tokens...)
	return tokens, err
}

func jobTokens(handle *C.rz_job) ([]uint32, error) {
	kept := own(handle, func(*C.rz_job) {})
	return sized(kept, 64, func(handle *C.rz_job, out *uint32, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_job_tokens_into(handle, (*C.uint32_t)(out), capacity, n, e)
	})
}

// Info is the state of the job.
func (j *Job) Info() (JobInfo, error) {
	handle, leave, err := j.enter()
	if err != nil {
		return JobInfo{}, err
	}
	defer leave()
	var info C.rz_job_info
	info.struct_size = C.uint32_t(unsafe.Sizeof(info))
	var e C.rz_error
	if err := check(C.rz_job_info_get(handle, &info, &e), &e); err != nil {
		return JobInfo{}, err
	}
	return JobInfo{
		End: EndReason(info.end), Prompt: int(info.prompt_total), PromptDone: int(info.prompt_done), Tokens: int(info.n_tokens),
		Drafted: int(info.drafted), Accepted: int(info.accepted),
		PromptTime: time.Duration(info.prompt_ns), TokensTime: time.Duration(info.tokens_ns),
		FirstToken: time.Duration(info.first_token_ns),
	}, nil
}
