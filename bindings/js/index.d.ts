import type {
  CacheParams, EmbedParams, EncoderParams, JobParams, LoadParams, MediaParams, Pooling, ReplyParams, RuntimeParams,
  SamplingParams, StoreParams,
} from "./options";
import type {
  ConversationInfo, Device, EncoderFacts, EncoderPlan, LoadPlan, MediaInfo, ModelFacts, StoreInfo,
} from "./results";
import type { StatusName } from "./statuses";

export type { StatusName } from "./statuses";
export type { ConversationInfo, Device, EncoderPlan, MediaInfo, StoreInfo } from "./results";
export type { CacheType, Filter, Pooling, Reasoning, ElementType } from "./options";

declare global {
  // As in TypeScript libraries newer than es2022.
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

/** Devices that models can be loaded to, and those that cannot be used, with the reason. */
export function devices(): Device[];

/** Downloads a model of the Hugging Face Hub, "hf:owner/name" or "hf:owner/name:quantization", to the cache of the
 * Hub's own client and returns its path. A model that is complete in the cache needs no connection. Without a
 * quantization, the largest one of at most 8 bits that fits into free memory is chosen. Interrupted downloads resume.
 * HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE and the proxies of the environment apply. */
export function fetchModel(
  model: string,
  options?: { signal?: AbortSignal; progress?: (done: number, total: number) => void },
): Promise<string>;

/** Places the MoE experts of layers that are on GPUs (expert offload). */
export interface Placement {
  /** "auto": as many as fit on GPUs, starting with the last layer. "gpu": on GPUs, starting with the last layer, up
   * to `bytes` in total. */
  place: "auto" | "cpu" | "gpu";
  /** With "cpu": first layer concerned. */
  firstLayer?: number;
  /** With "cpu": number of layers with experts; 0: all. */
  layers?: number;
  /** With "gpu": bytes of experts on all GPUs together. */
  bytes?: number;
}

/** Options of a load. */
export interface LoadOptions extends LoadParams, RuntimeParams {
  /** Indices of GPUs that share the layers, in this order. */
  devices?: number[];
  /** Relative shares of `devices`; absent: by free memory. */
  shares?: number[];
  /** Expert offload; by default experts are where their layer is. */
  placements?: Placement[];
  /** File of packed weights, created by the first load and mapped by later loads, also of other processes. */
  packedPath?: string;
  /** File that records passed GPU self-tests, so that later processes skip them. */
  testedPath?: string;
  /** Jinja chat template that replaces the model's own. */
  chatTemplate?: string;
}

/** Memory that a model and its sessions will take, in bytes. */
export interface Plan extends LoadPlan {
  /** Memory on each GPU that has layers, in layer order. */
  devices: { device: number; nLayers: number; weights: number; cache: number; scratch: number; total: number }[];
}
/** The memory, in bytes, that a load and a number of sessions will take. Reads no weights. */
export function plan(
  source: string | Uint8Array,
  options?: LoadOptions & { sessions?: number; cache?: CacheOptions },
): Promise<Plan>;

/** Description of a model: what its file contains, and where it was loaded. */
export interface ModelInfo extends ModelFacts {
  /** GPUs that have layers, in the order of the layers. */
  devices: { device: number; nLayers: number }[];
}

/** Sampling parameters. An absent one is off, so {} is greedy. */
export interface Sampling extends SamplingParams {}

/** Grammar of a text (constrained decoding), of exactly one kind. `whitespace`: JSON may contain whitespace. */
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
  /** Ends the calls that use the object, which are rejected ("... is closed"), and frees it. Later calls of it and of
   * dependent objects, such as the conversations of a model, fail alike. Closing twice is fine. */
  close(): void;
  /** True after `close` of the object, or of the object that it depends on. */
  readonly closed: boolean;
  [Symbol.dispose](): void;
}

/** A loaded model. Any number of calls and conversations may use it at once. */
export class Model extends Handle {
  private constructor();
  /** Loads a file, a folder, a copy of the bytes of a file, or a model of the Hub (see `fetchModel`). */
  static load(
    source: string | Uint8Array,
    options?: LoadOptions & { signal?: AbortSignal; progress?: (done: number, total: number) => void },
  ): Promise<Model>;
  /** Description of the model. */
  readonly info: ModelInfo;
  /** The model's recommended sampling parameters, or undefined. */
  readonly advisedSampling: Sampling | undefined;
  /** Returns a metadata value as text. */
  meta(key: string): string;
  /** Converts text to tokens. `special` (default true): adds BOS and EOS as the model defines. `parse` (default false):
   * names of special tokens in the text, such as "<|im_end|>", become these tokens; do not use it for text of users. */
  tokenize(text: string, options?: { special?: boolean; parse?: boolean }): Uint32Array;
  /** Returns the text of tokens. `special` (default false): with special tokens. */
  detokenize(tokens: Tokens, options?: { special?: boolean }): string;
  /** Returns an embedding per text, list of tokens or prompt; with the pooling "none" the concatenated vectors of all
   * its tokens. */
  embed(
    texts: (string | Tokens | Prompt)[],
    options?: EmbedParams & { signal?: AbortSignal },
  ): Promise<Float32Array[]>;
  /** Loads a LoRA adapter of this model: a GGUF file or a PEFT folder. Fails with "RZ_ERR_MISMATCH" if it is of
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
  /** Ignores unknown keys and tensors. */
  allowUnknown?: boolean;
}
/** Description of an encoder. */
export interface EncoderInfo extends EncoderFacts {
  /** True for an audio encoder. */
  hears: boolean;
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
  /** True: `Media.step` encodes, and prompts reject the media until it is done. Signals and progress are ignored. */
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
  /** Description of the encoder. */
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
  /** Encodes audio from the bytes of a WAV, MP3, FLAC or Ogg file, or from samples from -1 to 1. Samples of several
   * `channels` are interleaved and averaged; `rate` is samples per second of each channel. */
  encodeSound(
    sound: Uint8Array | Float32Array,
    options?: { channels?: number; rate?: number; maxRows?: number; inSteps?: boolean; signal?: AbortSignal;
      progress?: (done: number, total: number) => void },
  ): Promise<Media>;
  /** Returns the info of an image of this size, without encoding. For audio, `width` is the number of samples per
   * channel at the encoder's rate. Time and hash are zero. */
  measure(width: number, height?: number, options?: MediaOptions): MediaInfo;
}


/** Embeddings of an image, a video or audio, one row per token position, for any number of prompts. */
export class Media extends Handle {
  private constructor();
  /** Creates media from concatenated embeddings of the caller's own encoder. `columns` * `lines` must be the number of
   * rows, for models with M-RoPE positions. */
  static fromRows(
    model: Model,
    rows: Float32Array,
    options: { rowDim: number; kind?: "image" | "audio"; columns?: number; lines?: number },
  ): Media;
  /** Loads media that `save` wrote. Needs no encoder. */
  static load(model: Model, bytes: Uint8Array): Promise<Media>;
  /** Returns the media as bytes, which `load` reads. */
  save(): Promise<Uint8Array>;
  /** Description of the media. */
  readonly info: MediaInfo;
  /** 32 bytes, equal for equal pixels, options and encoder: a cache key. */
  readonly hash: Uint8Array;
  /** Encodes media of `inSteps` for about this many milliseconds, by default to the end. Returns true if there is more
   * to compute. One step at a time. */
  step(milliseconds?: number): Promise<boolean>;
  /** The rows one after the other, each of `info.rowDim` numbers. */
  rows(): Float32Array;
}

/** Placeholder for a row of media in the tokens of sessions and prompts. */
export const MEDIA_TOKEN: number;

/** A sequence of tokens and media. */
export class Prompt extends Handle {
  /** Creates a prompt of parts; a text that is the first part gets BOS. `bare`: omits the model's tokens around and
   * between the rows of media. */
  constructor(model: Model, parts: (string | Tokens | Media)[], options?: { bare?: boolean });
  /** Creates a prompt of messages, up to the beginning of the reply. Content may have media: {type: "image" or "audio",
   * media}. */
  static ofChat(
    model: Model,
    messages: Message[],
    rest?: { tools?: object[]; variables?: Record<string, unknown> },
  ): Prompt;
  /** Number of tokens. */
  readonly length: number;
  /** The tokens, with MEDIA_TOKEN for each row of a media item. */
  readonly tokens: Uint32Array;
}

/** Options of a store. */
export interface StoreOptions extends StoreParams {
  /** Folder for files that outlive the process, which other processes may share. */
  path?: string;
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
  /** Sampling parameters. */
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

/** Without `sampling`, a reply uses the recommended sampling parameters. The grammar applies to the content. */
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
  /** The media of the messages, by the index in content parts. */
  readonly media: Media[];
  /** Returns the messages from index `first` (0) on, without an unfinished reply. */
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
  /** Sets the prefix cache for later replies; null: none. */
  setStore(store: Store | null): void;
  /** Returns a copy of the conversation, which shares the KV cache copy-on-write. */
  fork(): Conversation;
  /** The conversation and its KV cache as bytes, which `load` reads. */
  save(): Promise<Uint8Array>;
  /** Adds a user message and yields the content of the reply. If the loop is left or aborted, the text so far
   * stays as a message; any other failure restores the messages. */
  say(text: string, options?: ReplyOptions): AsyncGenerator<string, void, void>;
  /** Yields all parts of a reply. Leaving the loop early gives the reply up; with `keep` the text so far becomes a
   * message. */
  reply(options?: ReplyOptions): AsyncGenerator<Part, void, void>;
  /** Prefills the messages, which lowers the next reply's time to first token. Pass the options of the next reply. Adds
   * no message. */
  read(options?: ToolOptions & Pick<ReplyOptions, "reasoning" | "priority" | "signal">): Promise<void>;
  /** Ends the loop over a reply, as if the loop were left. */
  stop(): void;
  /** The tokens of the content since the last call with their log probabilities, of a reply with `logprobs`. */
  logprobs(): (TokenLogprob & { likeliest: TokenLogprob[] })[];
}

/** Tokens with their KV cache, for text generation without a conversation. */
export class Session extends Handle {
  /** An empty session. */
  constructor(model: Model, options?: { cache?: CacheOptions; adapters?: Adapters });
  /** Reads the session that `save` has written. */
  static load(model: Model, bytes: Uint8Array, options?: { cache?: CacheOptions }): Promise<Session>;
  /** The model that generates. */
  readonly model: Model;
  /** Number of tokens. */
  readonly length: number;
  /** Context length in tokens. */
  readonly capacity: number;
  /** The tokens, with MEDIA_TOKEN for each row of a media item. */
  readonly tokens: Uint32Array;
  /** Keeps the first `length` tokens and removes the others. */
  truncate(length: number): void;
  /** Returns a copy of the session, which shares the KV cache copy-on-write. */
  fork(): Session;
  /** The session and its KV cache as bytes, which `load` reads. */
  save(): Promise<Uint8Array>;
  /** Continues a text, tokens or a prompt. A prefix that is already in the KV cache is not computed again. Without
   * `sampling`, decoding is greedy. */
  generate(prompt: string | Tokens | Prompt, options?: GenerateOptions): AsyncGenerator<string, void, void>;
}
