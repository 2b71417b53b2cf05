package realizar

import "unsafe"

// PartKind says what a part of a reply is.
type PartKind uint32

const (
	PartReasoning     PartKind = rz_CHAT_EVENT_REASONING
	PartContent       PartKind = rz_CHAT_EVENT_CONTENT
	PartToolID        PartKind = rz_CHAT_EVENT_TOOL_ID        // whole; a call begins with it, and its message has the same
	PartToolName      PartKind = rz_CHAT_EVENT_TOOL_NAME      // whole
	PartToolArguments PartKind = rz_CHAT_EVENT_TOOL_ARGUMENTS // a piece of a JSON object
	PartEnd           PartKind = rz_CHAT_EVENT_END
)

// Part is a part of a reply.
type Part struct {
	Kind     PartKind
	Call     int // number of the call that an id, a name or arguments belong to
	Text     string
	Unparsed bool // content that begins like a call and is none; with PartEnd: there was such, or a call broke off
}

// Parts are those of a reply that are new since the last call, of a job with JobOptions.Chat.
func (j *Job) Parts() ([]Part, error) { return partsOf(j.job, c.rz_job_next_into) }

// partsOf is the parts that an object has ready.
func partsOf(h *handle, next func(object uintptr, kind, flags, index *uint32, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32) (parts []Part, err error) {
	for {
		var kind, flags, index uint32
		text, err := sized(h, 256, func(object uintptr, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
			return next(object, &kind, &flags, &index, out, capacity, n, e)
		})
		if err != nil || kind == 0 {
			return parts, err
		}
		parts = append(parts, Part{PartKind(kind), int(index), string(text), flags&rz_CHAT_EVENT_FLAG_UNPARSED != 0})
	}
}

// TokenLogprobs is a token that was made, and the likeliest ones in its place, the likeliest first.
type TokenLogprobs struct {
	Logprob
	Likeliest []Logprob
}

// Logprobs are those of the tokens that are new since the last call, of a job with JobOptions.Logprobs.
func (j *Job) Logprobs() ([]TokenLogprobs, error) {
	return logprobsOf(j.job, j.width, c.rz_job_logprobs_into)
}

// logprobsOf is the rows that an object has ready, of so many entries each.
func logprobsOf(h *handle, width int,
	read func(object uintptr, tokens *uint32, logprobs *float32, capacity uintptr, n *uintptr, e *rz_error) int32) (rows []TokenLogprobs, err error) {
	var values []float32
	tokens, err := sized(h, 64, func(object uintptr, out *uint32, capacity uintptr, n *uintptr, e *rz_error) int32 {
		values = make([]float32, capacity)
		return read(object, out, unsafe.SliceData(values), capacity, n, e)
	})
	all := paired(tokens, values)
	for ; err == nil && len(all) >= width; all = all[width:] {
		rows = append(rows, TokenLogprobs{all[0], all[1:width]})
	}
	return rows, err
}
