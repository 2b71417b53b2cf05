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
  readonly code: StatusName;
  readonly status: number;
  /** The `errno` of the system call that failed, else 0. */
  readonly systemCode: number;
  /** The capacity in tokens that would have been enough, for "RZ_ERR_CONTEXT_FULL"; else 0. */
  readonly needed: number;
}

export interface Device {
  index: number;
  /** What names the device in every process on this machine: "cpu", or the UUID of a GPU; empty if unknown. */
  id: string;
  name: string;
  kind: "cpu" | "gpu";
  available: boolean;
  /** The reason why the device cannot be used; empty if it can. */
  unavailable: string;
  isa: string;
  memoryTotal: number;
  memoryFree: number;
}
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

export interface LoadOptions extends LoadParams, RuntimeParams {
  /** Indices of GPUs among which the layers are divided. `shares`: relative sizes of their parts. */
  devices?: number[];
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

export interface Plan {
  gpuLayers: number;
  weightsHost: number;
  weightsDevice: number;
  cacheHost: number;
  cacheDevice: number;
  cacheToken: number;
  scratchHost: number;
  scratchDevice: number;
  loadPeakHost: number;
  totalHost: number;
  totalDevice: number;
  /** The first layer on a GPU whose experts are on the CPU. `expertsHostLayers`: the number of layers up to the last
   * one. */
  expertsHostFirst: number;
  expertsHostLayers: number;
  expertsHost: number;
  expertsDevice: number;
  /** What lies on each GPU that has layers, in the order of the layers. */
  devices: { device: number; nLayers: number; weights: number; cache: number; scratch: number; total: number }[];
}
/** The memory, in bytes, that a load and a number of sessions will take. Reads no weights. */
export function plan(
  source: string | Uint8Array,
  options?: LoadOptions & { sessions?: number; cache?: CacheOptions },
): Promise<Plan>;

export interface ModelInfo {
  architecture: string;
  name: string;
  nLayers: number;
  hiddenDim: number;
  ffnDim: number;
  nHeads: number;
  nKvHeads: number;
  headDim: number;
  vocabSize: number;
  contextLength: number;
  device: number;
  nParams: number;
  weightBytes: number;
  gpuLayers: number;
  /** Keys and tensors that `allowUnknown` passed over. */
  nUnknown: number;
  /** GPUs that have layers, in the order of the layers. */
  devices: { device: number; nLayers: number }[];
  bosToken?: number;
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
  expertsHostLayers: number;
  /** Bytes of experts on the CPU, and on GPUs. */
  expertsHost: number;
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

export type Tokens = Uint32Array | number[];

declare class Handle {
  protected constructor();
  /** Ends the calls that use the object, which are rejected ("... is closed"), and frees it, as do later calls of it and
   * of what was made of it, such as the conversations of a model. Closing twice is fine. */
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
  readonly info: ModelInfo;
  /** The sampling that the authors of the model advise, or undefined. */
  readonly advisedSampling: Sampling | undefined;
  /** A value of the metadata as text. */
  meta(key: string): string;
  /** `special` (default true): adds the tokens that begin and end a text. `parse` (default false): names of control
   * tokens in the text, such as "<|im_end|>", become these tokens; not for text that users typed. */
  tokenize(text: string, options?: { special?: boolean; parse?: boolean }): Uint32Array;
  detokenize(tokens: Tokens, options?: { special?: boolean }): string;
  /** Embeddings: a vector for each text, list of tokens or prompt; with the pooling "none" the vectors of all its
   * tokens, one after the other. */
  embed(
    texts: (string | Tokens | Prompt)[],
    options?: EmbedParams & { signal?: AbortSignal },
  ): Promise<Float32Array[]>;
  adapter(path: string): Promise<Adapter>;
}

/** A LoRA adapter of a model. */
export class Adapter extends Handle {
  private constructor();
}

export interface EncoderOptions extends EncoderParams {
  /** Which encoder of a file to load, if the file has both; by default the vision encoder. */
  kind?: "image" | "audio";
  allowUnknown?: boolean;
}
export interface EncoderInfo {
  projector: string;
  /** The rows of an image attend to each other, so that one step of the model computes them. */
  isMutual: boolean;
  rowDim: number;
  nLayers: number;
  /** Side of a tile in pixels; 0: an image is one tile of any size. */
  tileSide: number;
  /** The sides of tiles are multiples of so many pixels. */
  grain: number;
  minRows: number;
  maxRows: number;
  weightBytes: number;
  scratchBytes: number;
  /** Kinds of media that it makes. */
  kinds: MediaInfo["kind"][];
  /** True for an audio encoder. */
  hears: boolean;
  /** Samples per second to which sound is resampled; 0 for a vision encoder. */
  sampleRate: number;
}
export interface EncoderPlan {
  maxRows: number;
  weightsHost: number;
  scratchHost: number;
  /** Bytes of a row. */
  row: number;
}
/** An image in memory, whose rows start at the top, such as an ImageData. */
export interface Pixels {
  data: Uint8Array | Uint8ClampedArray;
  width: number;
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

export interface MediaInfo {
  kind: "image" | "audio" | "text" | "vector" | "video";
  /** Number of rows, each of which takes the place of a token. */
  nRows: number;
  /** Number of prompt tokens: the rows, and the model's tokens around and between them. */
  nTokens: number;
  rowDim: number;
  /** The grid of rows of the image, of a tile if there are several, or of a pair of frames. */
  columns: number;
  lines: number;
  /** Pairs of frames of a video. */
  pairs: number;
  /** The grid of tiles; 0 if the image is one tile. */
  tileColumns: number;
  tileLines: number;
  hasOverview: boolean;
  width: number;
  height: number;
  /** Size in pixels after resizing, to which coordinates in the model's output refer. */
  seenWidth: number;
  seenHeight: number;
  bytes: number;
  encodeNs: number;
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
  static load(model: Model, bytes: Uint8Array): Promise<Media>;
  save(): Promise<Uint8Array>;
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
  readonly length: number;
  /** The tokens, with MEDIA_TOKEN for each row of a medium. */
  readonly tokens: Uint32Array;
}

export interface StoreOptions extends StoreParams {
  /** Folder for files that outlive the process, which other processes may share. */
  path?: string;
}
export interface StoreInfo {
  nEntries: number;
  nFiles: number;
  nUnwritten: number;
  memoryBytes: number;
  diskBytes: number;
  hits: number;
  misses: number;
  reusedTokens: number;
  /** Ceilings in bytes on prefixes in memory, and on files. */
  memoryLimit: number;
  diskLimit: number;
}

/** A prefix cache: keeps the KV cache of prompts, for conversations of one model that begin with the same tokens. */
export class Store extends Handle {
  private constructor();
  static open(model: Model, options?: StoreOptions): Promise<Store>;
  readonly info: StoreInfo;
  /** Removes all prefixes, and the files of the model in the folder. */
  clear(): Promise<void>;
}

export interface CacheOptions extends CacheParams {}
export type Adapters = (Adapter | [adapter: Adapter, scale: number])[];

export interface Message {
  role: string;
  content?: string | null | ({ type: "text"; text: string } | { type: "image" | "audio"; media: Media | number })[];
  reasoning_content?: string;
  tool_calls?: { id?: string; type?: "function"; function: { name: string; arguments: string | object } }[];
  tool_call_id?: string;
  name?: string;
  finish_reason?: "stop" | "tool_calls" | "length" | "context" | "cancelled";
  [member: string]: unknown;
}

/** Of a conversation, or of one reply: then its tools replace the conversation's ([]: none), and variables are
 * set in addition to its own. */
export interface ToolOptions {
  tools?: object[];
  toolChoice?: "auto" | "none" | "required" | { function: { name: string } };
  parallelToolCalls?: boolean;
  /** Variables of the chat template. */
  variables?: Record<string, unknown>;
}

export interface ConversationOptions extends ToolOptions {
  system?: string;
  messages?: Message[];
  /** What happens if messages exceed the context: the reply fails with RZ_ERR_CONTEXT_FULL, or the oldest turns are
   * left out. */
  overflow?: "fail" | "forget";
  cache?: CacheOptions;
  store?: Store;
  adapters?: Adapters;
}

interface TextOptions {
  sampling?: Sampling;
  grammar?: Grammar;
  /** Stop sequences: the text ends before the first of them. */
  stops?: string[];
  /** Source of draft tokens (speculative decoding), which changes the speed only: the text itself, the model's MTP
   * head, or a small model. */
  draft?: "none" | "lookup" | "mtp" | Model;
  /** Ends the loop, which throws the reason of the signal. */
  signal?: AbortSignal;
}
export interface GenerateOptions extends TextOptions, JobParams {}

/** Without `sampling`, a reply is sampled as the authors of the model advise. The grammar applies to the content. */
export interface ReplyOptions extends TextOptions, ReplyParams, ToolOptions {}

export interface Part {
  /** A call begins with its `toolId`, which its message has too. */
  kind: "content" | "reasoning" | "toolId" | "toolName" | "toolArguments" | "end";
  text: string;
  /** Number of the tool call that the part belongs to. */
  call: number;
  /** True for content that begins like a tool call but is none, and for the end of a reply that had such content or
   * broke off in a tool call. */
  unparsed: boolean;
}

export interface TokenLogprob {
  token: number;
  logprob: number;
}

export type End = "end" | "length" | "stop" | "context" | "grammar" | "failed" | "cancelled";
export interface ConversationInfo {
  nMessages: number;
  firstInPrompt: number;
  state: "prompt" | "tokens" | "ended" | null;
  end: End | null;
  /** Why its steps end now though it has not ended. */
  stopped: "cancelled" | "deadline" | null;
  promptTokens: number;
  /** Number of prompt tokens that the KV cache held already. */
  reusedTokens: number;
  promptDone: number;
  nTokens: number;
  reasoningTokens: number;
  drafted: number;
  accepted: number;
  cacheLen: number;
  cacheCapacity: number;
  /** Number of media in the messages. */
  nMedia: number;
  promptNs: number;
  tokensNs: number;
  firstTokenNs: number;
}

/** Messages with a model, and their KV cache. Only tokens that are new since the last reply are computed. One call at a
 * time: a second one fails with RZ_ERR_BUSY. */
export class Conversation extends Handle {
  constructor(model: Model, options?: ConversationOptions);
  /** Reads the conversation that `save` has written. */
  static load(
    model: Model,
    bytes: Uint8Array,
    options?: { cache?: CacheOptions; store?: Store },
  ): Promise<Conversation>;
  readonly model: Model;
  readonly info: ConversationInfo;
  /** Appends a text of a role ("user"), a message, or a list of them. */
  add(messages: string | Message | Message[], role?: string): void;
  /** The media of the messages, by the numbers in their parts. */
  readonly media: Media[];
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
  fork(): Conversation;
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
  constructor(model: Model, options?: { cache?: CacheOptions; adapters?: Adapters });
  static load(model: Model, bytes: Uint8Array, options?: { cache?: CacheOptions }): Promise<Session>;
  readonly model: Model;
  readonly length: number;
  readonly capacity: number;
  readonly tokens: Uint32Array;
  truncate(length: number): void;
  fork(): Session;
  save(): Promise<Uint8Array>;
  /** Continues a text, tokens or a prompt. Leading tokens that the KV cache holds already are not computed again.
   * Without `sampling`, the most likely token is chosen. */
  generate(prompt: string | Tokens | Prompt, options?: GenerateOptions): AsyncGenerator<string, void, void>;
}
