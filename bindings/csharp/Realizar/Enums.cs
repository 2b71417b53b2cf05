// Kinds, states and reasons. The build writes this file: make header.
using System;

namespace Realizar
{
    /// <summary>The level of a log message.</summary>
    public enum LogLevel
    {
        /// <summary>A call failed with Status.Panic or Status.DeviceLost.</summary>
        Error = Native.RZ_LOG_ERROR,
        /// <summary>Something is worse than the caller may expect.</summary>
        Warning = Native.RZ_LOG_WARNING,
        /// <summary>Information.</summary>
        Info = Native.RZ_LOG_INFO,
    }

    /// <summary>A memory location for a part of a model.</summary>
    public enum Place
    {
        /// <summary>The experts of the last layers are on GPUs, as many layers as fit in addition to everything
        /// else, including a cache of default capacity. The experts of the other layers are on the CPU.</summary>
        Auto = Native.RZ_PLACE_AUTO,
        /// <summary>On the CPU.</summary>
        Cpu = Native.RZ_PLACE_CPU,
        /// <summary>The experts of the last layers are on GPUs, for as many layers as possible while these experts
        /// take at most Bytes in total. The experts of the other layers are on the CPU.</summary>
        Gpu = Native.RZ_PLACE_GPU,
    }

    /// <summary>Features of a model and its conversations.</summary>
    [Flags]
    public enum Capabilities
    {
        /// <summary>None of these.</summary>
        None,
        /// <summary>The model computes logits and can generate tokens. Not set for embedding models, nor with
        /// LoadOptions.TextOnly.</summary>
        Generate = Native.RZ_CAN_GENERATE,
        /// <summary>The chat template supports system messages.</summary>
        System = Native.RZ_CAN_SYSTEM,
        /// <summary>Tool calling (function calling): the chat template renders "tools", and the format of the
        /// model's tool calls is known.</summary>
        Tools = Native.RZ_CAN_TOOLS,
        /// <summary>Replies may begin with reasoning.</summary>
        Reason = Native.RZ_CAN_REASON,
        /// <summary>Reasoning can be switched with Reasoning.On and Reasoning.Off.</summary>
        SwitchReasoning = Native.RZ_CAN_SWITCH_REASONING,
        /// <summary>The chat template supports images in user messages.</summary>
        Images = Native.RZ_CAN_IMAGES,
        /// <summary>The same for audio.</summary>
        Audio = Native.RZ_CAN_AUDIO,
        /// <summary>The same for video.</summary>
        Video = Native.RZ_CAN_VIDEO,
    }

    /// <summary>A filter of tokens, or the temperature.</summary>
    public enum Filter
    {
        /// <summary>Sampling.TopNSigma.</summary>
        TopNSigma = Native.RZ_FILTER_TOP_N_SIGMA,
        /// <summary>Sampling.TopK.</summary>
        TopK = Native.RZ_FILTER_TOP_K,
        /// <summary>Sampling.TypicalP.</summary>
        TypicalP = Native.RZ_FILTER_TYPICAL_P,
        /// <summary>Sampling.TopP.</summary>
        TopP = Native.RZ_FILTER_TOP_P,
        /// <summary>Sampling.MinP.</summary>
        MinP = Native.RZ_FILTER_MIN_P,
        /// <summary>Sampling.XtcProbability.</summary>
        Xtc = Native.RZ_FILTER_XTC,
        /// <summary>Sampling.Temperature.</summary>
        Temperature = Native.RZ_FILTER_TEMPERATURE,
    }

    /// <summary>The language in which a grammar is written.</summary>
    public enum GrammarKind
    {
        /// <summary>A JSON schema, draft 4 to 2020-12.</summary>
        JsonSchema = Native.RZ_GRAMMAR_JSON_SCHEMA,
        /// <summary>A regular expression that the whole text matches, without look-around and back
        /// references.</summary>
        Regex = Native.RZ_GRAMMAR_REGEX,
        /// <summary>Llguidance's dialect of Lark; the rule "start" is the whole text. A name between angle
        /// brackets, such as &lt;|im_end|>, is the token with this name.</summary>
        Lark = Native.RZ_GRAMMAR_LARK,
        /// <summary>GBNF, without tokens.</summary>
        Gbnf = Native.RZ_GRAMMAR_GBNF,
        /// <summary>Any JSON value. Takes no text.</summary>
        Json = Native.RZ_GRAMMAR_JSON,
        /// <summary>One of several texts, given as a JSON array of strings.</summary>
        Choices = Native.RZ_GRAMMAR_CHOICES,
        /// <summary>Tool calls, given as the JSON of a conversation.</summary>
        Tools = Native.RZ_GRAMMAR_TOOLS,
    }

    /// <summary>The kind of a part of a reply. A tool call consists of its id, its name, and pieces of its
    /// arguments.</summary>
    public enum PartKind
    {
        /// <summary>Reasoning before the answer.</summary>
        Reasoning = Native.RZ_CHAT_EVENT_REASONING,
        /// <summary>Text of the answer.</summary>
        Content = Native.RZ_CHAT_EVENT_CONTENT,
        /// <summary>Complete name of the called tool; it follows the id of the tool call.</summary>
        ToolName = Native.RZ_CHAT_EVENT_TOOL_NAME,
        /// <summary>Fragment of the arguments of a tool call. All fragments together are a JSON object.</summary>
        ToolArguments = Native.RZ_CHAT_EVENT_TOOL_ARGUMENTS,
        /// <summary>End. Its text is a partial tag, or a tool call without a name, if the reply broke off there;
        /// otherwise it is empty.</summary>
        End = Native.RZ_CHAT_EVENT_END,
        /// <summary>Complete id of a tool call; it begins the call. The message in the conversation has the same
        /// id. It differs from the ids of all other calls in the conversation and has the form that the chat
        /// template requires; an id that the model wrote before the arguments is kept.</summary>
        ToolId = Native.RZ_CHAT_EVENT_TOOL_ID,
    }

    /// <summary>The order of the bytes of a pixel.</summary>
    public enum PixelFormat
    {
        /// <summary>Three bytes, red first.</summary>
        Rgb8 = Native.RZ_PIXELS_RGB8,
        /// <summary>Four bytes, red first, then alpha: transparent pixels show MediaOptions.Background.</summary>
        Rgba8 = Native.RZ_PIXELS_RGBA8,
        /// <summary>Four bytes, blue first, then alpha.</summary>
        Bgra8 = Native.RZ_PIXELS_BGRA8,
        /// <summary>One byte.</summary>
        Gray8 = Native.RZ_PIXELS_GRAY8,
    }

    /// <summary>The kind of media that rows represent.</summary>
    public enum MediaKind
    {
        /// <summary>An image.</summary>
        Image = Native.RZ_MEDIA_IMAGE,
        /// <summary>Audio.</summary>
        Audio = Native.RZ_MEDIA_AUDIO,
        /// <summary>An image embedding from a CLIP or SigLIP encoder.</summary>
        Vector = Native.RZ_MEDIA_VECTOR,
        /// <summary>Frames of a video.</summary>
        Video = Native.RZ_MEDIA_VIDEO,
    }

    /// <summary>The source of draft tokens for speculative decoding, which changes the speed only.</summary>
    public enum Draft
    {
        /// <summary>No speculative decoding, except for tokens that a grammar forces.</summary>
        None = Native.RZ_DRAFT_NONE,
        /// <summary>Drafts the tokens that followed an earlier occurrence of the last tokens. For answers that
        /// repeat the prompt, such as edited text, code and summaries.</summary>
        Lookup = Native.RZ_DRAFT_LOOKUP,
        /// <summary>A small model, or a draft head from a file of its own. The job creates a cache of at most
        /// 1,024 tokens for a small model; if the text is longer, the draft model first processes only the last
        /// 256 tokens. A draft head must have been trained for the model of the job's cache. Two kinds are
        /// supported: EAGLE-3 (arXiv 2503.01840), as a GGUF file ("eagle3") or as a folder of EAGLE, SpecForge or
        /// speculators; and the assistant of a Gemma 4, as a GGUF file ("gemma4-assistant") or as its
        /// folder.</summary>
        Model = Native.RZ_DRAFT_MODEL,
        /// <summary>Speculative decoding with the model's multi-token prediction (MTP) head, loaded by
        /// LoadOptions.Mtp. The head has its own cache, with one layer and the capacity of the job's cache. This
        /// cache belongs to the job, and covers only the tokens that the job itself appends.</summary>
        Mtp = Native.RZ_DRAFT_MTP,
    }

    /// <summary>Why a text has ended.</summary>
    public enum JobEnd
    {
        /// <summary>The text has not ended.</summary>
        None,
        /// <summary>A token that ends a turn or the text.</summary>
        Token = Native.RZ_END_TOKEN,
        /// <summary>The maximum number of tokens.</summary>
        Length = Native.RZ_END_LENGTH,
        /// <summary>A stop sequence.</summary>
        Stop = Native.RZ_END_STOP,
        /// <summary>The cache is full.</summary>
        Context = Native.RZ_END_CONTEXT,
        /// <summary>The grammar is complete.</summary>
        Grammar = Native.RZ_END_GRAMMAR,
        /// <summary>An error of this text only: no token could be sampled, or its grammar exceeded a
        /// limit.</summary>
        Failed = Native.RZ_END_FAILED,
        /// <summary>The caller stopped or abandoned the text.</summary>
        Cancelled = Native.RZ_END_CANCELLED,
    }

    /// <summary>The state of a reply.</summary>
    public enum ReplyState
    {
        /// <summary>There was no reply, or it was abandoned.</summary>
        None,
        /// <summary>Prefill of the prompt.</summary>
        Prompt = Native.RZ_STATE_PROMPT,
        /// <summary>Token generation.</summary>
        Tokens = Native.RZ_STATE_TOKENS,
        /// <summary>Ended.</summary>
        Ended = Native.RZ_STATE_ENDED,
    }

    /// <summary>What happens if messages and a reply exceed the context.</summary>
    public enum Overflow
    {
        /// <summary>A prompt that does not fit fails with Status.ContextFull; a full cache ends the reply
        /// (JobEnd.Context).</summary>
        Fail = Native.RZ_OVERFLOW_FAIL,
        /// <summary>The oldest turns are left out of the prompt.</summary>
        Forget = Native.RZ_OVERFLOW_FORGET,
    }

    /// <summary>Whether a reply begins with reasoning.</summary>
    public enum Reasoning
    {
        /// <summary>The chat template's default.</summary>
        Model = Native.RZ_REASONING_MODEL,
        /// <summary>None. Status.Unsupported if the template has no switch for it ("enable_thinking" or
        /// "thinking").</summary>
        Off = Native.RZ_REASONING_OFF,
        /// <summary>The model may reason before its answer. Status.Unsupported if the template has no
        /// reasoning.</summary>
        On = Native.RZ_REASONING_ON,
    }

    /// <summary>How the vectors of the tokens become the embedding of a text.</summary>
    public enum Pooling
    {
        /// <summary>The pooling that the model was trained with.</summary>
        Model = Native.RZ_POOLING_MODEL,
        /// <summary>None, a vector for each token.</summary>
        None = Native.RZ_POOLING_NONE,
        /// <summary>The mean over all tokens.</summary>
        Mean = Native.RZ_POOLING_MEAN,
        /// <summary>The vector of the first token.</summary>
        Cls = Native.RZ_POOLING_CLS,
        /// <summary>The vector of the last token.</summary>
        Last = Native.RZ_POOLING_LAST,
        /// <summary>The scores of the model's classifier, for reranking. They are never normalized.</summary>
        Rank = Native.RZ_POOLING_RANK,
    }
}
