// The results of calls. The build writes this file: make header.
import type { Pooling } from "./options";

/** A device that models can be loaded to. */
export interface Device {
  /** Number of the device, for `LoadOptions.device`; the CPU is 1. */
  index: number;
  /** Identifier, equal in every process on this machine: "cpu", or the UUID of a GPU, such as
   * "8d4f7a0e-2c31-4b7e-9d55-0f6e1a2b3c4d", which NVIDIA's tools print after "GPU-" or "MIG-"; empty if unknown.
   * Two GPUs of the same model have different ids. */
  id: string;
  /** Name, such as "cuda:0 NVIDIA H200". */
  name: string;
  /** Kind of the device. */
  kind: "cpu" | "gpu";
  /** True if models can be loaded to it. */
  available: boolean;
  /** Instruction set or compute capability, such as "avx512vnni" or "sm_90". */
  isa: string;
  /** Total memory in bytes; 0 if unknown. */
  memoryTotal: number;
  /** Free memory in bytes; 0 if unknown. */
  memoryFree: number;
  /** Reason why the device cannot be used; empty if it can. */
  unavailable: string;
}

/** Memory that a model and its sessions will take, in bytes. */
export interface LoadPlan {
  /** Number of layers on GPUs. */
  gpuLayers: number;
  /** Weights in host memory, as they are packed. */
  weightsHost: number;
  /** Weights on GPUs. */
  weightsDevice: number;
  /** Host memory of one KV cache at full capacity: keys, values, tokens and logits. */
  cacheHost: number;
  /** GPU memory of one KV cache at full capacity. */
  cacheDevice: number;
  /** Bytes that one more token of capacity adds to a cache. */
  cacheToken: number;
  /** Scratch memory of one full-size step. With several threads, a model runs one such step at a time; up to eight
   * concurrent steps of at most 16 tokens take less in addition. In a runtime with one thread, each concurrent
   * step takes this much. */
  scratchHost: number;
  /** Scratch memory on GPUs. */
  scratchDevice: number;
  /** Peak host memory during the load. */
  loadPeakHost: number;
  /** Total host memory: the model, its tokenizer, scratch memory and all caches. */
  totalHost: number;
  /** Total GPU memory: weights, all caches, scratch memory, and at most what the driver allocates when it records
   * repeated steps of one token (CUDA graphs). */
  totalDevice: number;
  /** First GPU layer whose experts are on the CPU, from 0. */
  expertsHostFirst: number;
  /** The number of layers up to the last one whose experts are on the CPU. */
  expertsHostLayers: number;
  /** Experts (MoE) on the CPU. */
  expertsHost: number;
  /** Experts on GPUs. */
  expertsDevice: number;
}

/** What the file of a model contains, and where it was loaded. */
export interface ModelFacts {
  /** Family of the network, such as "llama" or "qwen3". */
  architecture: string;
  /** Name of the model; empty if the file has none. */
  name: string;
  /** Transformer layers. */
  nLayers: number;
  /** Width of the residual stream, in values. */
  hiddenDim: number;
  /** Width of the feed-forward block, in values. */
  ffnDim: number;
  /** Query heads. */
  nHeads: number;
  /** Key and value heads. */
  nKvHeads: number;
  /** Values per head. */
  headDim: number;
  /** Number of token ids, which begin at 0. */
  vocabSize: number;
  /** Context length in tokens that the model was trained for, as declared in the file. */
  contextLength: number;
  /** Index of the device that the model was loaded to; with several GPUs the first. */
  device: number;
  /** The token that begins a text; absent: none. */
  bosToken?: number;
  /** A token that ends a text; absent: none. */
  eosToken?: number;
  /** Number of parameters. */
  nParams: number;
  /** Bytes of weights in memory. */
  weightBytes: number;
  /** Number of layers on GPUs; the CPU computes the other layers, which come first. */
  gpuLayers: number;
  /** True if the model has a chat template. */
  chatTemplate: boolean;
  /** True if the chat template writes the token that begins a text. */
  templateWritesBos: boolean;
  /** Number of keys and tensors that `allowUnknown` ignored. */
  nUnknown: number;
  /** First GPU layer whose experts are on the CPU, from 0. */
  expertsHostFirst: number;
  /** Bytes of experts on the host that belong to layers on GPUs. */
  expertsHost: number;
  /** Bytes of experts on GPUs. */
  expertsDevice: number;
  /** The number of layers up to the last one whose experts are on the CPU. */
  expertsHostLayers: number;
  /** True for an encoder-decoder model. */
  readsSource: boolean;
  /** Instruction set of matrix products on the CPU, such as "avx2" or "amx-bf16"; empty if no product is computed
   * there. */
  isa: string;
  /** Minimum tokens of a step that copies experts from the CPU to the GPU; absent: never. */
  expertsCopiedFrom?: number;
  /** Features of its conversations, and "generate". */
  capabilities: ("generate" | "system" | "tools" | "reason" | "switchReasoning" | "images" | "audio" | "video")[];
  /** Numbers of the embedding of a text (`embed`); 0: the model makes none. */
  embeddingDim: number;
  /** The default pooling; absent: the file names none, and `embed` needs one. */
  pooling?: Pooling;
  /** Classifier outputs (pooling "rank"); 0: no classifier. */
  nScores: number;
}

/** What an encoder accepts, and what it makes of it. */
export interface EncoderFacts {
  /** True if the rows of an image attend to each other, so that one step must compute them all. */
  isMutual: boolean;
  /** Kind of the projector, such as "qwen3vl_merger" or "voxtral". */
  projector: string;
  /** Numbers of a row, as many as the embeddings of the model have. */
  rowDim: number;
  /** Layers of the encoder. */
  nLayers: number;
  /** Side length of a tile in pixels; 0: an image is one tile of any size, or the encoder is an audio encoder. */
  tileSide: number;
  /** The sides of tiles are multiples of this number of pixels; 0 for audio. */
  grain: number;
  /** Minimum number of rows of an image or an audio clip. */
  minRows: number;
  /** Maximum number of rows of an image or an audio clip. */
  maxRows: number;
  /** Bytes of weights in memory. */
  weightBytes: number;
  /** Maximum bytes of scratch memory in host memory of each call that encodes an image or an audio clip. */
  scratchBytes: number;
  /** Kinds of media that it encodes. */
  kinds: ("image" | "audio" | "text" | "vector" | "video")[];
  /** Sample rate in Hz to which audio is resampled; 0 for images. */
  sampleRate: number;
  /** Index of the device that the encoder was loaded to. */
  device: number;
}

/** Memory that an encoder will take in addition to its model, in bytes. */
export interface EncoderPlan {
  /** Number of rows of the largest image, or of the longest audio clip. */
  maxRows: number;
  /** Weights in host memory, as they are packed. */
  weightsHost: number;
  /** Maximum scratch memory of a call that encodes an image or an audio clip. */
  scratchHost: number;
  /** One row of a media item. */
  row: number;
  /** Weights on a GPU. */
  weightsDevice: number;
  /** Maximum scratch memory on a GPU of a call that encodes an image or an audio clip. The encoder keeps the
   * scratch memory of one call for the next one; calls at the same time take this much each. */
  scratchDevice: number;
  /** Index of the device that the load would choose. */
  device: number;
}

/** Description of media. */
export interface MediaInfo {
  /** Kind of media. */
  kind: "image" | "audio" | "text" | "vector" | "video";
  /** Number of rows, each of which takes the place of a token in a cache. */
  nRows: number;
  /** Number of prompt tokens that the media item takes: its rows, and the model's tokens around and between the
   * rows. */
  nTokens: number;
  /** Number of floats per row. */
  rowDim: number;
  /** Rows per line of a tile. An image without tiles counts as one tile, and so does a pair of video frames. */
  columns: number;
  /** Number of lines of a tile. */
  lines: number;
  /** Number of tiles horizontally; 0 if the image is one tile. */
  tileColumns: number;
  /** Number of tiles vertically; 0 if the image is one tile. */
  tileLines: number;
  /** True if there is a tile of the whole image too. */
  hasOverview: boolean;
  /** Width in pixels of the upright image, or of a frame; for audio the number of samples; 0 for a media item that
   * was created from rows. */
  width: number;
  /** Height in pixels; 0 for audio and for a media item that was created from rows. */
  height: number;
  /** Width in pixels of all tiles together, as the model sees them. Programs need it to convert coordinates in the
   * model's output to pixels of the image. For audio the number of samples at the rate of the encoder. */
  seenWidth: number;
  /** Height in pixels of all tiles together; 0 for audio. */
  seenHeight: number;
  /** Bytes of memory. */
  bytes: number;
  /** Time of the encoding in nanoseconds. */
  encodeNs: number;
  /** Hash of pixels or samples, parameters and encoder, independent of the file format. Callers may use it as a
   * cache key. */
  hash: Uint8Array;
  /** Number of frame pairs of a video, each of which has `lines` lines of `columns` rows; 0 for other media. */
  pairs: number;
}

/** The state of a store. */
export interface StoreInfo {
  /** Number of prefixes in memory. */
  nEntries: number;
  /** Number of prefixes in files of the model. */
  nFiles: number;
  /** Number of prefixes dropped because they could not be written (on a full disk, for example), since the store
   * was created. The log has the reason. */
  nUnwritten: number;
  /** Bytes in memory. */
  memoryBytes: number;
  /** Bytes in files. */
  diskBytes: number;
  /** Number of lookups that found a prefix, since the store was created. */
  hits: number;
  /** Number of lookups that found no prefix. */
  misses: number;
  /** Number of tokens that needed no prefill because of hits. */
  reusedTokens: number;
  /** Ceilings in bytes on prefixes in memory, and on files. */
  memoryLimit: number;
  /** Ceiling in bytes on files. */
  diskLimit: number;
}

/** The state of a conversation and of its last reply. */
export interface ConversationInfo {
  /** Number of messages. */
  nMessages: number;
  /** Index of the first message in prompts, > 0 after turns were left out (overflow "forget"). */
  firstInPrompt: number;
  /** Phase of the reply; null before the first one. */
  state: "prompt" | "tokens" | "ended" | null;
  /** Why the reply has ended; null if it has not. */
  end: "end" | "length" | "stop" | "context" | "grammar" | "failed" | "cancelled" | null;
  /** The reason why its steps are stopped, though it has not ended. */
  stopped: "cancelled" | "deadline" | null;
  /** Number of tokens of the reply's prompt. */
  promptTokens: number;
  /** Number of prompt tokens that the cache already held (cached tokens). */
  reusedTokens: number;
  /** Number of prompt tokens that had to be computed and are in the cache by now. */
  promptDone: number;
  /** Number of generated tokens, including a token that ends the reply. */
  nTokens: number;
  /** Number of reasoning tokens among the generated tokens. */
  reasoningTokens: number;
  /** Number of draft tokens verified. */
  drafted: number;
  /** Number of draft tokens accepted. */
  accepted: number;
  /** Number of tokens in the cache. */
  cacheLen: number;
  /** Capacity of the cache in tokens. */
  cacheCapacity: number;
  /** Number of media in the messages. */
  nMedia: number;
  /** Total time in nanoseconds of the reply's prefill steps. */
  promptNs: number;
  /** Total time in nanoseconds of the reply's decode steps. */
  tokensNs: number;
  /** Time to first token in nanoseconds. */
  firstTokenNs: number;
}
