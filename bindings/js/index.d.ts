import type {
  CacheParams, EmbedParams, EncoderParams, JobParams, LoadParams, MediaParams, Pooling, ReplyParams, RuntimeParams,
  SamplingParams, StoreParams,
} from "./options";
import type { StatusName } from "./statuses";

export type { StatusName } from "./statuses";
export type { CacheType, Filter, Pooling, Reasoning, ElementType } from "./options";

declare global {
  // As libraries of TypeScript newer than es2022 have it.
  interface SymbolConstructor {
    readonly dispose: unique symbol;
  }
}

/** Version of the library. */
export const version: string;

/** A failed call of the library. */
export class RealizarError extends Error {
  /** Name of the status, such as "RZ_ERR_CONTEXT_FULL". */
  readonly code: StatusName;
  /** Number of the status, below 0. */
  readonly status: number;
  /** The `errno` of the system call that failed, else 0. */
  readonly systemCode: number;
  /** The capacity in tokens that would have been enough, for "RZ_ERR_CONTEXT_FULL"; else 0. */
  readonly needed: number;
}

/** What models can be loaded to. */
export interface Device {
  /** Number of the device, for `LoadOptions.device`; the CPU is 1. */
  index: number;
  /** What names the device in every process on this machine: "cpu", or the UUID of a GPU; empty if unknown. */
  id: string;
  /** Name of the processor or the GPU. */
  name: string;
  /** What it is. */
  kind: "cpu" | "gpu";
  /** True if models can be loaded to it. */
  available: boolean;
  /** The reason why the device cannot be used; empty if it can. */
  unavailable: string;
  /** Instruction set of its products, such as "avx2", or the generation of a GPU. */
  isa: string;
  /** Memory in bytes. */
  memoryTotal: number;
  /** Free memory in bytes, now. */
  memoryFree: number;
}
/** Devices that models can be loaded to, and those that cannot be used, with the reason. */
export function devices(): Device[];

/** The path of a model of the Hugging Face Hub, "hf:owner/name" or "hf:owner/name:quantization", in the cache of the
 * Hub's own client. A model that is not complete in the cache is fetched; if no quantization is named, the largest one
 * of at most 8 bits that fits into free memory. A later call continues a fetch that was interrupted. HF_HOME,
 * HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE and the proxies of the environment are heeded. */
export function fetchModel(
  model: string,
  options?: { signal?: AbortSignal; progress?: (done: number, total: number) => void },
): Promise<string>;

/** A place for the experts (MoE) of layers that are on GPUs. */
export interface Placement {
  /** "auto": on GPUs as many as fit, from the last layer on. "gpu": on GPUs, in the last layers, as many as take
   * at most `bytes` together. */
  place: "auto" | "cpu" | "gpu";
  /** With "cpu": layers before this one are not meant. */
  firstLayer?: number;
  /** With "cpu": so many layers that have experts; 0: all. */
  layers?: number;
  /** With "gpu": bytes of experts on all GPUs together. */
  bytes?: number;
}

/** Options of a load. */
export interface LoadOptions extends LoadParams, RuntimeParams {
  /** Indices of GPUs among which the layers are divided. `shares`: relative sizes of their parts. */
  devices?: number[];
  /** Sizes of the parts of `devices` in relation to one another; absent: in proportion to free memory. */
  shares?: number[];
  /** Places of parts of the model; by default everything is where its layer is. */
  placements?: Placement[];
  /** File of packed weights, made by the first load and mapped by later ones, in other processes too. */
  packedPath?: string;
  /** File that records the self-tests that GPUs have passed, so that later processes skip them. */
  testedPath?: string;
  /** Chat template in Jinja, in place of the model's own. */
  chatTemplate?: string;
}

/** Memory that a model and its sessions will take, in bytes. */
export interface Plan {
  /** Number of layers on GPUs. */
  gpuLayers: number;
  /** Weights in memory. */
  weightsHost: number;
  /** Weights on GPUs. */
  weightsDevice: number;
  /** KV cache of one session in memory. */
  cacheHost: number;
  /** KV cache of one session on GPUs. */
  cacheDevice: number;
  /** What one more token of capacity adds to a session. */
  cacheToken: number;
  /** Scratch memory of a step. */
  scratchHost: number;
  /** Scratch memory of a step on GPUs. */
  scratchDevice: number;
  /** The most that the load takes for a while. */
  loadPeakHost: number;
  /** All of it in memory. */
  totalHost: number;
  /** All of it on GPUs. */
  totalDevice: number;
  /** The first layer on a GPU whose experts are on the CPU. `expertsHostLayers`: the number of layers up to the last
   * one. */
  expertsHostFirst: number;
  /** The number of layers up to the last one whose experts are on the CPU. */
  expertsHostLayers: number;
  /** Experts (MoE) on the CPU. */
  expertsHost: number;
  /** Experts on GPUs. */
  expertsDevice: number;
  /** What lies on each GPU that has layers, in the order of the layers. */
  devices: { device: number; nLayers: number; weights: number; cache: number; scratch: number; total: number }[];
}
/** The memory, in bytes, that a load and a number of sessions will take. Reads no weights. */
export function plan(
  source: string | Uint8Array,
  options?: LoadOptions & { sessions?: number; cache?: CacheOptions },
): Promise<Plan>;

/** What a model is, as its file says, and where it was loaded to. */
export interface ModelInfo {
  /** Family of the network, such as "llama" or "qwen3". */
  architecture: string;
  /** The model's own name; empty if the file gives none. */
  name: string;
  /** Transformer layers. */
  nLayers: number;
  /** Width of the residual stream in values. */
  hiddenDim: number;
  /** Width of the feed-forward blocks in values. */
  ffnDim: number;
  /** Query heads. */
  nHeads: number;
  /** Heads of keys and values. */
  nKvHeads: number;
  /** Values of a head. */
  headDim: number;
  /** Number of token ids, which begin at 0. */
  vocabSize: number;
  /** Tokens that the model was made for. */
  contextLength: number;
  /** Index of the device; of several GPUs the first. */
  device: number;
  /** Parameters. */
  nParams: number;
  /** Bytes of weights in memory. */
  weightBytes: number;
  /** Layers on GPUs. */
  gpuLayers: number;
  /** Keys and tensors that `allowUnknown` passed over. */
  nUnknown: number;
  /** GPUs that have layers, in the order of the layers. */
  devices: { device: number; nLayers: number }[];
  /** The token that begins a text; absent: none. */
  bosToken?: number;
  /** A token that ends a text; absent: none. */
  eosToken?: number;
  /** True if the model has a chat template. */
  chatTemplate: boolean;
  /** True if the chat template writes the token that begins a text. */
  templateWritesBos: boolean;
  /** What conversations may have, and "generate". */
  capabilities: ("generate" | "system" | "tools" | "reason" | "switchReasoning" | "images" | "audio" | "video")[];
  /** Numbers of the embedding of a text (`embed`); 0: the model makes none. */
  embeddingDim: number;
  /** The pooling of its embeddings; absent: the file names none, so that `embed` has to be told one. */
  pooling?: Pooling;
  /** Scores of its classifier (pooling "rank"); 0: it has none. */
  nScores: number;
  /** True if it writes a text of another one (encoder and decoder). */
  readsSource: boolean;
  /** Instruction set of matrix products on the CPU, such as "avx2"; empty if it has none. */
  isa: string;
  /** The first layer on a GPU whose experts (MoE) are on the CPU, and the number of layers up to the last one. */
  expertsHostFirst: number;
  /** The number of layers up to the last one whose experts are on the CPU. */
  expertsHostLayers: number;
  /** Bytes of experts on the CPU, and on GPUs. */
  expertsHost: number;
  /** Bytes of experts on GPUs. */
  expertsDevice: number;
  /** Steps of so many tokens or more copy the experts on the CPU to the GPU; absent: no step does. */
  expertsCopiedFrom?: number;
}

/** Sampling parameters. An absent one is off, so that {} chooses the most likely token. */
export interface Sampling extends SamplingParams {}

/** Grammar of a text (constrained decoding), of exactly one kind. `whitespace`: JSON may have white space between its
 * parts. */
export type Grammar =
  | { jsonSchema: object | string; whitespace?: boolean }
  | { json: true; whitespace?: boolean }
  | { regex: string }
  | { lark: string }
  | { gbnf: string }
  | { choices: string[] }
  | { tools: object | string; whitespace?: boolean };

/** Token ids. */
export type Tokens = Uint32Array | number[];

declare class Handle {
  protected constructor();
  /** Ends the calls that use the object, which are rejected ("... is closed"), and frees it. Later calls of it, and of
   * what was made of it, such as the conversations of a model, fail in the same way. Closing twice is fine. */
  close(): void;
  /** True after `close`, and after `close` of what it was made of. */
  readonly closed: boolean;
  [Symbol.dispose](): void;
}

/** A loaded model. Any number of calls and conversations may use it at once. */
export class Model extends Handle {
  private constructor();
  /** Loads a file, a folder, the bytes of a file, which are copied, or a model of the Hub, which `fetchModel` fetches.
   */
  static load(
    source: string | Uint8Array,
    options?: LoadOptions & { signal?: AbortSignal; progress?: (done: number, total: number) => void },
  ): Promise<Model>;
  /** What the model is. */
  readonly info: ModelInfo;
  /** The sampling that the authors of the model advise, or undefined. */
  readonly advisedSampling: Sampling | undefined;
  /** A value of the metadata as text. */
  meta(key: string): string;
  /** `special` (default true): adds the tokens that begin and end a text. `parse` (default false): names of control
   * tokens in the text, such as "<|im_end|>", become these tokens; not for text that users typed. */
  tokenize(text: string, options?: { special?: boolean; parse?: boolean }): Uint32Array;
  /** The text of tokens. `special` (default false): with control tokens. */
  detokenize(tokens: Tokens, options?: { special?: boolean }): string;
  /** Embeddings: a vector for each text, list of tokens or prompt; with the pooling "none" the vectors of all its
   * tokens, one after the other. */
  embed(
    texts: (string | Tokens | Prompt)[],
    options?: EmbedParams & { signal?: AbortSignal },
  ): Promise<Float32Array[]>;
  /** Loads a LoRA adapter of this model: a GGUF file or a folder of PEFT. Fails with "RZ_ERR_MISMATCH" if it is of
   * another model. */
  adapter(path: string): Promise<Adapter>;
}

/** A LoRA adapter of a model. */
export class Adapter extends Handle {
  private constructor();
}

/** Options of an encoder. */
export interface EncoderOptions extends EncoderParams {
  /** Which encoder of a file to load, if the file has both; by default the vision encoder. */
  kind?: "image" | "audio";
  /** Passes over keys and tensors that the library does not know. */
  allowUnknown?: boolean;
}
/** What an encoder is. */
export interface EncoderInfo {
  /** Family of the encoder. */
  projector: string;
  /** The rows of an image attend to each other, so that one step of the model computes them. */
  isMutual: boolean;
  /** Numbers of a row, as many as the embeddings of the model have. */
  rowDim: number;
  /** Transformer layers. */
  nLayers: number;
  /** Side of a tile in pixels; 0: an image is one tile of any size. */
  tileSide: number;
  /** The sides of tiles are multiples of so many pixels. */
  grain: number;
  /** The fewest rows of an image. */
  minRows: number;
  /** The most rows of an image or a sound. */
  maxRows: number;
  /** Bytes of weights in memory. */
  weightBytes: number;
  /** Bytes of scratch memory. */
  scratchBytes: number;
  /** Kinds of media that it makes. */
  kinds: MediaInfo["kind"][];
  /** True for an audio encoder. */
  hears: boolean;
  /** Samples per second to which sound is resampled; 0 for a vision encoder. */
  sampleRate: number;
}
/** Memory that an encoder will take, in bytes. */
export interface EncoderPlan {
  /** Rows of the largest image. */
  maxRows: number;
  /** Weights. */
  weightsHost: number;
  /** Scratch memory. */
  scratchHost: number;
  /** Bytes of a row. */
  row: number;
}
/** An image in memory, whose rows start at the top, such as an ImageData. */
export interface Pixels {
  /** The bytes of all rows. */
  data: Uint8Array | Uint8ClampedArray;
  /** Pixels of a row. */
  width: number;
  /** Number of rows. */
  height: number;
  /** Default: "rgba8". */
  format?: "rgb8" | "rgba8" | "bgra8" | "gray8";
  /** Bytes from one row to the next. */
  stride?: number;
}
/** Bounds on the number of rows: smaller images are enlarged and larger ones shrunk, if the model takes any size. */
export interface MediaOptions extends MediaParams {
  /** `Media.step` computes, and prompts reject the medium until it is complete. Signals and progress are ignored. */
  inSteps?: boolean;
}

/** The vision or audio encoder of a multimodal model. Any number of calls may use it at once. */
export class Encoder extends Handle {
  private constructor();
  /** Loads the .gguf file with the projector ("mmproj-..."), its bytes, a folder with a config.json, which may be that
   * of the model, or the encoder of a model of the Hub, "hf:owner/name". */
  static load(
    model: Model,
    path: string | Uint8Array,
    options?: EncoderOptions & { signal?: AbortSignal; progress?: (done: number, total: number) => void },
  ): Promise<Encoder>;
  /** The memory, in bytes, that an encoder will take. Reads no weights. */
  static plan(model: Model, path: string, options?: EncoderOptions): Promise<EncoderPlan>;
  /** What the encoder is. */
  readonly info: EncoderInfo;
  /** Encodes an image from the bytes of a PNG, JPEG, WebP, GIF or BMP file, or from pixels. */
  encode(
    image: Uint8Array | Pixels,
    options?: MediaOptions & { signal?: AbortSignal; progress?: (done: number, total: number) => void },
  ): Promise<Media>;
  /** Encodes a video: at least two frames of one size, one after the other in `data` without gaps, and the time of each
   * in seconds from its beginning. `minRows` and `maxRows` are bounds on all frames together. */
  encodeVideo(
    frames: Omit<Pixels, "stride">,
    times: ArrayLike<number>,
    options?: MediaOptions & { signal?: AbortSignal; progress?: (done: number, total: number) => void },
  ): Promise<Media>;
  /** Encodes sound from the bytes of a WAV, MP3, FLAC or Ogg file, or from samples from -1 to 1. Samples of several
   * `channels` are interleaved and become their mean; `rate` is samples per second of each channel. */
  encodeSound(
    sound: Uint8Array | Float32Array,
    options?: { channels?: number; rate?: number; maxRows?: number; inSteps?: boolean; signal?: AbortSignal;
      progress?: (done: number, total: number) => void },
  ): Promise<Media>;
  /** The info of an image of this size, without the image. For sound, `width` is the number of samples per channel at
   * the rate of the encoder. Time and hash are zero. */
  measure(width: number, height?: number, options?: MediaOptions): MediaInfo;
}

/** What an image, a video or a sound has become. */
export interface MediaInfo {
  /** What it was. */
  kind: "image" | "audio" | "text" | "vector" | "video";
  /** Number of rows, each of which takes the place of a token. */
  nRows: number;
  /** Number of prompt tokens: the rows, and the model's tokens around and between them. */
  nTokens: number;
  /** Numbers of a row. */
  rowDim: number;
  /** The grid of rows of the image, of a tile if there are several, or of a pair of frames. */
  columns: number;
  /** Lines of the grid. */
  lines: number;
  /** Pairs of frames of a video. */
  pairs: number;
  /** The grid of tiles; 0 if the image is one tile. */
  tileColumns: number;
  /** Lines of the grid of tiles. */
  tileLines: number;
  /** True if there is a tile of the whole image too. */
  hasOverview: boolean;
  /** Pixels of the image, upright; samples of a sound. */
  width: number;
  /** Pixels of the image; 0 of a sound. */
  height: number;
  /** Size in pixels after resizing, to which coordinates in the model's output refer. */
  seenWidth: number;
  /** Height in pixels after resizing. */
  seenHeight: number;
  /** Bytes of the rows. */
  bytes: number;
  /** Nanoseconds that the encoder took. */
  encodeNs: number;
  /** As `Media.hash`. */
  hash: Uint8Array;
}

/** The encoded rows of an image, a video or a sound, which take the place of tokens in any number of prompts. */
export class Media extends Handle {
  private constructor();
  /** A medium of rows that the caller has encoded, one after the other. `columns` times `lines` is their number, for
   * models with two-dimensional positions (M-RoPE). */
  static fromRows(
    model: Model,
    rows: Float32Array,
    options: { rowDim: number; kind?: "image" | "audio"; columns?: number; lines?: number },
  ): Media;
  /** Reads the medium that `save` has written. No encoder is needed. */
  static load(model: Model, bytes: Uint8Array): Promise<Media>;
  /** The medium as bytes, which `load` reads. */
  save(): Promise<Uint8Array>;
  /** What the medium is. */
  readonly info: MediaInfo;
  /** 32 bytes that are the same for the same pixels, options and encoder: a key for caches. */
  readonly hash: Uint8Array;
  /** Computes for about so many milliseconds, by default to the end, on a medium that was made with `inSteps`. True if
   * there is more to compute. One step at a time. */
  step(milliseconds?: number): Promise<boolean>;
  /** The rows one after the other, each of `info.rowDim` numbers. */
  rows(): Float32Array;
}

/** Stands for a row of a medium in the tokens of sessions and prompts. */
export const MEDIA_TOKEN: number;

/** A sequence of tokens and media. */
export class Prompt extends Handle {
  /** A text gets the tokens that begin a text if it is the first part. `bare`: leaves out the model's tokens around and
   * between the rows of media. */
  constructor(model: Model, parts: (string | Tokens | Media)[], options?: { bare?: boolean });
  /** A prompt of messages, up to where the reply begins. Their content may have media: {type: "image" or "audio",
   * media}. */
  static ofChat(
    model: Model,
    messages: Message[],
    rest?: { tools?: object[]; variables?: Record<string, unknown> },
  ): Prompt;
  /** Number of tokens. */
  readonly length: number;
  /** The tokens, with MEDIA_TOKEN for each row of a medium. */
  readonly tokens: Uint32Array;
}

/** Options of a store. */
export interface StoreOptions extends StoreParams {
  /** Folder for files that outlive the process, which other processes may share. */
  path?: string;
}
/** The state of a store. */
export interface StoreInfo {
  /** Prefixes in memory. */
  nEntries: number;
  /** Files in the folder. */
  nFiles: number;
  /** Prefixes that were forgotten because they could not be written, as on a full disk. */
  nUnwritten: number;
  /** Bytes of prefixes in memory. */
  memoryBytes: number;
  /** Bytes of files. */
  diskBytes: number;
  /** Prompts of which a prefix was found. */
  hits: number;
  /** Prompts of which none was found. */
  misses: number;
  /** Tokens that were not computed because of it. */
  reusedTokens: number;
  /** Ceilings in bytes on prefixes in memory, and on files. */
  memoryLimit: number;
  /** Ceiling in bytes on files. */
  diskLimit: number;
}

/** A prefix cache: keeps the KV cache of prompts, for conversations of one model that begin with the same tokens. */
export class Store extends Handle {
  private constructor();
  /** Makes a store. With a folder it has the prefixes of its files. */
  static open(model: Model, options?: StoreOptions): Promise<Store>;
  /** The state of the store. */
  readonly info: StoreInfo;
  /** Removes all prefixes, and the files of the model in the folder. */
  clear(): Promise<void>;
}

/** Options of a KV cache. */
export interface CacheOptions extends CacheParams {}
/** LoRA adapters, or pairs of an adapter and its scale. */
export type Adapters = (Adapter | [adapter: Adapter, scale: number])[];

/** A message of a conversation. */
export interface Message {
  /** "system", "user", "assistant", or "tool". */
  role: string;
  /** The text, or parts. */
  content?: string | null | ({ type: "text"; text: string } | { type: "image" | "audio"; media: Media | number })[];
  /** Reasoning of a reply. */
  reasoning_content?: string;
  /** Tool calls of a reply. */
  tool_calls?: { id?: string; type?: "function"; function: { name: string; arguments: string | object } }[];
  /** Of a message of the role "tool": the call that it is the result of. */
  tool_call_id?: string;
  /** Name of the tool, or of who speaks. */
  name?: string;
  /** Why a reply has ended. */
  finish_reason?: "stop" | "tool_calls" | "length" | "context" | "cancelled";
  [member: string]: unknown;
}

/** Of a conversation, or of one reply: then its tools replace the conversation's ([]: none), and variables are
 * set in addition to its own. */
export interface ToolOptions {
  /** Functions that the model may call, each {type: "function", function: {name, description, parameters}}. */
  tools?: object[];
  /** Whether the reply calls one. */
  toolChoice?: "auto" | "none" | "required" | { function: { name: string } };
  /** False: one call at most. */
  parallelToolCalls?: boolean;
  /** Variables of the chat template. */
  variables?: Record<string, unknown>;
}

/** Options of a conversation. */
export interface ConversationOptions extends ToolOptions {
  /** A first message of the role "system". */
  system?: string;
  /** Messages to begin with. */
  messages?: Message[];
  /** What happens if messages exceed the context: the reply fails with RZ_ERR_CONTEXT_FULL, or the oldest turns are
   * left out. */
  overflow?: "fail" | "forget";
  /** Size and types of the KV cache. */
  cache?: CacheOptions;
  /** Where prompts are looked up, and where they and replies are left. */
  store?: Store;
  /** LoRA adapters of all replies. */
  adapters?: Adapters;
}

interface TextOptions {
  /** How tokens are chosen. */
  sampling?: Sampling;
  /** What the text must be. */
  grammar?: Grammar;
  /** Stop sequences: the text ends before the first of them. */
  stops?: string[];
  /** Source of draft tokens (speculative decoding), which changes the speed only: the text itself, the model's MTP
   * head, or a small model. */
  draft?: "none" | "lookup" | "mtp" | Model;
  /** Ends the loop, which throws the reason of the signal. */
  signal?: AbortSignal;
}
/** Options of `Session.generate`. */
export interface GenerateOptions extends TextOptions, JobParams {}

/** Without `sampling`, a reply is sampled as the authors of the model advise. The grammar applies to the content. */
export interface ReplyOptions extends TextOptions, ReplyParams, ToolOptions {}

/** A piece of a reply. */
export interface Part {
  /** A call begins with its `toolId`, which its message has too. */
  kind: "content" | "reasoning" | "toolId" | "toolName" | "toolArguments" | "end";
  /** The piece; of "end" empty. */
  text: string;
  /** Number of the tool call that the part belongs to. */
  call: number;
  /** True for content that begins like a tool call but is none, and for the end of a reply that had such content or
   * broke off in a tool call. */
  unparsed: boolean;
}

/** A token with its probability. */
export interface TokenLogprob {
  /** The token. */
  token: number;
  /** Logarithm of its probability. */
  logprob: number;
}

/** Why a reply has ended: a token that ends it, `maxTokens`, a stop sequence, a full context, the
 * end of its grammar, an error, or because it was left or aborted. */
export type End = "end" | "length" | "stop" | "context" | "grammar" | "failed" | "cancelled";
/** The state of a conversation and of its last reply. */
export interface ConversationInfo {
  /** Number of messages. */
  nMessages: number;
  /** The first message of a turn that is in prompts: not 0 if turns were left out (overflow "forget"). */
  firstInPrompt: number;
  /** Of the reply; null before the first one. */
  state: "prompt" | "tokens" | "ended" | null;
  /** Why the reply has ended; null if it has not. */
  end: End | null;
  /** Why its steps end now though it has not ended. */
  stopped: "cancelled" | "deadline" | null;
  /** Tokens of the prompt. */
  promptTokens: number;
  /** Number of prompt tokens that the KV cache held already. */
  reusedTokens: number;
  /** Tokens of the prompt that are computed. */
  promptDone: number;
  /** Tokens of the reply. */
  nTokens: number;
  /** Tokens of it that are reasoning. */
  reasoningTokens: number;
  /** Draft tokens that were computed. */
  drafted: number;
  /** Draft tokens that were right. */
  accepted: number;
  /** Tokens in the KV cache. */
  cacheLen: number;
  /** Tokens that the KV cache has room for. */
  cacheCapacity: number;
  /** Number of media in the messages. */
  nMedia: number;
  /** Nanoseconds of the steps of the prompt. */
  promptNs: number;
  /** Nanoseconds of the steps of tokens. */
  tokensNs: number;
  /** Nanoseconds from the begin of the reply to its first token. */
  firstTokenNs: number;
}

/** Messages with a model, and their KV cache. Only tokens that are new since the last reply are computed. One call at a
 * time: a second one fails with RZ_ERR_BUSY. */
export class Conversation extends Handle {
  /** Begins a conversation. Fails with "RZ_ERR_UNSUPPORTED" if the model has no chat template. */
  constructor(model: Model, options?: ConversationOptions);
  /** Reads the conversation that `save` has written. */
  static load(
    model: Model,
    bytes: Uint8Array,
    options?: { cache?: CacheOptions; store?: Store },
  ): Promise<Conversation>;
  /** The model that replies. */
  readonly model: Model;
  /** The state of the conversation and of its last reply. */
  readonly info: ConversationInfo;
  /** Appends a text of a role ("user"), a message, or a list of them. */
  add(messages: string | Message | Message[], role?: string): void;
  /** The media of the messages, by the numbers in their parts. */
  readonly media: Media[];
  /** The messages from number `first` (0) on. An unfinished reply is not among them. */
  messages(first?: number): Message[];
  /** Removes the messages after the first `count`. */
  rewind(count: number): void;
  /** Frees the KV cache and keeps the messages. The next reply computes the KV cache again. */
  release(): void;
  /** Sets the context length in tokens; 0: the model's, at most 8192. The next reply computes the KV cache
   * again. */
  setCapacity(tokens: number): void;
  /** Sets what later replies do if messages exceed the context. */
  setOverflow(overflow: "fail" | "forget"): void;
  /** Sets the LoRA adapters of later replies. The next reply computes the KV cache again. */
  setAdapters(adapters: Adapters): void;
  /** Sets the store of later replies; null: none. */
  setStore(store: Store | null): void;
  /** A second conversation with the same messages, which shares their KV cache (copy-on-write). */
  fork(): Conversation;
  /** The conversation and its KV cache as bytes, which `load` reads. */
  save(): Promise<Uint8Array>;
  /** Adds a message of the user and yields the content of the reply. If the loop is left or aborted, the text so far
   * stays as a message; any other failure restores the messages. */
  say(text: string, options?: ReplyOptions): AsyncGenerator<string, void, void>;
  /** Yields all parts of a reply. Leaving the loop early gives the reply up; with `keep` the text so far becomes a
   * message. */
  reply(options?: ReplyOptions): AsyncGenerator<Part, void, void>;
  /** Reads the messages into the KV cache, so that the next reply begins sooner: a long document, the world of a game.
   * The options are the options of the next reply. Adds no message. */
  read(options?: ToolOptions & Pick<ReplyOptions, "reasoning" | "priority" | "signal">): Promise<void>;
  /** Ends the loop over a reply, as if the loop had been left. */
  stop(): void;
  /** The tokens of the content since the last call with their log probabilities, of a reply with `logprobs`. */
  logprobs(): (TokenLogprob & { likeliest: TokenLogprob[] })[];
}

/** The tokens of a text with their KV cache, for texts that are no conversations. */
export class Session extends Handle {
  /** An empty session. */
  constructor(model: Model, options?: { cache?: CacheOptions; adapters?: Adapters });
  /** Reads the session that `save` has written. */
  static load(model: Model, bytes: Uint8Array, options?: { cache?: CacheOptions }): Promise<Session>;
  /** The model that generates. */
  readonly model: Model;
  /** Number of tokens. */
  readonly length: number;
  /** Number of tokens that there is room for. */
  readonly capacity: number;
  /** The tokens, with MEDIA_TOKEN for each row of a medium. */
  readonly tokens: Uint32Array;
  /** Keeps the first `length` tokens and removes the others. */
  truncate(length: number): void;
  /** A second session with the same tokens, which shares their KV cache (copy-on-write). */
  fork(): Session;
  /** The session and its KV cache as bytes, which `load` reads. */
  save(): Promise<Uint8Array>;
  /** Continues a text, tokens or a prompt. Leading tokens that the KV cache holds already are not computed again.
   * Without `sampling`, the most likely token is chosen. */
  generate(prompt: string | Tokens | Prompt, options?: GenerateOptions): AsyncGenerator<string, void, void>;
}
