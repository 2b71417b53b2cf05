package realizar

import "unsafe"

// PartKind says what a part of a reply is.
type PartKind uint32

const (
	PartReasoning     PartKind = rz_CHAT_EVENT_REASONING
	PartContent       PartKind = rz_CHAT_EVENT_CONTENT
	PartToolName      PartKind = rz_CHAT_EVENT_TOOL_NAME      // whole; a call begins with it
	PartToolArguments PartKind = rz_CHAT_EVENT_TOOL_ARGUMENTS // a piece of a JSON object
	PartEnd           PartKind = rz_CHAT_EVENT_END
)

// Part is a part of a reply.
type Part struct {
	Kind     PartKind
	Call     int // number of the call that a name or arguments belong to
	Text     string
	Unparsed bool // content that begins like a call and is none; with PartEnd: there was such, or a call broke off
}

// Parts are those of a reply that are new since the last call, of a job by NewReply.
func (j *Job) Parts() (parts []Part, err error) {
	for {
		var kind, index uint32
		text, err := sized(j.job, 256, func(job uintptr, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
			return c.rz_job_next_into(job, &kind, &index, out, capacity, n, e)
		})
		if err != nil || kind == 0 {
			return parts, err
		}
		parts = append(parts, Part{PartKind(kind &^ rz_CHAT_EVENT_UNPARSED), int(index), string(text), kind&rz_CHAT_EVENT_UNPARSED != 0})
	}
}

// TokenLogprobs is a token that was made, and the likeliest ones in its place, the likeliest first.
type TokenLogprobs struct {
	Logprob
	Likeliest []Logprob
}

// Logprobs are those of the tokens that are new since the last call, of a job with Options.Logprobs.
func (j *Job) Logprobs() ([]TokenLogprobs, error) {
	var values []float32
	tokens, err := sized(j.job, 64, func(job uintptr, out *uint32, capacity uintptr, n *uintptr, e *rz_error) int32 {
		values = make([]float32, capacity)
		return c.rz_job_logprobs_into(job, out, unsafe.SliceData(values), capacity, n, e)
	})
	if err != nil {
		return nil, err
	}
	info, err := filled(j.job, c.rz_job_info_get)
	if err != nil {
		return nil, err
	}
	rows := make([]TokenLogprobs, int(info.n_tokens)-j.rows) // of which each has as many entries
	j.rows = int(info.n_tokens)
	all := paired(tokens, values)
	for i := range rows {
		width := len(all) / len(rows)
		rows[i] = TokenLogprobs{all[i*width], all[i*width+1 : (i+1)*width]}
	}
	return rows, nil
}
