// The options of calls. The build writes this file: make header.

export type ElementType =
  | "default" | "f32" | "f16" | "bf16" | "q4_0" | "q4_1" | "q5_0" | "q5_1" | "q8_0" | "q4_k" | "q5_k" | "q6_k";

export type CacheType =
  | "default" | "f32" | "f16" | "q4_0" | "q8_0";

export type Reasoning =
  | "model" | "off" | "on";

export type Pooling =
  | "model" | "none" | "mean" | "cls" | "last" | "rank";

export type Filter =
  | "topNSigma" | "topK" | "typicalP" | "topP" | "minP" | "xtc" | "temperature";

export interface RuntimeParams {
  /** Number of compute threads: the calling thread and threads - 1 workers; 1 creates no worker. 0: one per
   * processor that the process may use (hardware threads of a core count separately), or one per fast core if
   * cores differ. At most 1024. */
  threads?: number;
  /** Maximum bytes of host memory for weights, KV caches and scratch memory (GPU memory does not count); 0: no
   * limit. */
  memoryLimit?: number;
}

export interface LoadParams {
  /** Index of a device; 0: chosen by the library. */
  device?: number;
  /** Deterministic, batch-invariant results: they do not depend on the number of threads, on how a prompt was split
   * into chunks, or on other sequences of a batch. On the CPU this always holds. On a GPU the flag costs speed,
   * mostly in prefill. Results still differ between devices, and depend on the number of layers on each device. */
  deterministic?: boolean;
  /** Uses the weights in place in the memory-mapped file; token generation is several times slower. The process
   * dies if the file is truncated while it is mapped. */
  mmap?: boolean;
  /** Loads only metadata, tokenizer and chat template. The file needs no weights; no KV cache can be created. */
  textOnly?: boolean;
  /** Also loads the multi-token prediction (MTP) head, for speculative decoding. */
  mtp?: boolean;
  /** Ignores unknown keys and tensors, and counts them. */
  allowUnknown?: boolean;
  /** Computes matrix products on the CPU in BF16 if that makes prefill faster. This needs a processor with
   * AMX-BF16. The first load with the flag in a process times a matrix product; the flag takes effect only if BF16
   * is faster than the default arithmetic with exact integer sums. */
  bf16Products?: boolean;
  /** Number of layers on GPUs; 0: none; absent: as many as fit. */
  gpuLayers?: number;
  /** Element type to which float matrices are quantized during the load. */
  quantize?: ElementType;
  /** Maximum prefill tokens in a batch that also decodes; 0: 64. A larger value lowers the time to first token and
   * raises the inter-token latency. */
  mixedPrefillTokens?: number;
  /** Minimum number of tokens of a step for which experts are copied from the CPU to the GPU and computed there; 0:
   * no step; absent: measured by the load. */
  expertsCopiedFrom?: number;
}

export interface SamplingParams {
  /** Divides the logits; 0: always the most likely token. */
  temperature?: number;
  /** Keeps the k most likely tokens. */
  topK?: number;
  /** Keeps the most likely tokens that together reach this probability. */
  topP?: number;
  /** Drops tokens whose probability is below this fraction of the most likely token's. */
  minP?: number;
  /** Divides positive logits of recent tokens, multiplies negative ones. */
  repeatPenalty?: number;
  /** Subtracted from the logit of every recent token. */
  presencePenalty?: number;
  /** Subtracted from the logit of a recent token once per occurrence. */
  frequencyPenalty?: number;
  /** Number of the last tokens, including tokens of the prompt, that count as recent; 0: all. */
  penaltyWindow?: number;
  /** The temperature comes before the filters, which keep their default order. Recommendations of models' authors,
   * and sampling in transformers, use this order. Not together with order. */
  temperatureFirst?: boolean;
  /** Seed of the random number generator; 0 is a seed like any other. */
  seed?: number;
  /** Added to the logits of tokens; negative infinity forbids a token. */
  biases?: [token: number, bias: number][];
  /** Locally typical sampling: keeps the tokens whose information is closest to the entropy, until they together
   * reach this probability; 1: off. */
  typicalP?: number;
  /** Drops logits more than this number of standard deviations (of the remaining logits) below the largest. */
  topNSigma?: number;
  /** XTC: probability of a cut. A cut drops all tokens whose probability is at least xtcThreshold, except the least
   * likely one of them. */
  xtcProbability?: number;
  /** Minimum probability of tokens that XTC may drop; 0: 0.1. Above 0.5 XTC drops no token. */
  xtcThreshold?: number;
  /** Dynamic temperature: the temperature rises from temperature - temperatureRange (at least 0) to temperature +
   * temperatureRange with the entropy of the distribution, relative to the entropy of the uniform distribution. */
  temperatureRange?: number;
  /** Exponent of the relative entropy for the dynamic temperature; 0 means the default, 1. */
  temperatureExponent?: number;
  /** Mirostat 2: target mean surprise of tokens, in bits. The draw is among tokens whose surprise is at most a
   * bound, which begins at twice this value and is corrected after each draw. */
  mirostatTau?: number;
  /** Mirostat 2: learning rate, the fraction of the error that one draw corrects; 0 means the default, 0.1. */
  mirostatEta?: number;
  /** DRY: if the last n tokens occurred before (with the largest such n, at least dryAllowedLength), the logit of
   * the token that followed the earlier occurrence is reduced by dryMultiplier * dryBase ^ (n - dryAllowedLength).
   * n above 4096 counts as 4096. */
  dryMultiplier?: number;
  /** Base of the DRY penalty, at least 1; 0: 1.75. */
  dryBase?: number;
  /** Minimum length of repetitions that DRY penalizes; 0: 2. */
  dryAllowedLength?: number;
  /** Number of the last tokens, including the prompt, in which DRY looks for repetitions; 0: all. */
  dryWindow?: number;
  /** No sequence of this number of tokens occurs twice in the tokens of a cache, including the prompt: the token
   * that would complete such a repetition is not chosen. At most 4096. */
  noRepeatNgramSize?: number;
  /** Sequences of tokens across which DRY does not look for repetitions. */
  dryBreakers?: (Uint32Array | number[])[];
  /** Token sequences that are never generated: the last token of a sequence is not sampled after the other tokens. */
  bannedSequences?: (Uint32Array | number[])[];
  /** The order of the filters and the temperature; empty: the default order. */
  order?: Filter[];
}

export interface CacheParams {
  /** Context length in tokens; 0: the model's, at most 8192. */
  capacity?: number;
  /** Element type of the keys. */
  kType?: CacheType;
  /** Element type of the values. */
  vType?: CacheType;
}

export interface EncoderParams {
  /** Index of a device; 0: the model's first GPU if the encoder fits there, otherwise the CPU. */
  device?: number;
  /** Element type to which float matrices are quantized during the load. */
  quantize?: ElementType;
  /** Maximum number of rows of an image or an audio clip; 0: the maximum in the files, but at most 4096. */
  maxRows?: number;
}

export interface MediaParams {
  /** Minimum number of rows, for models that accept images of any size: smaller images are enlarged; 0: the
   * model's. */
  minRows?: number;
  /** Maximum number of rows: larger images and frames are shrunk, or cut into fewer tiles; 0: the encoder's. */
  maxRows?: number;
  /** Maximum number of tiles, without an overview; 0: the model's; 1: only the whole image. */
  maxTiles?: number;
  /** Maximum number of pixels of an image file, checked by its header before memory is allocated; 0: 64 million. */
  maxPixels?: number;
  /** Background color of transparent pixels, 0xffRRGGBB; 0: white. */
  background?: number;
}

export interface JobParams {
  /** Maximum number of tokens to generate; 0: until the cache is full. */
  maxTokens?: number;
  /** Maximum draft tokens per step; 0: 16. Numbers above 32 count as 32. */
  draftMax?: number;
  /** Scheduling priority: higher first, may be negative; 0: normal. */
  priority?: number;
}

export interface StoreParams {
  /** Minimum length in tokens of prefixes to keep and to look up; 0: 64. */
  minTokens?: number;
  /** Maximum bytes of prefixes in memory; 0: a tenth of the memory that is free now, at most 1 GiB. Memory that a
   * prefix shares with a shorter one counts once. Prefixes that wait to be written to the folder take additional
   * memory: up to a quarter of the limit, or one larger prefix. */
  memoryLimit?: number;
  /** Maximum number of prefixes in memory; 0: 1,024. */
  maxEntries?: number;
  /** Maximum bytes of files in the folder; beyond it the least recently used files are removed; 0: a tenth of the
   * free disk space (the folder's own files count as free), at most 16 GiB. The limit includes files that are
   * being written. */
  diskLimit?: number;
}

export interface ReplyParams {
  /** Maximum number of tokens to generate, including reasoning; 0: until the cache is full. */
  maxTokens?: number;
  /** Keeps the text of an abandoned reply as a message; otherwise the text is removed. */
  keep?: boolean;
  /** Continues the last message, which must be a reply with the "finish_reason" "length", "context" or "cancelled". */
  continue?: boolean;
  /** Whether a reply begins with reasoning; "model": as the chat template decides. */
  reasoning?: Reasoning;
  /** Maximum number of reasoning tokens (thinking budget); 0: no limit. After that number, and up to three more
   * tokens that complete a character, the library inserts the end of reasoning, and the model continues with its
   * answer. Ignored for a model that does not reason, and if maxTokens leaves no tokens for an answer. */
  reasoningTokens?: number;
  /** Maximum draft tokens per step; 0: 16. Numbers above 32 count as 32. */
  draftMax?: number;
  /** Number of most likely tokens to return with each token, at most 32; 0: only the log probability of the token
   * itself; absent: none. */
  logprobs?: number;
  /** Scheduling priority: higher first, may be negative; 0: normal. */
  priority?: number;
}

export interface EmbedParams {
  /** How the vectors of a text's tokens become one embedding. */
  pooling?: Pooling;
  /** Keeps the length of embeddings; otherwise they are normalized to length 1. */
  raw?: boolean;
}
