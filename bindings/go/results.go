// Code generated from realizar.h by the build, as make header does. DO NOT EDIT.

package realizar

import "time"

// Device is a CPU or GPU.
type Device struct {
	// Index of the device; it may differ between processes.
	Index uint32
	// Identifier, equal in every process on this machine: "cpu", or the UUID of a GPU, such as
	// "8d4f7a0e-2c31-4b7e-9d55-0f6e1a2b3c4d", which NVIDIA's tools print after "GPU-" or "MIG-"; empty if unknown.
	// Two GPUs of the same model have different ids.
	ID string
	// Name, such as "cuda:0 NVIDIA H200".
	Name string
	// Kind of the device.
	Kind DeviceKind
	// True if models can be loaded onto the device.
	Available bool
	// Instruction set or compute capability, such as "avx512vnni" or "sm_90".
	ISA string
	// Total memory in bytes; 0 if unknown.
	MemoryTotal uint64
	// Free memory in bytes; 0 if unknown.
	MemoryFree uint64
	// Reason why the device cannot be used; empty if it can.
	Unavailable string
}

func (c *rz_device_info) value() (v Device) {
	v.Index = c.index
	v.ID = stringOf(c.id[:])
	v.Name = stringOf(c.name[:])
	v.Kind = DeviceKind(c.kind)
	v.Available = c.available != 0
	v.ISA = stringOf(c.isa[:])
	v.MemoryTotal = c.memory_total
	v.MemoryFree = c.memory_free
	v.Unavailable = stringOf(c.unavailable[:])
	return v
}

// RuntimeInfo is the state of a runtime.
type RuntimeInfo struct {
	// Number of compute threads from the next step on, including the calling thread.
	Threads int
	// Bytes of host memory that count against the limit now: weights, KV caches, scratch memory.
	MemoryUsed uint64
	// Peak of MemoryUsed since the runtime was created.
	MemoryPeak uint64
	// Memory limit in bytes; 0: no limit.
	MemoryLimit uint64
}

func (c *rz_runtime_info) value() (v RuntimeInfo) {
	v.Threads = int(c.threads)
	v.MemoryUsed = c.memory_used
	v.MemoryPeak = c.memory_peak
	v.MemoryLimit = c.memory_limit
	return v
}

// Info is the description of a model.
type Info struct {
	// Family of the network, such as "llama" or "qwen3".
	Architecture string
	// Name of the model; empty if the file has none.
	Name string
	// Transformer layers.
	NLayers int
	// Width of the residual stream, in values.
	HiddenDim int
	// Width of the feed-forward block, in values.
	FFNDim int
	// Query heads.
	NHeads int
	// Key and value heads.
	NKVHeads int
	// Values per head.
	HeadDim int
	// Number of token ids, which run from 0 to VocabSize - 1; also the number of logits.
	VocabSize int
	// Context length in tokens that the model was trained for, as declared in the file.
	ContextLength int
	// Index of the device that the model was loaded to; with several GPUs the first.
	Device uint32
	// Token that begins a text (BOS); NoToken: none.
	BOS uint32
	// Token that ends a text (EOS); NoToken: none. There may be more.
	EOS uint32
	// Number of parameters.
	NParams uint64
	// Bytes of weights in memory; 0 if no weights were loaded.
	WeightBytes uint64
	// Number of layers on GPUs; the CPU computes the other layers, which come first.
	GPULayers int
	// Number of unknown keys and tensors that the load ignored.
	Unknown int
	// True if the model is an encoder-decoder, which generates from a source text (Model.MediaFromTokens).
	ReadsSource bool
	// Instruction set of matrix products on the CPU, such as "avx2" or "amx-bf16"; empty if no product is computed
	// there.
	ISA string
	// What the model and its conversations support.
	Capabilities Capabilities
	// Number of floats in a text embedding; 0: the model computes no embeddings.
	EmbeddingDim int
	// Pooling of embeddings; the zero value: the file declares none, so that the caller must choose.
	Pooling Pooling
	// Number of scores of the model's classifier (reranking); 0: it has no classifier.
	NScores int

	Devices           []uint32 // GPUs that have layers, in layer order
	DeviceLayers      []int    // number of layers on each of Devices
	HasTemplate       bool     // RenderChat works
	TemplateWritesBOS bool     // so tokenize its output without BOS
}

func (c *rz_model_info) value() (v Info) {
	v.Architecture = stringOf(c.architecture[:])
	v.Name = stringOf(c.name[:])
	v.NLayers = int(c.n_layers)
	v.HiddenDim = int(c.hidden_dim)
	v.FFNDim = int(c.ffn_dim)
	v.NHeads = int(c.n_heads)
	v.NKVHeads = int(c.n_kv_heads)
	v.HeadDim = int(c.head_dim)
	v.VocabSize = int(c.vocab_size)
	v.ContextLength = int(c.context_length)
	v.Device = c.device
	v.BOS = c.bos_token
	v.EOS = c.eos_token
	v.NParams = c.n_params
	v.WeightBytes = c.weight_bytes
	v.GPULayers = int(c.gpu_layers)
	v.Unknown = int(c.n_unknown)
	v.ReadsSource = c.reads_source != 0
	v.ISA = stringOf(c.isa[:])
	v.Capabilities = Capabilities(c.capabilities)
	v.EmbeddingDim = int(c.embedding_dim)
	v.Pooling = Pooling(c.pooling)
	v.NScores = int(c.n_scores)
	return v
}

// Plan is the memory that a model and its sessions take, in bytes.
type Plan struct {
	// Number of layers on GPUs.
	GPULayers int
	// Weights in host memory, as they are packed.
	WeightsHost uint64
	// Weights on GPUs.
	WeightsDevice uint64
	// Host memory of one KV cache at full capacity: keys, values, tokens and logits.
	CacheHost uint64
	// GPU memory of one KV cache at full capacity.
	CacheDevice uint64
	// Bytes that one more token of capacity adds to a cache.
	CacheToken uint64
	// Scratch memory of one full-size step. With several threads, a model runs one such step at a time; up to eight
	// concurrent steps of at most 16 tokens take less in addition. In a runtime with one thread, each concurrent step
	// takes this much.
	ScratchHost uint64
	// Scratch memory on GPUs.
	ScratchDevice uint64
	// Peak host memory during the load.
	LoadPeakHost uint64
	// Total host memory: the model, its tokenizer, scratch memory and all caches.
	TotalHost uint64
	// Total GPU memory: weights, all caches, scratch memory, and at most what the driver allocates when it records
	// repeated steps of one token (CUDA graphs).
	TotalDevice uint64
	// First GPU layer whose experts are on the CPU, from 0.
	FirstExpertsHost int
	// Number of layers from `FirstExpertsHost` to the last layer whose experts are on the CPU; 0: none.
	NExpertsHost int
	// Part of WeightsHost: experts of layers on GPUs.
	ExpertsHost uint64
	// Part of WeightsDevice: experts.
	ExpertsDevice uint64

	Devices []PlanDevice // memory on each GPU that has layers
}

func (c *rz_model_plan) value() (v Plan) {
	v.GPULayers = int(c.gpu_layers)
	v.WeightsHost = c.weights_host
	v.WeightsDevice = c.weights_device
	v.CacheHost = c.cache_host
	v.CacheDevice = c.cache_device
	v.CacheToken = c.cache_token
	v.ScratchHost = c.scratch_host
	v.ScratchDevice = c.scratch_device
	v.LoadPeakHost = c.load_peak_host
	v.TotalHost = c.total_host
	v.TotalDevice = c.total_device
	v.FirstExpertsHost = int(c.experts_host_first)
	v.NExpertsHost = int(c.experts_host_layers)
	v.ExpertsHost = c.experts_host
	v.ExpertsDevice = c.experts_device
	return v
}

// PlanDevice is the part of a plan that is on one GPU, in bytes.
type PlanDevice struct {
	// Index of the device.
	Device uint32
	// Number of layers on the GPU.
	Layers int
	// Weights.
	Weights uint64
	// Part of one KV cache.
	Cache uint64
	// Scratch memory.
	Scratch uint64
	// Total GPU memory.
	Total uint64
}

func (c *rz_model_plan_device) value() (v PlanDevice) {
	v.Device = c.device
	v.Layers = int(c.n_layers)
	v.Weights = c.weights
	v.Cache = c.cache
	v.Scratch = c.scratch
	v.Total = c.total
	return v
}

// EncoderInfo is the description of an encoder.
type EncoderInfo struct {
	// True if the rows of an image attend to each other (bidirectional attention), so one step of the model must
	// compute all of them.
	Mutual bool
	// Kind of the projector, such as "qwen3vl_merger" or "voxtral".
	Projector string
	// Number of floats per row.
	RowDim int
	// Layers of the encoder.
	NLayers int
	// Side length of a tile in pixels; 0: an image is one tile of any size, or the encoder is an audio encoder.
	TileSide int
	// The sides of tiles are multiples of this number of pixels; 0 for audio.
	Grain int
	// Minimum number of rows of an image or an audio clip.
	MinRows int
	// Maximum number of rows of an image or an audio clip.
	MaxRows int
	// Bytes of weights in memory, on the CPU or the GPU.
	WeightBytes uint64
	// Maximum bytes of scratch memory in host memory of each call that encodes an image or an audio clip.
	ScratchBytes uint64
	// Kinds of media that the encoder accepts.
	Kinds []MediaKind
	// Sample rate in Hz to which audio is resampled; 0 for images.
	SampleRate int
	// Index of the device that the encoder was loaded to.
	Device uint32
}

func (c *rz_encoder_info) value() (v EncoderInfo) {
	v.Mutual = c.is_mutual != 0
	v.Projector = stringOf(c.projector[:])
	v.RowDim = int(c.row_dim)
	v.NLayers = int(c.n_layers)
	v.TileSide = int(c.tile_side)
	v.Grain = int(c.grain)
	v.MinRows = int(c.min_rows)
	v.MaxRows = int(c.max_rows)
	v.WeightBytes = c.weight_bytes
	v.ScratchBytes = c.scratch_bytes
	v.Kinds = kinds(c.kinds)
	v.SampleRate = int(c.sample_rate)
	v.Device = c.device
	return v
}

// EncoderPlan is the memory that an encoder takes in addition to its model's, in bytes.
type EncoderPlan struct {
	// Number of rows of the largest image, or of the longest audio clip.
	MaxRows int
	// Weights in host memory, as they are packed.
	WeightsHost uint64
	// Maximum scratch memory of a call that encodes an image or an audio clip.
	ScratchHost uint64
	// One row of a media item.
	Row uint64
	// Weights on a GPU.
	WeightsDevice uint64
	// Maximum scratch memory on a GPU of a call that encodes an image or an audio clip. The encoder keeps the scratch
	// memory of one call for the next one; calls at the same time take this much each.
	ScratchDevice uint64
	// Index of the device that the load would choose.
	Device uint32
}

func (c *rz_encoder_plan) value() (v EncoderPlan) {
	v.MaxRows = int(c.max_rows)
	v.WeightsHost = c.weights_host
	v.ScratchHost = c.scratch_host
	v.Row = c.row
	v.WeightsDevice = c.weights_device
	v.ScratchDevice = c.scratch_device
	v.Device = c.device
	return v
}

// MediaInfo is the description of media.
type MediaInfo struct {
	// Kind of the media.
	Kind MediaKind
	// Number of rows, each of which takes the place of a token in a cache.
	Rows int
	// Number of prompt tokens that the media item takes: its rows, and the model's tokens around and between the
	// rows.
	Tokens int
	// Number of floats per row.
	RowDim int
	// Rows per line of a tile. An image without tiles counts as one tile, and so does a pair of video frames.
	Columns int
	// Number of lines of a tile.
	Lines int
	// Number of tiles horizontally; 0 if the image is one tile.
	TileColumns int
	// Number of tiles vertically; 0 if the image is one tile.
	TileLines int
	// True if an additional tile shows the whole image.
	Overview bool
	// Width in pixels of the upright image, or of a frame; for audio the number of samples; 0 for a media item that
	// was created from rows.
	Width int
	// Height in pixels; 0 for audio and for a media item that was created from rows.
	Height int
	// Width in pixels of all tiles together, as the model sees them. Programs need it to convert coordinates in the
	// model's output to pixels of the image. For audio the number of samples at the rate of the encoder.
	SeenWidth int
	// Height in pixels of all tiles together; 0 for audio.
	SeenHeight int
	// Bytes of memory.
	Bytes uint64
	// Time of the encoding.
	EncodeTime time.Duration
	// Hash of pixels or samples, parameters and encoder, independent of the file format. Callers may use it as a
	// cache key.
	Hash [32]byte
	// Number of frame pairs of a video, each of which has `lines` lines of `columns` rows; 0 for other media.
	Pairs int
}

func (c *rz_media_info) value() (v MediaInfo) {
	v.Kind = MediaKind(c.kind)
	v.Rows = int(c.n_rows)
	v.Tokens = int(c.n_tokens)
	v.RowDim = int(c.row_dim)
	v.Columns = int(c.columns)
	v.Lines = int(c.lines)
	v.TileColumns = int(c.tile_columns)
	v.TileLines = int(c.tile_lines)
	v.Overview = c.has_overview != 0
	v.Width = int(c.width)
	v.Height = int(c.height)
	v.SeenWidth = int(c.seen_width)
	v.SeenHeight = int(c.seen_height)
	v.Bytes = c.bytes
	v.EncodeTime = time.Duration(c.encode_ns)
	v.Hash = c.hash
	v.Pairs = int(c.pairs)
	return v
}

// JobInfo is the state of a job.
type JobInfo struct {
	// Why the text has ended, once it has.
	End EndReason
	// Number of tokens of the prompt.
	Prompt int
	// Number of prompt tokens that are in the cache.
	PromptDone int
	// Number of generated tokens, including a token that ends the text.
	Tokens int
	// Total time of the job's prefill steps, and of its decode steps (including drafting).
	PromptTime time.Duration
	TokensTime time.Duration
	// Time to first token (TTFT); 0 before the first token.
	FirstToken time.Duration
	// Number of draft tokens verified, including tokens forced by a grammar, and number of draft tokens accepted.
	Drafted  int
	Accepted int

	Stopped error // context error that stopped an unfinished job; else nil
}

func (c *rz_job_info) value() (v JobInfo) {
	v.End = EndReason(c.end_reason)
	v.Prompt = int(c.prompt_total)
	v.PromptDone = int(c.prompt_done)
	v.Tokens = int(c.n_tokens)
	v.PromptTime = time.Duration(c.prompt_ns)
	v.TokensTime = time.Duration(c.tokens_ns)
	v.FirstToken = time.Duration(c.first_token_ns)
	v.Drafted = int(c.drafted)
	v.Accepted = int(c.accepted)
	return v
}

// StoreInfo is the state of a store.
type StoreInfo struct {
	// Number of prefixes in memory.
	Entries int
	// Number of prefixes in files of the model.
	Files int
	// Number of prefixes dropped because they could not be written (on a full disk, for example), since the store was
	// created. The log has the reason.
	Unwritten int
	// Bytes in memory.
	MemoryBytes uint64
	// Bytes in files.
	DiskBytes uint64
	// Number of lookups that found a prefix, since the store was created.
	Hits uint64
	// Number of lookups that found no prefix.
	Misses uint64
	// Number of tokens that needed no prefill because of hits.
	ReusedTokens uint64
}

func (c *rz_store_info) value() (v StoreInfo) {
	v.Entries = int(c.n_entries)
	v.Files = int(c.n_files)
	v.Unwritten = int(c.n_unwritten)
	v.MemoryBytes = c.memory_bytes
	v.DiskBytes = c.disk_bytes
	v.Hits = c.hits
	v.Misses = c.misses
	v.ReusedTokens = c.reused_tokens
	return v
}

// ConversationInfo is the state of a conversation and of its last reply.
type ConversationInfo struct {
	// Number of messages.
	Messages int
	// Index of the first message in prompts; 0 unless turns were left out.
	FirstInPrompt int
	// Why the text has ended, once it has.
	End EndReason
	// Number of tokens of the reply's prompt.
	Prompt int
	// Number of prompt tokens that the cache already held (cached tokens).
	Reused int
	// Number of prompt tokens that had to be computed and are in the cache by now.
	PromptDone int
	// Number of generated tokens, including a token that ends the reply.
	Tokens int
	// Number of reasoning tokens among the generated tokens.
	ReasoningTokens int
	// Number of draft tokens verified.
	Drafted int
	// Number of draft tokens accepted.
	Accepted int
	// Number of tokens in the cache.
	Len int
	// Capacity of the cache in tokens.
	Capacity int
	// Number of media in the messages.
	MediaCount int
	// Total time of the reply's prefill steps.
	PromptTime time.Duration
	// Total time of the reply's decode steps.
	TokensTime time.Duration
	// Time to first token (TTFT); 0 before the first token.
	FirstToken time.Duration

	Unfinished bool  // true during a reply
	Stopped    error // context error that stopped an unfinished reply; else nil
}

func (c *rz_conversation_info) value() (v ConversationInfo) {
	v.Messages = int(c.n_messages)
	v.FirstInPrompt = int(c.first_in_prompt)
	v.End = EndReason(c.end_reason)
	v.Prompt = int(c.prompt_tokens)
	v.Reused = int(c.reused_tokens)
	v.PromptDone = int(c.prompt_done)
	v.Tokens = int(c.n_tokens)
	v.ReasoningTokens = int(c.reasoning_tokens)
	v.Drafted = int(c.drafted)
	v.Accepted = int(c.accepted)
	v.Len = int(c.cache_len)
	v.Capacity = int(c.cache_capacity)
	v.MediaCount = int(c.n_media)
	v.PromptTime = time.Duration(c.prompt_ns)
	v.TokensTime = time.Duration(c.tokens_ns)
	v.FirstToken = time.Duration(c.first_token_ns)
	return v
}

// Phase is the number and the total time of the calls of one kind.
type Phase struct {
	// Number of calls.
	Count uint64
	// Total time.
	Time time.Duration
}

func (c *rz_phase_metrics) value() (v Phase) {
	v.Count = c.count
	v.Time = time.Duration(c.sum_ns)
	return v
}

// Metrics is a model's work by phases, since it was loaded or its metrics were reset.
type Metrics struct {
	// Load.
	Load Phase
	// Tokenization.
	Tokenize Phase
	// Prefill.
	Prefill Phase
	// Decode: one token at a time, including sampling of the next one.
	Decode Phase
	// Sampling.
	Sample Phase
	// Detokenization.
	Detokenize Phase
	// Encoding of images, from their pixels to the rows of a media item.
	Encode Phase
}

func (c *rz_metrics) value() (v Metrics) {
	v.Load = c.load.value()
	v.Tokenize = c.tokenize.value()
	v.Prefill = c.prefill.value()
	v.Decode = c.decode.value()
	v.Sample = c.sample.value()
	v.Detokenize = c.detokenize.value()
	v.Encode = c.encode.value()
	return v
}

// DeviceMetrics is the work of one kind of device, in dispatches: passes of tokens through its layers.
type DeviceMetrics struct {
	// Number of dispatches; if 0, all values below are 0.
	Dispatches uint64
	// Bytes read and written by dispatches.
	Bytes uint64
	// Total latency.
	LatencySum time.Duration
	// Minimum latency.
	LatencyMin time.Duration
	// Maximum latency.
	LatencyMax time.Duration
	// Mean latency.
	LatencyMean time.Duration
	// Entry 0 counts latencies under 1 microsecond, entry i counts latencies from 2^(i-1) to below 2^i microseconds,
	// and the last entry counts all longer latencies.
	LatencyHistogram [32]uint64
}

func (c *rz_backend_metrics) value() (v DeviceMetrics) {
	v.Dispatches = c.dispatches
	v.Bytes = c.bytes
	v.LatencySum = time.Duration(c.latency_sum_ns)
	v.LatencyMin = time.Duration(c.latency_min_ns)
	v.LatencyMax = time.Duration(c.latency_max_ns)
	v.LatencyMean = time.Duration(c.latency_mean_ns)
	v.LatencyHistogram = c.latency_histogram
	return v
}
