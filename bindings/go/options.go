// Code generated from realizar.h by the build, as make header does. DO NOT EDIT.

package realizar

import "unsafe"

// RuntimeOptions are optional; the zero value means the defaults.
type RuntimeOptions struct {
	// Number of compute threads: the calling thread and threads - 1 workers; 1 creates no worker. 0: one per
	// processor that the process may use (hardware threads of a core count separately), or one per fast core if cores
	// differ. At most 1024.
	Threads int
	// Maximum bytes of host memory for weights, KV caches and scratch memory (GPU memory does not count); 0: no
	// limit.
	MemoryLimit uint64

	CPUs []uint32                             // CPUs that threads are pinned to; nil: not pinned
	Log  func(level LogLevel, message string) // called from any goroutine or thread, several at once; a panic of it is lost
}

func (o *RuntimeOptions) params() (params rz_runtime_params, err error) {
	var counts counts
	params.struct_size = uint32(unsafe.Sizeof(params))
	if o == nil {
		return params, nil
	}
	params.threads = counts.of(o.Threads, "Threads")
	params.memory_limit = o.MemoryLimit
	return params, counts.err
}

// LoadOptions are optional; the zero value means the defaults.
type LoadOptions struct {
	// Index of a device; 0: chosen by the library.
	Device uint32
	// Deterministic, batch-invariant results: they do not depend on the number of threads, on how a prompt was split
	// into chunks, or on other sequences of a batch. On the CPU this always holds. On a GPU the flag costs speed,
	// mostly in prefill. Results still differ between devices, and depend on the number of layers on each device.
	Deterministic bool
	// Uses the weights in place in the memory-mapped file; token generation is several times slower. The process dies
	// if the file is truncated while it is mapped.
	Mmap bool
	// Loads only metadata, tokenizer and chat template. The file needs no weights; no KV cache can be created.
	TextOnly bool
	// Measures the parts of each step on GPUs, which slows it down.
	Profile bool
	// Also loads the multi-token prediction (MTP) head, for speculative decoding.
	MTP bool
	// Ignores unknown keys and tensors, and counts them.
	AllowUnknown bool
	// Computes matrix products on the CPU in BF16 if that makes prefill faster. This needs a processor with AMX-BF16.
	// The first load with the flag in a process times a matrix product; the flag takes effect only if BF16 is faster
	// than the default arithmetic with exact integer sums.
	BF16Products bool
	// Number of layers on GPUs; 0: as many as fit; None: none.
	GPULayers int
	// Element type to which float matrices are quantized during the load.
	Quantize ElementType
	// Maximum prefill tokens in a batch that also decodes; 0: 64. A larger value lowers the time to first token and
	// raises the inter-token latency.
	MixedPrefillTokens int
	// Minimum number of tokens of a step for which experts are copied from the CPU to the GPU and computed there; 0:
	// measured by the load; None: no step.
	ExpertsCopiedFrom int

	Runtime      *Runtime    // threads, log and limits to share; nil: its own
	Threads      int         // without a Runtime; 0: as in RuntimeOptions
	Devices      []uint32    // GPUs that share the layers, in this order; instead of Device
	Shares       []float32   // relative shares of Devices; nil: by free memory
	Placements   []Placement // expert offload; nil: experts are where their layer is
	PackedPath   string      // file of packed weights, made by the first load and mapped by later ones; "": none
	TestedPath   string      // file that records passed GPU self-tests for later processes; "": none
	ChatTemplate string      // Jinja chat template; "": the model's own

	Progress func(done, total uint64) error // gets bytes; an error ends the load; may be nil
}

func (o *LoadOptions) params() (params rz_model_params, err error) {
	var counts counts
	params.struct_size = uint32(unsafe.Sizeof(params))
	if o == nil {
		return params, nil
	}
	params.device = o.Device
	if o.Deterministic {
		params.flags |= rz_MODEL_DETERMINISTIC
	}
	if o.Mmap {
		params.flags |= rz_MODEL_MMAP
	}
	if o.TextOnly {
		params.flags |= rz_MODEL_TEXT_ONLY
	}
	if o.Profile {
		params.flags |= rz_MODEL_PROFILE
	}
	if o.MTP {
		params.flags |= rz_MODEL_MTP
	}
	if o.AllowUnknown {
		params.flags |= rz_MODEL_ALLOW_UNKNOWN
	}
	if o.BF16Products {
		params.flags |= rz_MODEL_BF16_PRODUCTS
	}
	params.gpu_layers = counts.orNone(o.GPULayers, "GPULayers")
	params.quantize = uint32(o.Quantize)
	params.mixed_prefill_tokens = counts.of(o.MixedPrefillTokens, "MixedPrefillTokens")
	params.experts_copied_from = counts.orNone(o.ExpertsCopiedFrom, "ExpertsCopiedFrom")
	return params, counts.err
}

// Sampling has the sampling parameters. Zero in a field disables it; the zero value means greedy decoding.
type Sampling struct {
	// Divides the logits; 0: always the most likely token.
	Temperature float32
	// Keeps the k most likely tokens.
	TopK int
	// Keeps the most likely tokens that together reach this probability.
	TopP float32
	// Drops tokens whose probability is below this fraction of the most likely token's.
	MinP float32
	// Divides positive logits of recent tokens, multiplies negative ones.
	RepeatPenalty float32
	// Subtracted from the logit of every recent token.
	PresencePenalty float32
	// Subtracted from the logit of a recent token once per occurrence.
	FrequencyPenalty float32
	// Number of the last tokens, including tokens of the prompt, that count as recent; 0: all.
	PenaltyWindow int
	// The temperature comes before the filters, which keep their default order. Recommendations of models' authors,
	// and sampling in transformers, use this order. Not together with order.
	TemperatureFirst bool
	// Seed of the random number generator; 0 is a seed like any other.
	Seed uint64
	// Added to the logits of tokens; negative infinity forbids a token.
	LogitBias map[uint32]float32
	// Locally typical sampling: keeps the tokens whose information is closest to the entropy, until they together
	// reach this probability; 1: off.
	TypicalP float32
	// Drops logits more than this number of standard deviations (of the remaining logits) below the largest.
	TopNSigma float32
	// XTC: probability of a cut. A cut drops all tokens whose probability is at least XTCThreshold, except the least
	// likely one of them.
	XTCProbability float32
	// Minimum probability of tokens that XTC may drop; 0: 0.1. Above 0.5 XTC drops no token.
	XTCThreshold float32
	// Dynamic temperature: the temperature rises from temperature - TemperatureRange (at least 0) to temperature +
	// TemperatureRange with the entropy of the distribution, relative to the entropy of the uniform distribution.
	TemperatureRange float32
	// Exponent of the relative entropy for the dynamic temperature; 0 means the default, 1.
	TemperatureExponent float32
	// Mirostat 2: target mean surprise of tokens, in bits. The draw is among tokens whose surprise is at most a
	// bound, which begins at twice this value and is corrected after each draw.
	MirostatTau float32
	// Mirostat 2: learning rate, the fraction of the error that one draw corrects; 0 means the default, 0.1.
	MirostatEta float32
	// DRY: if the last n tokens occurred before (with the largest such n, at least DRYAllowedLength), the logit of
	// the token that followed the earlier occurrence is reduced by DRYMultiplier * DRYBase ^ (n - DRYAllowedLength).
	// n above 4096 counts as 4096.
	DRYMultiplier float32
	// Base of the DRY penalty, at least 1; 0: 1.75.
	DRYBase float32
	// Minimum length of repetitions that DRY penalizes; 0: 2.
	DRYAllowedLength int
	// Number of the last tokens, including the prompt, in which DRY looks for repetitions; 0: all.
	DRYWindow int
	// No sequence of this number of tokens occurs twice in the tokens of a cache, including the prompt: the token
	// that would complete such a repetition is not chosen. At most 4096.
	NoRepeatNgramSize int
	// Sequences of tokens across which DRY does not look for repetitions.
	DRYBreakers [][]uint32
	// Token sequences that are never generated: the last token of a sequence is not sampled after the other tokens.
	BannedSequences [][]uint32
	// The order of the filters and the temperature; empty: the default order.
	Order []Filter
}

func (o *Sampling) params() (params rz_sampler_params, err error) {
	var counts counts
	params.struct_size = uint32(unsafe.Sizeof(params))
	if o == nil {
		return params, nil
	}
	params.temperature = o.Temperature
	params.top_k = counts.of(o.TopK, "TopK")
	params.top_p = o.TopP
	params.min_p = o.MinP
	params.repeat_penalty = o.RepeatPenalty
	params.presence_penalty = o.PresencePenalty
	params.frequency_penalty = o.FrequencyPenalty
	params.penalty_window = counts.of(o.PenaltyWindow, "PenaltyWindow")
	if o.TemperatureFirst {
		params.flags |= rz_SAMPLER_TEMPERATURE_FIRST
	}
	params.seed = o.Seed
	params.typical_p = o.TypicalP
	params.top_n_sigma = o.TopNSigma
	params.xtc_probability = o.XTCProbability
	params.xtc_threshold = o.XTCThreshold
	params.temperature_range = o.TemperatureRange
	params.temperature_exponent = o.TemperatureExponent
	params.mirostat_tau = o.MirostatTau
	params.mirostat_eta = o.MirostatEta
	params.dry_multiplier = o.DRYMultiplier
	params.dry_base = o.DRYBase
	params.dry_allowed_length = counts.of(o.DRYAllowedLength, "DRYAllowedLength")
	params.dry_window = counts.of(o.DRYWindow, "DRYWindow")
	params.no_repeat_ngram_size = counts.of(o.NoRepeatNgramSize, "NoRepeatNgramSize")
	return params, counts.err
}

// SessionOptions are optional; the zero value means the defaults.
type SessionOptions struct {
	// Context length in tokens; 0: the model's, at most 8192.
	Capacity int
	// Element type of the keys.
	KType CacheType
	// Element type of the values.
	VType CacheType
}

func (o *SessionOptions) params() (params rz_cache_params, err error) {
	var counts counts
	params.struct_size = uint32(unsafe.Sizeof(params))
	if o == nil {
		return params, nil
	}
	params.capacity = counts.of(o.Capacity, "Capacity")
	params.k_type = uint32(o.KType)
	params.v_type = uint32(o.VType)
	return params, counts.err
}

// EncoderOptions are optional; the zero value means the defaults.
type EncoderOptions struct {
	// Index of a device; 0: the model's first GPU if the encoder fits there, otherwise the CPU.
	Device uint32
	// Element type to which float matrices are quantized during the load.
	Quantize ElementType
	// Maximum number of rows of an image or an audio clip; 0: the maximum in the files, but at most 4096.
	MaxRows int

	Kind         MediaKind // the encoder of a file that has several; 0: vision, else audio
	AllowUnknown bool      // ignore unknown keys and tensors

	Progress func(done, total uint64) error // gets bytes; an error ends the load; may be nil
}

func (o *EncoderOptions) params() (params rz_encoder_params, err error) {
	var counts counts
	params.struct_size = uint32(unsafe.Sizeof(params))
	if o == nil {
		return params, nil
	}
	params.device = o.Device
	params.quantize = uint32(o.Quantize)
	params.max_rows = counts.of(o.MaxRows, "MaxRows")
	return params, counts.err
}

// MediaOptions are optional; the zero value means the defaults.
type MediaOptions struct {
	// Minimum number of rows, for models that accept images of any size: smaller images are enlarged; 0: the model's.
	MinRows int
	// Maximum number of rows: larger images and frames are shrunk, or cut into fewer tiles; 0: the encoder's.
	MaxRows int
	// Maximum number of tiles, without an overview; 0: the model's; 1: only the whole image.
	MaxTiles int
	// Maximum number of pixels of an image file, checked by its header before memory is allocated; 0: 64 million.
	MaxPixels int
	// Background color of transparent pixels, 0xffRRGGBB; 0: white.
	Background uint32

	// InSteps: [Media.Step] encodes, until the context ends. Prompts reject the media until it is done. Progress is not
	// called.
	InSteps bool

	Progress func(done, total uint64) error // gets tiles; an error ends the call; may be nil
}

func (o *MediaOptions) params() (params rz_media_params, err error) {
	var counts counts
	params.struct_size = uint32(unsafe.Sizeof(params))
	if o == nil {
		return params, nil
	}
	params.min_rows = counts.of(o.MinRows, "MinRows")
	params.max_rows = counts.of(o.MaxRows, "MaxRows")
	params.max_tiles = counts.of(o.MaxTiles, "MaxTiles")
	params.max_pixels = counts.of(o.MaxPixels, "MaxPixels")
	params.background = o.Background
	return params, counts.err
}

// JobOptions are optional; the zero value means the defaults.
type JobOptions struct {
	// Maximum number of tokens to generate; 0: until the cache is full.
	MaxTokens int
	// Maximum draft tokens per step; 0: 16. Numbers above 32 count as 32.
	DraftMax int
	// Number of most likely tokens to return with each token, at most 32; 0: none; None: only the log probability of
	// the token itself.
	Logprobs int
	// Scheduling priority: higher first, may be negative; 0: normal.
	Priority int32

	Sampler    *Sampler    // copied as it is now; nil: greedy decoding
	Grammar    *Grammar    // constrains the text, from its start; nil: the sampler's grammar
	Stops      []string    // stop sequences, not empty; the text, or a reply's content, ends before the first one
	Draft      Draft       // speculative decoding, with an unchanged result
	DraftModel *Model      // if Draft is DraftModel: a small model with the same vocabulary
	Chat       *Transcript // parse the reply to it into Parts; the prompt must end with its tokens; nil: text

	// Prompt replaces tokens, which must be nil, from index PromptFirst on, as in Session.PrefillPrompt.
	Prompt      *Prompt
	PromptFirst int
}

func (o *JobOptions) params() (params rz_job_params, err error) {
	var counts counts
	params.struct_size = uint32(unsafe.Sizeof(params))
	if o == nil {
		return params, nil
	}
	params.max_tokens = counts.of(o.MaxTokens, "MaxTokens")
	params.draft_max = counts.of(o.DraftMax, "DraftMax")
	params.logprobs = counts.orNone(o.Logprobs, "Logprobs")
	params.priority = o.Priority
	return params, counts.err
}

// StoreOptions are optional; the zero value means the defaults.
type StoreOptions struct {
	// Minimum length in tokens of prefixes to keep and to look up; 0: 64.
	MinTokens int
	// Maximum bytes of prefixes in memory; 0: a tenth of the memory that is free now, at most 1 GiB. Memory that a
	// prefix shares with a shorter one counts once. Prefixes that wait to be written to the folder take additional
	// memory: up to a quarter of the limit, or one larger prefix.
	MemoryLimit uint64
	// Maximum number of prefixes in memory; 0: 1,024.
	MaxEntries int
	// Maximum bytes of files in the folder; beyond it the least recently used files are removed; 0: a tenth of the
	// free disk space (the folder's own files count as free), at most 16 GiB. The limit includes files that are being
	// written.
	DiskLimit uint64

	Path string // folder of files that outlive the process, created if missing; "": none
}

func (o *StoreOptions) params() (params rz_store_params, err error) {
	var counts counts
	params.struct_size = uint32(unsafe.Sizeof(params))
	if o == nil {
		return params, nil
	}
	params.min_tokens = counts.of(o.MinTokens, "MinTokens")
	params.memory_limit = o.MemoryLimit
	params.max_entries = uintptr(counts.of(o.MaxEntries, "MaxEntries"))
	params.disk_limit = o.DiskLimit
	return params, counts.err
}

// ReplyOptions are optional; the zero value means the defaults.
type ReplyOptions struct {
	// Maximum number of tokens to generate, including reasoning; 0: until the cache is full.
	MaxTokens int
	// Keeps the text of an abandoned reply as a message; otherwise the text is removed.
	Keep bool
	// Continues the last message, which must be a reply with the "finish_reason" "length", "context" or "cancelled".
	Continue bool
	// Whether a reply begins with reasoning; "model": as the chat template decides.
	Reasoning Reasoning
	// Maximum number of reasoning tokens (thinking budget); 0: no limit. After that number, and up to three more
	// tokens that complete a character, the library inserts the end of reasoning, and the model continues with its
	// answer. Ignored for a model that does not reason, and if MaxTokens leaves no tokens for an answer.
	ReasoningTokens int
	// Maximum draft tokens per step; 0: 16. Numbers above 32 count as 32.
	DraftMax int
	// Number of most likely tokens to return with each token, at most 32; 0: none; None: only the log probability of
	// the token itself.
	Logprobs int
	// Scheduling priority: higher first, may be negative; 0: normal.
	Priority int32

	Sampling     *Sampling   // nil: the model's recommended sampling parameters, or else greedy
	GrammarKind  GrammarKind // of Grammar, for the content; 0: the tool call grammar if there are tools
	GrammarFlags GrammarFlags
	Grammar      string
	Compiled     *Grammar // instead of Grammar, compiled before; a GrammarTools grammar is for the whole reply
	Stops        []string // stop sequences, not empty; the content ends before the first one
	Draft        Draft    // speculative decoding, with an unchanged result
	DraftModel   *Model   // if Draft is DraftModel: a small model with the same vocabulary

	// For this reply, instead of the conversation's; nil: the conversation's.
	Tools             []any          // as in [Transcript]; an empty list: none
	ToolChoice        any            // as in [Transcript]
	ParallelToolCalls *bool          // as in [Transcript]
	Variables         map[string]any // of the template, in addition to the conversation's
}

func (o *ReplyOptions) params() (params rz_reply_params, err error) {
	var counts counts
	params.struct_size = uint32(unsafe.Sizeof(params))
	if o == nil {
		return params, nil
	}
	params.max_tokens = counts.of(o.MaxTokens, "MaxTokens")
	if o.Keep {
		params.flags |= rz_REPLY_KEEP
	}
	if o.Continue {
		params.flags |= rz_REPLY_CONTINUE
	}
	params.reasoning = uint32(o.Reasoning)
	params.reasoning_tokens = counts.of(o.ReasoningTokens, "ReasoningTokens")
	params.draft_max = counts.of(o.DraftMax, "DraftMax")
	params.logprobs = counts.orNone(o.Logprobs, "Logprobs")
	params.priority = o.Priority
	return params, counts.err
}

// EmbedOptions are optional; the zero value means the defaults.
type EmbedOptions struct {
	// How the vectors of a text's tokens become one embedding.
	Pooling Pooling
	// Keeps the length of embeddings; otherwise they are normalized to length 1.
	Raw bool
}

func (o *EmbedOptions) params() (params rz_embed_params, err error) {
	params.struct_size = uint32(unsafe.Sizeof(params))
	if o == nil {
		return params, nil
	}
	params.pooling = uint32(o.Pooling)
	if o.Raw {
		params.flags |= rz_EMBED_RAW
	}
	return params, nil
}
