/** Version of the library. */
export const version: string;

/** A call of the library that failed. */
export class RealizarError extends Error {
  /** Name of its status, such as "RZ_ERR_CONTEXT_FULL". */
  readonly code: string;
  readonly status: number;
  /** The `errno` of the system call that failed, else 0. */
  readonly systemCode: number;
}

export interface Device {
  index: number;
  name: string;
  kind: "cpu" | "cuda";
  available: boolean;
  /** Why it cannot be used. */
  unavailable: string;
  isa: string;
  memoryTotal: number;
  memoryFree: number;
}
export function devices(): Device[];

/** The path of a model of the Hugging Face Hub, "hf:owner/name" or "hf:owner/name:quantisation", in the cache of the
 * Hub's own client, which is fetched where it is not complete there: by the largest quantisation of at most 8 bits that
 * fits into the free memory where none is named. What has come is kept where a connection ends. HF_HOME, HF_HUB_CACHE,
 * HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE and the proxies of the environment are heeded. */
export function fetchModel(
  model: string,
  options?: { signal?: AbortSignal; progress?: (done: number, total: number) => void },
): Promise<string>;

export interface LoadOptions {
  /** Index of a device; 0: chosen by the library. */
  device?: number;
  /** Indices of GPUs over which the layers are divided, and the sizes of their parts. */
  devices?: number[];
  shares?: number[];
  gpuLayers?: number;
  /** The place of experts of layers on GPUs, such as "experts=auto" or "experts=cpu"; absent: with their layers. */
  placement?: string;
  /** GGML type to which matrices of floats are converted. */
  quantize?: number;
  /** File of packed weights, which processes share. */
  packedPath?: string;
  /** File of the tests that GPUs have passed, which later processes need not make again. */
  testedPath?: string;
  /** Threads that compute; 0: one a processor core. */
  threads?: number;
  /** Bytes of weights and caches at most; 0: no limit. */
  memoryLimit?: number;
  promptTokensBeside?: number;
  deterministic?: boolean;
  mmap?: boolean;
  textOnly?: boolean;
  mtp?: boolean;
  allowUnknown?: boolean;
  /** Products on the CPU are in BF16 where that is faster for prompts, with other results. */
  bf16Products?: boolean;
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
  /** The first layer on a GPU whose experts are on the CPU, and the number of them up to the last. */
  expertsHostFirst: number;
  expertsHostLayers: number;
  expertsHost: number;
  expertsDevice: number;
}
/** Bytes that a load and so many sessions will take, before a weight is read. */
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
  nUnknown: number;
  bosToken?: number;
  eosToken?: number;
  /** True where there is a template for conversations. */
  chatTemplate: boolean;
}

/** Chooses tokens. A member that is absent is off, so that {} chooses the most likely token. */
export interface Sampling {
  temperature?: number;
  topK?: number;
  topP?: number;
  minP?: number;
  repeatPenalty?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  penaltyWindow?: number;
  /** The temperature comes ahead of the filters. */
  temperatureFirst?: boolean;
  seed?: number;
  /** Pairs of a token and what is added to its logit. */
  biases?: [token: number, bias: number][];
  typicalP?: number;
  topNSigma?: number;
  xtcProbability?: number;
  xtcThreshold?: number;
  temperatureRange?: number;
  temperatureExponent?: number;
  mirostatTau?: number;
  mirostatEta?: number;
  dryMultiplier?: number;
  dryBase?: number;
  dryAllowedLength?: number;
  dryWindow?: number;
  dryBreakers?: Tokens[];
  noRepeatNgramSize?: number;
  bannedSequences?: Tokens[];
  order?: ("topNSigma" | "topK" | "typicalP" | "topP" | "minP" | "xtc" | "temperature")[];
}

/** The form of a text; `whitespace` lets JSON have some. */
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
  /** Frees what this stands for, or with the call that is using it. Closing twice is fine. */
  close(): void;
  [Symbol.dispose](): void;
}

/** Weights, tokenizer and metadata. Any number of calls, and of conversations, may use one at once. */
export class Model extends Handle {
  private constructor();
  /** Loads a file, a folder, the bytes of a file, which are copied, or a model of the Hub, as of `fetchModel`. */
  static load(
    source: string | Uint8Array,
    options?: LoadOptions & { signal?: AbortSignal; progress?: (done: number, total: number) => void },
  ): Promise<Model>;
  readonly info: ModelInfo;
  /** The makers' advice; undefined where they advise nothing. */
  readonly advisedSampling: Sampling | undefined;
  /** A value of the metadata as text. */
  meta(key: string): string;
  /** `special`: with tokens that begin and end a text (true). `parse`: "<|im_end|>" is its token (false). */
  tokenize(text: string, options?: { special?: boolean; parse?: boolean }): Uint32Array;
  detokenize(tokens: Tokens, options?: { special?: boolean }): string;
  /** A vector for each text, or list of tokens; with the pooling "none" those of its tokens, one behind the other. */
  embed(
    texts: (string | Tokens | Prompt)[],
    options?: { pooling?: "model" | "none" | "mean" | "cls" | "last" | "rank"; raw?: boolean; signal?: AbortSignal },
  ): Promise<Float32Array[]>;
  adapter(path: string): Promise<Adapter>;
}

/** A low-rank adapter of a model. */
export class Adapter extends Handle {
  private constructor();
}

export interface EncoderOptions {
  /** Index of a device: 1, the CPU, or 0. */
  device?: number;
  /** GGML type to which matrices of floats are converted. */
  quantize?: number;
  /** The most rows that a picture or a sound may have; 0: what the files allow, at most 4096. */
  maxRows?: number;
  /** The encoder of a file that has several; without it that of pictures, else that of sound. */
  kind?: "image" | "audio";
  allowUnknown?: boolean;
}
export interface EncoderInfo {
  projector: string;
  /** The rows of a picture see each other, so that one step of the model computes them. */
  isMutual: boolean;
  rowDim: number;
  nLayers: number;
  /** Pixels of the side of a tile; 0: a picture is one tile of any size. */
  tileSide: number;
  /** Pixels of which the sides of tiles are multiples. */
  grain: number;
  minRows: number;
  maxRows: number;
  weightBytes: number;
  scratchBytes: number;
  /** It makes media of sounds, and not of pictures. */
  hears: boolean;
  /** Samples a second that sound is brought to; 0 of pictures. */
  sampleRate: number;
}
export interface EncoderPlan {
  maxRows: number;
  weightsHost: number;
  scratchHost: number;
  /** Bytes of a row. */
  row: number;
}
/** A picture in memory, its rows from the top, such as an ImageData. */
export interface Pixels {
  data: Uint8Array | Uint8ClampedArray;
  width: number;
  height: number;
  /** "rgba8" where it is absent. */
  format?: "rgb8" | "rgba8" | "bgra8" | "gray8";
  /** Bytes from one row to the next. */
  stride?: number;
}
export interface MediaOptions {
  /** Smaller pictures are enlarged and larger ones shrunk, where the model takes any size. */
  minRows?: number;
  maxRows?: number;
  /** The most tiles, an overview not counted; 1: the whole picture alone. */
  maxTiles?: number;
  /** The most pixels of a picture in a file; 0: 64 million. */
  maxPixels?: number;
  /** The background color of transparent pixels, 0xffRRGGBB; 0: white. */
  background?: number;
  /** `Media.step` does the work, and prompts refuse the medium until it is done. Signals and progress do nothing
   * then. */
  inSteps?: boolean;
}

/** The encoder of a model that sees or hears. Any number of calls may use one at once. */
export class Encoder extends Handle {
  private constructor();
  /** The .gguf file with the projector ("mmproj-..."), or a folder with a config.json: that of the model, where it has
   * both; or the bytes of the file; or that of a model of the Hub, "hf:owner/name". */
  static load(
    model: Model,
    path: string | Uint8Array,
    options?: EncoderOptions & { signal?: AbortSignal; progress?: (done: number, total: number) => void },
  ): Promise<Encoder>;
  /** Bytes that an encoder will take, before a weight is read. */
  static plan(model: Model, path: string, options?: EncoderOptions): Promise<EncoderPlan>;
  readonly info: EncoderInfo;
  /** A medium of the bytes of a PNG, JPEG, WebP, GIF or BMP file, or of pixels. */
  encode(
    image: Uint8Array | Pixels,
    options?: MediaOptions & { signal?: AbortSignal; progress?: (done: number, total: number) => void },
  ): Promise<Media>;
  /** A medium of a video: at least two frames of one size, one behind the other in `data` without gaps, and the time of
   * each in seconds from its beginning. Rows of the options are bounds on all frames together. */
  encodeVideo(
    frames: Omit<Pixels, "stride">,
    times: ArrayLike<number>,
    options?: MediaOptions & { signal?: AbortSignal; progress?: (done: number, total: number) => void },
  ): Promise<Media>;
  /** A medium of the bytes of a WAV, MP3, FLAC or Ogg file, or of samples from -1 to 1 of so many `channels`, one of each after the
   * other, `rate` of each a second. Several channels become their mean. */
  encodeSound(
    sound: Uint8Array | Float32Array,
    options?: { channels?: number; rate?: number; maxRows?: number; inSteps?: boolean; signal?: AbortSignal;
      progress?: (done: number, total: number) => void },
  ): Promise<Media>;
  /** The info of a picture of so many pixels, or of a sound of `width` samples of a channel at the rate of the encoder,
   * without one; time and hash are zero. */
  measure(width: number, height?: number, options?: MediaOptions): MediaInfo;
}

export interface MediaInfo {
  kind: "image" | "audio" | "text" | "vector" | "video";
  /** Rows, each of which takes the place of a token in a session. */
  nRows: number;
  /** Tokens of a prompt that it takes: its rows, and the model's tokens around and between them. */
  nTokens: number;
  rowDim: number;
  /** Rows of a line, and lines, of a tile where there are several, of a pair of frames. */
  columns: number;
  lines: number;
  /** Pairs of frames of a video. */
  pairs: number;
  /** 0 where the picture is one tile. */
  tileColumns: number;
  tileLines: number;
  hasOverview: boolean;
  width: number;
  height: number;
  /** Pixels as the model sees them, by which places that it names are mapped back. */
  seenWidth: number;
  seenHeight: number;
  bytes: number;
  encodeNs: number;
  hash: Uint8Array;
}

/** The rows of a picture or a sound, which a model takes among its tokens, in any number of prompts. */
export class Media extends Handle {
  private constructor();
  /** Rows that an encoder of the caller gave, one behind the other. `columns` times `lines` is their number, for models
   * whose positions go by both. */
  static fromRows(
    model: Model,
    rows: Float32Array,
    options: { rowDim: number; kind?: "image" | "audio"; columns?: number; lines?: number },
  ): Media;
  static load(model: Model, bytes: Uint8Array): Promise<Media>;
  save(): Promise<Uint8Array>;
  readonly info: MediaInfo;
  /** 32 bytes, the same for the same pixels, options and encoder: a key for tables. */
  readonly hash: Uint8Array;
  /** Works for about so many milliseconds, or to the end, on a medium that was made with `inSteps`; whether there is
   * more to do. One step at a time. */
  step(milliseconds?: number): Promise<boolean>;
  /** The rows one behind the other, each of `info.rowDim` numbers. */
  rows(): Float32Array;
}

/** Instead of a token in the tokens of sessions and prompts: a row of a medium. */
export const MEDIA_TOKEN: number;

/** Tokens and media in their order. */
export class Prompt extends Handle {
  /** A text as the first part has the tokens that begin a text. `bare`: the rows of media alone, without the model's
   * tokens around and between them. */
  constructor(model: Model, parts: (string | Tokens | Media)[], options?: { bare?: boolean });
  /** Messages up to where the answer begins. Their content may have media: {type: "image" or "audio", media}. */
  static ofChat(
    model: Model,
    messages: Message[],
    rest?: { tools?: object[]; variables?: Record<string, unknown> },
  ): Prompt;
  readonly length: number;
  /** The tokens, MEDIA_TOKEN for each row of a medium. */
  readonly tokens: Uint32Array;
}

export interface StoreOptions {
  /** Folder of files that outlive the process. */
  path?: string;
  minTokens?: number;
  memoryLimit?: number;
  maxEntries?: number;
  diskLimit?: number;
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
}

/** Remembers what prompts left behind, for conversations of one model that begin alike. */
export class Store extends Handle {
  private constructor();
  static open(model: Model, options?: StoreOptions): Promise<Store>;
  readonly info: StoreInfo;
  /** Forgets all, and removes the model's files. */
  clear(): Promise<void>;
}

export type CacheType = "f16" | "q8" | "q4" | "f32";
export interface CacheOptions {
  /** Tokens; 0: those of the model, at most 8192. */
  capacity?: number;
  kType?: CacheType;
  vType?: CacheType;
}
export type Adapters = (Adapter | [adapter: Adapter, scale: number])[];

export interface Message {
  role: string;
  content?: string | null | ({ type: "text"; text: string } | { type: "image" | "audio"; media: Media | number })[];
  reasoning_content?: string;
  tool_calls?: { id?: string; type?: "function"; function: { name: string; arguments: string | object } }[];
  tool_call_id?: string;
  name?: string;
  finish_reason?: "stop" | "tool_calls" | "length" | "cancelled";
  [member: string]: unknown;
}

export interface ConversationOptions {
  system?: string;
  messages?: Message[];
  tools?: object[];
  toolChoice?: "auto" | "none" | "required" | { function: { name: string } };
  parallelToolCalls?: boolean;
  /** Variables of the template. */
  variables?: Record<string, unknown>;
  /** Messages that have no room let the reply fail with RZ_ERR_CONTEXT_FULL, or the oldest turns are left out. */
  overflow?: "fail" | "forget";
  cache?: CacheOptions;
  store?: Store;
  adapters?: Adapters;
}

export interface GenerateOptions {
  /** 0: as many as there is room for. */
  maxTokens?: number;
  sampling?: Sampling;
  grammar?: Grammar;
  /** The text ends ahead of the first that is complete. */
  stops?: string[];
  /** Source of guesses at the next tokens, which change nothing but the time: the text, a layer, a model. */
  draft?: "none" | "lookup" | "mtp" | Model;
  draftMax?: number;
  /** Among replies that are made in common the higher go first. */
  priority?: number;
  /** Ends the loop, with its reason. */
  signal?: AbortSignal;
}

/** A reply without `sampling` follows what the makers advise; a grammar is that of the content. */
export interface ReplyOptions extends GenerateOptions {
  reasoning?: "model" | "off" | "on";
  /** Tokens of reasoning at most; 0: no bound. */
  reasoningTokens?: number;
  /** Likeliest tokens that `logprobs` tells with each. */
  logprobs?: number;
  /** Makes a message of the part of a reply that was said before it is given up. */
  keep?: boolean;
  /** Goes on with the last message, a reply that was cut. */
  continue?: boolean;
}

export interface Part {
  kind: "content" | "reasoning" | "toolName" | "toolArguments" | "end";
  text: string;
  /** Number of the call that it belongs to. */
  call: number;
  /** True where the part of a call was not understood, or is not complete. */
  unparsed: boolean;
}

export interface TokenLogprob {
  token: number;
  logprob: number;
}

export type End = "end" | "length" | "stop" | "context" | "grammar" | "failed";
export interface ConversationInfo {
  nMessages: number;
  firstInPrompt: number;
  state: "prompt" | "tokens" | "ended" | null;
  end: End | null;
  promptTokens: number;
  /** Tokens of the prompt that were not computed again. */
  reusedTokens: number;
  promptDone: number;
  nTokens: number;
  reasoningTokens: number;
  drafted: number;
  accepted: number;
  cacheLen: number;
  cacheCapacity: number;
  /** Media that messages name. */
  nMedia: number;
  promptNs: number;
  tokensNs: number;
  firstTokenNs: number;
}

/** Messages with a model, and what is computed of them. One call at a time: a second one gets RZ_ERR_BUSY. */
export class Conversation extends Handle {
  constructor(model: Model, options?: ConversationOptions);
  /** The conversation that `save` has written, which goes on as the saved one would have. */
  static load(
    model: Model,
    bytes: Uint8Array,
    options?: { cache?: CacheOptions; store?: Store },
  ): Promise<Conversation>;
  readonly model: Model;
  readonly info: ConversationInfo;
  /** Appends a text of a role ("user"), a message, or a list of them. */
  add(messages: string | Message | Message[], role?: string): void;
  /** The media that messages name, by the numbers in their parts. */
  readonly media: Media[];
  messages(first?: number): Message[];
  /** Forgets the messages after the first so many. */
  rewind(count: number): void;
  fork(): Conversation;
  save(): Promise<Uint8Array>;
  /** A message of the user, and the content of the reply. What was said stays where the loop is left or aborted; any
   * other failure leaves the messages as they were. */
  say(text: string, options?: ReplyOptions): AsyncGenerator<string, void, void>;
  /** All parts of a reply. A loop that is left early gives it up; with `keep` it keeps what was said. */
  reply(options?: ReplyOptions): AsyncGenerator<Part, void, void>;
  /** Has the loop over a reply end, as if it were left. */
  stop(): void;
  /** Tokens of content that are new since the last call, of a reply with `logprobs`. */
  logprobs(): (TokenLogprob & { likeliest: TokenLogprob[] })[];
}

/** A line of tokens, for all that is no conversation. */
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
  /** Goes on with a text, tokens or a prompt; what the session holds of them from its start is not computed again.
   * The most likely token is chosen if there is no `sampling`. */
  generate(prompt: string | Tokens | Prompt, options?: GenerateOptions): AsyncGenerator<string, void, void>;
}
