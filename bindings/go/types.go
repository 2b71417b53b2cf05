// Code generated from realizar.h by the build, as make header does. DO NOT EDIT.

package realizar

// ElementType is a type that a load can quantize float matrices to.
type ElementType uint32

// The values of ElementType.
const (
	// The types of the file.
	TypeDefault ElementType = rz_TYPE_DEFAULT
	// Single precision.
	TypeF32 ElementType = rz_TYPE_F32
	// Half precision.
	TypeF16 ElementType = rz_TYPE_F16
	// Bfloat16.
	TypeBF16 ElementType = rz_TYPE_BF16
	// Blocks of 32 values with 4 bits each and a scale, 4.5 bits per value.
	TypeQ4_0 ElementType = rz_TYPE_Q4_0
	// Blocks of 32 values with 4 bits each, a scale and a minimum, 5 bits per value.
	TypeQ4_1 ElementType = rz_TYPE_Q4_1
	// Blocks of 32 values with 5 bits each and a scale, 5.5 bits per value.
	TypeQ5_0 ElementType = rz_TYPE_Q5_0
	// Blocks of 32 values with 5 bits each, a scale and a minimum, 6 bits per value.
	TypeQ5_1 ElementType = rz_TYPE_Q5_1
	// Blocks of 32 values with 8 bits each and a scale, 8.5 bits per value.
	TypeQ8_0 ElementType = rz_TYPE_Q8_0
	// K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also a minimum; the
	// digit is the number of bits per value.
	TypeQ4_K ElementType = rz_TYPE_Q4_K
	// K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also a minimum; the
	// digit is the number of bits per value.
	TypeQ5_K ElementType = rz_TYPE_Q5_K
	// K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also a minimum; the
	// digit is the number of bits per value.
	TypeQ6_K ElementType = rz_TYPE_Q6_K
)

// CacheType is the element type of the keys or the values of a KV cache.
type CacheType uint32

// The values of CacheType.
const (
	// The same as F16.
	CacheDefault CacheType = rz_TYPE_DEFAULT
	// Single precision, 32 bits per value.
	CacheF32 CacheType = rz_TYPE_F32
	// Half precision on a GPU, 14-bit integers with scales on the CPU: 16 bits per value.
	CacheF16 CacheType = rz_TYPE_F16
	// 4.5 bits per value; better for values than for keys.
	CacheQ4_0 CacheType = rz_TYPE_Q4_0
	// Blocks of 32 values with 8 bits each and a scale, 8.5 bits per value.
	CacheQ8_0 CacheType = rz_TYPE_Q8_0
)

// LogLevel is the level of a log message.
type LogLevel int32

// The values of LogLevel.
const (
	// A call failed with ErrPanic or ErrDeviceLost.
	LogError LogLevel = rz_LOG_ERROR
	// Something is worse than the caller may expect.
	LogWarning LogLevel = rz_LOG_WARNING
	// Description of a model and where it was loaded.
	LogInfo LogLevel = rz_LOG_INFO
)

// DeviceKind is the kind of a device.
type DeviceKind uint32

// The values of DeviceKind.
const (
	// The processors of the host.
	CPU DeviceKind = rz_DEVICE_CPU
	// A GPU.
	GPU DeviceKind = rz_DEVICE_GPU
)

// Place is a memory location for a part of a model.
type Place uint32

// The values of Place.
const (
	// The experts of the last layers are on GPUs, as many layers as fit in addition to everything else, including a
	// cache of default capacity. The experts of the other layers are on the CPU.
	PlaceAuto Place = rz_PLACE_AUTO
	// On the CPU.
	PlaceCPU Place = rz_PLACE_CPU
	// The experts of the last layers are on GPUs, for as many layers as possible while these experts take at most
	// `bytes` in total. The experts of the other layers are on the CPU.
	PlaceGPU Place = rz_PLACE_GPU
)

// Capabilities is a set of bits for features of a model and its conversations: info.Capabilities&CanTools != 0.
type Capabilities uint32

// The values of Capabilities.
const (
	// The model computes logits and can generate tokens.
	CanGenerate Capabilities = rz_CAN_GENERATE
	// The chat template supports system messages.
	CanSystem Capabilities = rz_CAN_SYSTEM
	// Tool calling (function calling): the chat template renders "tools", and the format of the model's tool calls is
	// known.
	CanTools Capabilities = rz_CAN_TOOLS
	// Replies may begin with reasoning.
	CanReason Capabilities = rz_CAN_REASON
	// ReasoningOn and ReasoningOff work.
	CanSwitchReasoning Capabilities = rz_CAN_SWITCH_REASONING
	// The chat template supports images in user messages.
	CanImages Capabilities = rz_CAN_IMAGES
	// The same for audio.
	CanAudio Capabilities = rz_CAN_AUDIO
	// The same for video.
	CanVideo Capabilities = rz_CAN_VIDEO
)

// Filter is a filter of tokens, by the option of [Sampling], or the temperature.
type Filter uint32

// The values of Filter.
const (
	FilterTopNSigma   Filter = rz_FILTER_TOP_N_SIGMA
	FilterTopK        Filter = rz_FILTER_TOP_K
	FilterTypicalP    Filter = rz_FILTER_TYPICAL_P
	FilterTopP        Filter = rz_FILTER_TOP_P
	FilterMinP        Filter = rz_FILTER_MIN_P
	FilterXTC         Filter = rz_FILTER_XTC
	FilterTemperature Filter = rz_FILTER_TEMPERATURE
)

// GrammarFlags is a set of bits that change a grammar.
type GrammarFlags uint32

// The values of GrammarFlags.
const (
	// Allows up to 40 characters of white space, including line breaks, between the parts of JSON.
	GrammarWhitespace GrammarFlags = rz_GRAMMAR_FLAG_WHITESPACE
	// Ignores and logs keywords of a GrammarJSONSchema that cannot be compiled.
	GrammarBestEffort GrammarFlags = rz_GRAMMAR_FLAG_BEST_EFFORT
)

// GrammarKind is the language in which a grammar is written.
type GrammarKind uint32

// The values of GrammarKind.
const (
	// A JSON schema, draft 4 to 2020-12.
	GrammarJSONSchema GrammarKind = rz_GRAMMAR_JSON_SCHEMA
	// A regular expression that the whole text matches, without look-around and back references.
	GrammarRegex GrammarKind = rz_GRAMMAR_REGEX
	// Llguidance's dialect of Lark; the rule "start" is the whole text. A name between angle brackets, such as
	// <|im_end|>, is the token with this name.
	GrammarLark GrammarKind = rz_GRAMMAR_LARK
	// A GBNF grammar, as in llama.cpp.
	GrammarGBNF GrammarKind = rz_GRAMMAR_GBNF
	// Any JSON value. Takes no text.
	GrammarJSON GrammarKind = rz_GRAMMAR_JSON
	// One of several texts, given as a JSON array of strings.
	GrammarChoices GrammarKind = rz_GRAMMAR_CHOICES
	// The reply to a [Transcript] in JSON: text, or tool calls.
	GrammarTools GrammarKind = rz_GRAMMAR_TOOLS
)

// PartKind is the kind of a part of a reply. A tool call consists of its id, its name, and pieces of its arguments.
type PartKind uint32

// The values of PartKind.
const (
	// Reasoning before the answer.
	PartReasoning PartKind = rz_CHAT_EVENT_REASONING
	// Text of the answer.
	PartContent PartKind = rz_CHAT_EVENT_CONTENT
	// Complete name of the called tool; it follows the id of the tool call.
	PartToolName PartKind = rz_CHAT_EVENT_TOOL_NAME
	// Fragment of the arguments of a tool call. All fragments together are a JSON object.
	PartToolArguments PartKind = rz_CHAT_EVENT_TOOL_ARGUMENTS
	// End. Its text is a partial tag, or a tool call without a name, if the reply broke off there; otherwise it is
	// empty.
	PartEnd PartKind = rz_CHAT_EVENT_END
	// Complete id of a tool call; it begins the call. The message in the conversation has the same id. It differs
	// from the ids of all other calls in the conversation and has the form that the chat template requires; an id
	// that the model wrote before the arguments is kept.
	PartToolID PartKind = rz_CHAT_EVENT_TOOL_ID
)

// PixelFormat is the order of the bytes of a pixel.
type PixelFormat uint32

// The values of PixelFormat.
const (
	// Three bytes, red first.
	PixelsRGB8 PixelFormat = rz_PIXELS_RGB8
	// Four bytes, red first, then alpha.
	PixelsRGBA8 PixelFormat = rz_PIXELS_RGBA8
	// Four bytes, blue first, then alpha.
	PixelsBGRA8 PixelFormat = rz_PIXELS_BGRA8
	// One byte.
	PixelsGray8 PixelFormat = rz_PIXELS_GRAY8
)

// MediaKind is the kind of media that rows represent.
type MediaKind uint32

// The values of MediaKind.
const (
	// An image.
	Image MediaKind = rz_MEDIA_IMAGE
	// Audio.
	Audio MediaKind = rz_MEDIA_AUDIO
	// The source text of an encoder-decoder model.
	Text MediaKind = rz_MEDIA_TEXT
	// An image embedding from a CLIP or SigLIP encoder.
	Vector MediaKind = rz_MEDIA_VECTOR
	// Frames of a video.
	Video MediaKind = rz_MEDIA_VIDEO
)

// Draft is the source of draft tokens for speculative decoding, which changes the speed only.
type Draft uint32

// The values of Draft.
const (
	// No speculative decoding, except for tokens that a grammar forces.
	DraftNone Draft = rz_DRAFT_NONE
	// Prompt lookup decoding (n-gram speculation): drafts the tokens that followed an earlier occurrence of the last
	// tokens. For answers that repeat the prompt, such as edited text, code and summaries.
	DraftLookup Draft = rz_DRAFT_LOOKUP
	// A draft model: a small model with the same vocabulary, or a draft head.
	DraftModel Draft = rz_DRAFT_MODEL
	// The model's multi-token prediction (MTP) head, loaded with LoadOptions.MTP.
	DraftMTP Draft = rz_DRAFT_MTP
)

// EndReason is why a text has ended.
type EndReason uint32

// The values of EndReason.
const (
	// A token that ends a turn or the text.
	EndToken EndReason = rz_END_TOKEN
	// The maximum number of tokens.
	EndLength EndReason = rz_END_LENGTH
	// A stop sequence.
	EndStop EndReason = rz_END_STOP
	// The cache is full.
	EndContext EndReason = rz_END_CONTEXT
	// The grammar is complete.
	EndGrammar EndReason = rz_END_GRAMMAR
	// Its own error: Job.Err, Conversation.Err.
	EndFailed EndReason = rz_END_FAILED
	// Conversation.Stop, or discarded with ReplyOptions.Keep.
	EndCancelled EndReason = rz_END_CANCELLED
)

// Overflow is what happens if messages and a reply exceed the context.
type Overflow uint32

// The values of Overflow.
const (
	// The reply fails with ErrContextFull.
	OverflowFail Overflow = rz_OVERFLOW_FAIL
	// Whole turns are left out of its prompt, the oldest first.
	OverflowForget Overflow = rz_OVERFLOW_FORGET
)

// Reasoning is whether a reply begins with reasoning.
type Reasoning uint32

// The values of Reasoning.
const (
	// The chat template's default.
	ReasoningModel Reasoning = rz_REASONING_MODEL
	// None.
	ReasoningOff Reasoning = rz_REASONING_OFF
	// The model may reason before its answer.
	ReasoningOn Reasoning = rz_REASONING_ON
)

// Pooling is how the vectors of the tokens become the embedding of a text.
type Pooling uint32

// The values of Pooling.
const (
	// The pooling that the model was trained with.
	PoolingModel Pooling = rz_POOLING_MODEL
	// None, a vector for each token.
	PoolingNone Pooling = rz_POOLING_NONE
	// The mean over all tokens.
	PoolingMean Pooling = rz_POOLING_MEAN
	// The vector of the first token.
	PoolingCLS Pooling = rz_POOLING_CLS
	// The vector of the last token.
	PoolingLast Pooling = rz_POOLING_LAST
	// The scores of the model's classifier, for reranking. They are never normalized.
	PoolingRank Pooling = rz_POOLING_RANK
)
