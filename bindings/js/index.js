// Language models inside this process: models, conversations and texts on top of the addon (src/), which calls the
// library.
//
// A call that computes returns a promise, and runs on a thread of libuv's pool in slices of time, so that other work of
// the pool gets its turn. An object belongs to one call at a time: a second one gets RZ_ERR_BUSY.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const hub = require("./hub.js");
const known = require("./options.js");
const statuses = require("./statuses.js");

/** A failed call of the library. `code` is the name of the status, such as "RZ_ERR_CONTEXT_FULL". */
class RealizarError extends Error {
  constructor(code, status, message, systemCode = 0, needed = 0) {
    super(message);
    this.code = code;
    this.status = status;
    this.systemCode = systemCode;
    this.needed = needed;
  }
  get name() {
    return "RealizarError";
  }
}

/** The folder with the addon and the library: this one, or a package for this system, which npm installs next to it. */
const home = homeOfAddon();
const native = require(path.join(home, "realizar.node"));
const version = native.open(libraryPath(), (code, status, message, ...more) => new RealizarError(code, status, named(message), ...more));

function homeOfAddon() {
  if (fs.existsSync(path.join(__dirname, "realizar.node"))) return __dirname;
  const name = `realizar-${process.platform}-${process.arch}`;
  for (const each of [name, `${name}-musl`]) {
    try {
      return path.dirname(require.resolve(`${each}/package.json`));
    } catch (error) {
      if (error.code !== "MODULE_NOT_FOUND") throw error;
    }
  }
  throw new Error(`the package ${name} is missing; realizar needs it, and npm installs it unless optional packages are omitted`);
}

/** Returns a message of the library, in which fields of its structs have the names of options. */
function named(message) {
  const camel = (name) => name.replace(/_([a-z])/g, (_, first) => first.toUpperCase());
  return message.replace(/\brz_[a-z]+_params\.([a-z_]+)/g, (_, name) => camel(name));
}

/** The library's file: REALIZAR_LIBRARY, the one next to the addon, or the name by which the system knows it. */
function libraryPath() {
  if (process.env.REALIZAR_LIBRARY) return process.env.REALIZAR_LIBRARY;
  const [own, installed] = {
    win32: ["realizar.dll", "realizar.dll"],
    darwin: ["librealizar.dylib", "librealizar.1.dylib"],
  }[process.platform] ?? ["librealizar.so", "librealizar.so.1"];
  const file = path.join(home, own);
  return fs.existsSync(file) ? file : installed;
}

/** Microseconds of a slice of a prompt. Decode steps generate one token each. */
const SLICE = 5_000;
/** Texts that are embedded in one slice. */
const TEXTS = 16;

const failed = (code, message) => new RealizarError(code, statuses[code], message);
const invalid = (message) => failed("RZ_ERR_INVALID_ARGUMENT", message);

// Names of options.
const WATCHED = ["signal", "progress"];
const LOAD = [...known.load, ...known.runtime, "devices", "shares", "placements", "packedPath", "testedPath", "chatTemplate"];
const ENCODER = [...known.encoder, "kind", "allowUnknown"];
const MEDIA = [...known.media, "inSteps"];
const MEMBERS = ["tools", "toolChoice", "parallelToolCalls", "variables"];
const CONVERSATION = ["system", "messages", ...MEMBERS, "overflow", "cache", "store", "adapters"];
const GENERATE = [...known.job, "sampling", "grammar", "stops", "draft", "signal"];
const REPLY = [...new Set([...GENERATE, ...known.reply, ...MEMBERS])];
const READ = [...MEMBERS, "reasoning", "priority", "signal"];
const GRAMMAR = ["jsonSchema", "json", "regex", "lark", "gbnf", "choices", "tools", "whitespace"];

/** Returns the options, or {} if there are none. Throws unless they are an object with known names only. */
function check(options, names, what = "the options") {
  if (options === undefined || options === null) return {};
  if (typeof options !== "object" || Array.isArray(options))
    throw invalid(`${what} are of type ${Array.isArray(options) ? "array" : typeof options}; they must be an object`);
  for (const name of Object.keys(options)) {
    if (names.includes(name)) continue;
    const nearest = names.reduce((one, other) => (distance(name, other) < distance(name, one) ? other : one));
    const isNear = distance(name, nearest) <= Math.max(2, name.length / 2);
    const hint = known.sampling.includes(name) ? "; it is an option of sampling" : isNear ? `; the nearest is ${nearest}` : "";
    throw invalid(`the option ${name} is unknown${hint}`);
  }
  return options;
}

/** Returns `value`, which must be an array. */
function arrayOf(value, what) {
  if (!Array.isArray(value)) throw invalid(`${what} are no array`);
  return value;
}

/** The number of characters by which two names differ. */
function distance(one, other) {
  let row = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (let i = 0; i < one.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < other.length; j++)
      next.push(Math.min(row[j + 1] + 1, next[j] + 1, row[j] + (one[i] === other[j] ? 0 : 1)));
    row = next;
  }
  return row[other.length];
}

/** Token ids as the addon takes them. Uint32Array.from would turn -1 into a token. */
function idsOf(tokens) {
  if (tokens instanceof Uint32Array) return tokens;
  if (!Array.isArray(tokens)) throw invalid("tokens are neither an array nor a Uint32Array");
  const wrong = tokens.find((token) => !(Number.isInteger(token) && token >= 0 && token <= 0xffffffff));
  if (wrong !== undefined || tokens.includes(undefined))
    throw invalid(`a token is ${String(wrong)}; it must be a whole number from 0 to 4294967295`);
  return Uint32Array.from(tokens);
}

/** The native object of another object, which is checked here because a foreign one has none. */
const handles = new WeakMap();
function handleOf(object, kind) {
  if (!(object instanceof kind)) throw invalid(`an argument is no ${kind.name}`);
  return handles.get(object);
}

class Handle {
  /** Frees the object, after the calls that use it. Closing twice is fine. */
  close() {
    native.close(handles.get(this));
  }
}
if (Symbol.dispose) {
  Object.defineProperty(Handle.prototype, Symbol.dispose, {
    value: Handle.prototype.close,
    configurable: true,
    writable: true,
  });
}

/** An object of a class for a native one, past the constructor. */
function made(kind, handle) {
  const object = Object.create(kind.prototype);
  handles.set(object, handle);
  return object;
}

// Calls at work end with the process, which waits for its threads.
process.once("exit", () => native.fireAll());

/** A cancel that the signal fires, and a function that releases both. */
function newFlag(signal) {
  if (signal && !(signal instanceof AbortSignal)) throw invalid("the signal is no AbortSignal");
  signal?.throwIfAborted();
  const cancel = native.cancel();
  const fire = () => native.fire(cancel);
  signal?.addEventListener("abort", fire, { once: true });
  const release = () => {
    signal?.removeEventListener("abort", fire);
    native.close(cancel);
  };
  return { cancel, release };
}

/** Runs `work` with a cancel that the signal fires. If the signal has ended the work, throws the reason of the signal.
 */
async function cancellable(signal, work) {
  const { cancel, release } = newFlag(signal);
  try {
    return await work(cancel);
  } catch (error) {
    throw reasonOf(signal, error);
  } finally {
    release();
  }
}

/** The same for work that makes an object, with progress several times per second. An exception of `progress` ends the
 * work. */
async function watched(signal, progress, work) {
  return cancellable(signal, async (cancel) => {
    let failed;
    const tell = () => {
      try {
        const [done, total] = native.progress(cancel);
        if (total) progress(done, total);
      } catch (error) {
        failed ??= { error };
        native.fire(cancel);
      }
    };
    const timer = progress && setInterval(tell, 50);
    try {
      const object = await work(cancel);
      if (progress && !failed) tell();
      if (failed) {
        object.close();
        throw failed.error;
      }
      return object;
    } catch (error) {
      throw failed ? failed.error : error;
    } finally {
      clearInterval(timer);
    }
  });
}

function reasonOf(signal, error) {
  return signal?.aborted && error?.code === "RZ_ERR_CANCELLED" ? signal.reason : error;
}

/** Devices that models can be loaded to, and those that cannot be used, with the reason. */
function devices() {
  return native.devices();
}

const isOfHub = (name) => typeof name === "string" && name.startsWith("hf:");

/** The path of a model of the Hugging Face Hub, "hf:owner/name" or "hf:owner/name:quantization", in the cache of the
 * Hub's own client. A model that is complete there takes no connection. */
async function fetchModel(model, options = {}) {
  const { signal, progress } = check(options, WATCHED);
  const free = Math.max(...devices().map((device) => (device.available ? device.memoryFree : 0)));
  try {
    return await hub.fetchModel(String(model), { free, signal, progress });
  } catch (error) {
    if (!(error instanceof hub.Failure)) throw error;
    throw Object.assign(failed("RZ_ERR_IO", error.message), { cause: error.cause });
  }
}

/** The memory, in bytes, that a load and `sessions` sessions will take. Reads no weights. */
function plan(source, options = {}) {
  const { sessions = 1, cache, ...load } = check(options, [...LOAD, "sessions", "cache"]);
  return native.plan(source, { ...load, ...check(cache, known.cache, "the options of the cache"), nCaches: sessions });
}

/** A loaded model. Any number of calls and conversations may use it at once. */
class Model extends Handle {
  constructor() {
    throw new TypeError("a model is made by Model.load");
  }

  /** Loads a file, a folder, the bytes of a file, which are copied, or a model of the Hub, which `fetchModel` fetches.
   */
  static async load(source, given = {}) {
    const { signal, progress, ...options } = check(given, [...LOAD, ...WATCHED]);
    if (isOfHub(source)) source = await fetchModel(source, { signal, progress });
    return watched(signal, progress, async (cancel) => {
      const model = made(Model, await native.load(source, options, cancel));
      steps.set(model, new Steps());
      return model;
    });
  }

  get info() {
    return native.info(handles.get(this));
  }

  /** A value of the metadata as text. */
  meta(key) {
    return native.meta(handles.get(this), key);
  }

  /** The sampling that the authors of the model advise, or undefined. */
  get advisedSampling() {
    return native.advised(handles.get(this));
  }

  /** The tokens of a text. `special`: adds the tokens that begin and end a text. `parse`: names of control tokens in
   * the text become these tokens; not for text that users typed. */
  tokenize(text, options = {}) {
    const { special = true, parse = false } = check(options, ["special", "parse"]);
    return native.tokenize(handles.get(this), text, { special, parse });
  }

  detokenize(tokens, options = {}) {
    const { special = false } = check(options, ["special"]);
    return native.detokenize(handles.get(this), tokens, { special });
  }

  /** A vector for each text, list of tokens, or prompt with media. */
  async embed(texts, given = {}) {
    arrayOf(texts, "the texts");
    const { signal, ...options } = check(given, [...known.embed, "signal"]);
    return cancellable(signal, async (cancel) => {
      const vectors = [];
      for (let at = 0; at < texts.length; at += TEXTS) {
        const slice = texts.slice(at, at + TEXTS);
        const asPrompt = (text) => handles.get(text instanceof Prompt ? text : new Prompt(this, [text]));
        const prompts = slice.some((text) => text instanceof Prompt) ? slice.map(asPrompt) : undefined;
        vectors.push(...(await native.embed(handles.get(this), prompts ? [] : slice, options, cancel, prompts)));
      }
      return vectors;
    });
  }

  /** Loads a LoRA adapter of this model. */
  async adapter(file) {
    return made(Adapter, await native.adapter(handles.get(this), file));
  }
}

/** A LoRA adapter, for the option `adapters`: a list of adapters, or of pairs [adapter, scale]. */
class Adapter extends Handle {
  constructor() {
    throw new TypeError("an adapter is made by model.adapter");
  }
}

/** The bytes of an ArrayBufferView. */
function bytesOf(view, name) {
  if (!ArrayBuffer.isView(view)) throw invalid(`${name} are no view of memory`);
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

/** The vision or audio encoder of a multimodal model. Any number of calls may use it at once. */
class Encoder extends Handle {
  constructor() {
    throw new TypeError("an encoder is made by Encoder.load");
  }

  /** Loads the encoder of a model: the .gguf file with the projector ("mmproj-..."), its bytes, a folder with a
   * config.json, which may be that of the model, or the encoder of a model of the Hub. */
  static async load(model, file, given = {}) {
    const { signal, progress, ...options } = check(given, [...ENCODER, ...WATCHED]);
    const handle = handleOf(model, Model);
    if (isOfHub(file)) file = await fetchModel(hub.choose(file).encoder, { signal, progress });
    return watched(signal, progress, async (cancel) => made(Encoder, await native.encoder(handle, file, options, cancel)));
  }

  /** The memory, in bytes, that an encoder will take. Reads no weights. */
  static async plan(model, file, given = {}) {
    const options = check(given, ENCODER);
    const handle = handleOf(model, Model);
    if (isOfHub(file)) file = await fetchModel(hub.choose(file).encoder);
    return native.encoderPlan(handle, file, options);
  }

  get info() {
    return native.info(handles.get(this));
  }

  /** Encodes an image from the bytes of a PNG, JPEG, WebP, GIF or BMP file, or from pixels, {data, width, height,
   * format, stride}, such as an ImageData. */
  async encode(image, given = {}) {
    const { signal, progress, ...options } = check(given, [...MEDIA, ...WATCHED]);
    const isFile = ArrayBuffer.isView(image);
    const bytes = bytesOf(isFile ? image : image?.data, "the pixels");
    const { width, height, stride, format = "rgba8" } = image;
    const pixels = isFile ? undefined : { width, height, stride, format };
    return watched(signal, progress, async (cancel) =>
      made(Media, await native.encode(handles.get(this), bytes, pixels, options, cancel)),
    );
  }

  /** Encodes a video: `frames` {data, width, height, format}, at least two of one size, one after the other without
   * gaps, and `times`, the time of each in seconds from its beginning. */
  async encodeVideo(frames, times, given = {}) {
    const { signal, progress, ...options } = check(given, [...MEDIA, ...WATCHED]);
    const { width, height, format = "rgba8" } = frames;
    const bytes = bytesOf(frames.data, "the frames"), seconds = bytesOf(Float64Array.from(times), "the times");
    return watched(signal, progress, async (cancel) =>
      made(Media, await native.encodeVideo(handles.get(this), bytes, seconds, { width, height, format }, options, cancel)),
    );
  }

  /** Encodes sound from the bytes of a WAV, MP3, FLAC or Ogg file, or from samples, a Float32Array. Samples of several
   * `channels` are interleaved; `rate` is samples per second of each channel. */
  async encodeSound(sound, given = {}) {
    const { signal, progress, channels = 1, ...others } = check(given, ["channels", "rate", "maxRows", "inSteps", ...WATCHED]);
    const bytes = bytesOf(sound, "the sound"), options = { channels, ...others };
    if (sound instanceof Float32Array !== Boolean(options.rate)) throw invalid("samples have a rate, files have none");
    return watched(signal, progress, async (cancel) =>
      made(Media, await native.encodeSound(handles.get(this), bytes, options, cancel)),
    );
  }

  /** The info of an image of this size, without the image. For sound, `width` is the number of samples per channel at
   * the rate of the encoder. Time and hash are zero. */
  measure(width, height = 0, options = {}) {
    return native.measure(handles.get(this), width, height, check(options, MEDIA));
  }
}

/** The encoded rows of an image, a video or a sound, which take the place of tokens in any number of prompts. */
class Media extends Handle {
  constructor() {
    throw new TypeError("a medium is made by encoder.encode, Media.fromRows or Media.load");
  }

  /** A medium of rows that the caller has encoded, one after the other in a Float32Array. */
  static fromRows(model, rows, options) {
    const { rowDim, kind = "image", columns = 0, lines = 0 } = check(options, ["rowDim", "kind", "columns", "lines"]);
    if (!(rows instanceof Float32Array)) throw invalid("rows are no Float32Array");
    const shape = { rowDim, kind, columns, lines };
    return made(Media, native.mediaOfRows(handleOf(model, Model), bytesOf(rows, "rows"), shape));
  }

  /** Reads the medium that `save` has written. No encoder is needed. */
  static async load(model, bytes) {
    return made(Media, await native.restoreMedia(handleOf(model, Model), bytes));
  }

  async save() {
    return native.save(handles.get(this));
  }

  get info() {
    return native.info(handles.get(this));
  }

  /** 32 bytes that are the same for the same pixels, options and encoder: a key for caches. */
  get hash() {
    return this.info.hash;
  }

  /** Computes for about so many milliseconds on a medium that was made with `inSteps`. True if there is more to
   * compute. */
  async step(milliseconds = Infinity) {
    const whole = Math.min(Math.ceil(milliseconds * 1000), Number.MAX_SAFE_INTEGER);
    return native.stepMedia(handles.get(this), Math.max(whole, 0));
  }

  /** The rows one after the other, each of `info.rowDim` numbers. */
  rows() {
    return native.rowsOf(handles.get(this));
  }
}

/** Stands for a row of a medium in the tokens of sessions and prompts. */
const MEDIA_TOKEN = 0xfffffffe;

/** A value as JSON in which a number stands for each medium, and the list of these media. Values that JSON.stringify
 * would leave out or write as null or {} are refused, except undefined. */
function numbered(value) {
  const media = [];
  const written = (name, value) => {
    if (value instanceof Media) return media.push(handles.get(value)) - 1;
    const isOther = value instanceof Map || value instanceof Set || ["function", "symbol"].includes(typeof value);
    if (isOther || (typeof value === "number" && !Number.isFinite(value)))
      throw invalid(`${name || "the value"} is ${String(value)}, which has no JSON; it must be a value of JSON`);
    return value;
  };
  return { json: JSON.stringify(value, written), media };
}

/** A sequence of tokens and media. */
class Prompt extends Handle {
  /** `parts`: media, lists of tokens, and texts. A text gets the tokens that begin a text if it is the first part.
   * `bare`: leaves out the model's tokens around and between the rows of media. */
  constructor(model, parts, options = {}) {
    super();
    const { bare = false } = check(options, ["bare"]);
    const handle = handleOf(model, Model);
    const taken = arrayOf(parts, "the parts").map((part, i) => {
      if (typeof part === "string") return model.tokenize(part, { special: i === 0 });
      return part instanceof Media ? handles.get(part) : idsOf(part);
    });
    handles.set(this, native.prompt(handle, taken, { bare }));
  }

  /** A prompt of messages, up to where the reply begins. Their content may have parts with media: {type: "image",
   * media}. `rest`: tools and variables, as in a conversation. */
  static ofChat(model, messages, rest = {}) {
    const { json, media } = numbered({ messages, ...rest });
    return made(Prompt, native.chatPrompt(handleOf(model, Model), json, media));
  }

  get length() {
    return this.tokens.length;
  }

  /** The tokens, with MEDIA_TOKEN for each row of a medium. */
  get tokens() {
    return native.promptTokens(handles.get(this));
  }
}

/** A prefix cache: keeps the KV cache of prompts, for conversations of one model that begin with the same tokens. */
class Store extends Handle {
  constructor() {
    throw new TypeError("a store is made by Store.open");
  }

  /** `path`: a folder for files that outlive the process, which other processes may share. */
  static async open(model, options = {}) {
    return made(Store, await native.store(handleOf(model, Model), check(options, [...known.store, "path"])));
  }

  get info() {
    return native.info(handles.get(this));
  }

  /** Removes all prefixes, and the files of the model in the folder. */
  clear() {
    return native.clear(handles.get(this));
  }
}

/** Options of a KV cache as the addon takes them, with its bytes for the garbage collector. */
function opened(model, { cache, adapters, store, ...rest }) {
  cache = check(cache, known.cache, "the options of the cache");
  const info = model.info;
  const capacity = cache.capacity || Math.min(info.contextLength, 8192);
  return {
    ...rest,
    ...cache,
    bytes: Math.min(4 * info.nLayers * info.nKvHeads * info.headDim * capacity, Number.MAX_SAFE_INTEGER) || 0,
    ...adaptersOf(adapters),
    store: store && handleOf(store, Store),
  };
}

function adaptersOf(adapters) {
  const pairs = arrayOf(adapters ?? [], "the adapters").map((adapter) => (Array.isArray(adapter) ? adapter : [adapter, 1]));
  return { adapters: pairs.map(([adapter]) => handleOf(adapter, Adapter)), scales: pairs.map(([, scale = 1]) => scale) };
}

/** Tools, a choice among them and variables as the library takes them. */
function membersOf({ tools, toolChoice, parallelToolCalls, variables }) {
  if (!["undefined", "boolean"].includes(typeof (parallelToolCalls ?? undefined)))
    throw invalid(`parallelToolCalls is ${String(parallelToolCalls)}; it must be true or false`);
  return { tools, tool_choice: toolChoice, parallel_tool_calls: parallelToolCalls, variables };
}

/** Options of a reply or a generation as the addon takes them. */
function replyOptions({ draft, grammar, tools, toolChoice, parallelToolCalls, variables, ...rest }) {
  const members = membersOf({ tools, toolChoice, parallelToolCalls, variables });
  check(rest.sampling, known.sampling, "the options of sampling");
  if (grammar) check(grammar, GRAMMAR, "the members of the grammar");
  const isModel = draft instanceof Model;
  return {
    ...rest,
    draft: isModel ? "model" : draft,
    draftModel: isModel ? handles.get(draft) : undefined,
    json: Object.values(members).some((value) => value !== undefined) ? numbered(members).json : undefined,
    grammar:
      grammar && Object.fromEntries(Object.entries(grammar).map(([kind, value]) => [kind, grammarText(kind, value)])),
  };
}

function grammarText(kind, value) {
  if (kind === "whitespace" || typeof value === "string") return value;
  if (kind === "json" && value !== true) throw invalid(`the grammar json is ${String(value)}; it must be true`);
  return kind === "json" ? "" : numbered(value).json;
}

/** Lets one loop at a time use an object. */
class Turn {
  #current;

  /** Rejects calls while a loop uses the object. */
  check(what) {
    if (this.#current) throw failed("RZ_ERR_BUSY", `the ${what} is in use by another call`);
  }

  /** Begins the use by a loop, which ends with `leave`. `isIdle`: the body of the loop is running. `cleanUp` gives up
   * an unfinished reply or closes the job. */
  take(what, signal) {
    this.check(what);
    const { cancel, release } = newFlag(signal);
    const turn = { cancel, hasEnded: false, isIdle: false, cleanUp: undefined };
    turn.leave = () => {
      if (this.#current !== turn) return;
      this.#current = undefined;
      turn.hasEnded = true;
      turn.cleanUp?.();
      release();
    };
    return (this.#current = turn);
  }

  /** Ends the loop, if there is one: at once, or after the slice that it waits for. The loop throws `error`, if there
   * is one. */
  end(error) {
    const turn = this.#current;
    if (!turn) return;
    turn.hasEnded = true;
    turn.error = error;
    if (turn.isIdle) turn.leave();
    else native.fire(turn.cancel);
  }
}

/** Makes a call and ignores its failure, because the object may be closed. */
function quietly(call) {
  try {
    call();
  } catch {}
}

/** Steps the replies of one model: one thread makes the requested steps as a batch. */
class Steps {
  #waiting = [];
  #isRunning = false;

  /** Steps a reply. Resolves to {more, parts, error}. */
  step(handle) {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ handle, resolve, reject });
      if (!this.#isRunning) void this.#run();
    });
  }

  async #run() {
    this.#isRunning = true;
    while (this.#waiting.length) {
      // Loops that are ready ask for their next step by then.
      await new Promise(setImmediate);
      // All of them, because a prompt that was paused goes on only with those that took part in it.
      const taken = this.#waiting.splice(0);
      try {
        const made = await native.step(
          taken.map((one) => one.handle),
          SLICE,
        );
        taken.forEach((one, i) => one.resolve(made[i]));
      } catch (error) {
        // Where one is closed the others go on.
        const alone = async ({ handle }) =>
          taken.length === 1 ? Promise.reject(error) : (await native.step([handle], SLICE))[0];
        for (const one of taken) await alone(one).then(one.resolve, one.reject);
      }
    }
    this.#isRunning = false;
  }
}

/** The Steps of each model. */
const steps = new WeakMap();

/** Messages with a model, and their KV cache. */
class Conversation extends Handle {
  #turn = new Turn();
  #row = 1;

  /** `handle`: the native object of a conversation that exists already. */
  constructor(model, given = {}, handle) {
    super();
    const { system, messages, tools, toolChoice, parallelToolCalls, variables, ...options } = check(given, CONVERSATION);
    this.model = model;
    if (handle) return void handles.set(this, handle);
    const first = system === undefined ? [] : [{ role: "system", content: system }];
    const begun = [...first, ...arrayOf(messages ?? [], "the messages")];
    const { json, media } = numbered(begun);
    const rest = { messages: media.length ? [] : begun, ...membersOf({ tools, toolChoice, parallelToolCalls, variables }) };
    handles.set(this, native.conversation(handleOf(model, Model), { ...opened(model, options), json: numbered(rest).json }));
    if (media.length) native.add(handles.get(this), json, media); // media come with messages that are added
  }

  /** Reads the conversation that `save` has written. */
  static async load(model, bytes, options = {}) {
    const known = check(options, ["cache", "store"]);
    const handle = await native.restoreConversation(handleOf(model, Model), bytes, opened(model, known));
    return new Conversation(model, {}, handle);
  }

  /** Appends a text of a role, a message, or a list of them, whose content may have parts with media: {type: "image",
   * media}. Computes nothing. */
  add(messages, role = "user") {
    this.#turn.check("conversation");
    if (typeof messages === "string") return native.addText(handles.get(this), role, messages);
    const { json, media } = numbered(messages);
    native.add(handles.get(this), json, media);
  }

  /** The media of the messages, by the numbers in their parts. */
  get media() {
    return Array.from({ length: this.info.nMedia }, (_, i) => made(Media, native.mediaOf(handles.get(this), i)));
  }

  /** The messages from number `first` on. An unfinished reply is not among them. */
  messages(first = 0) {
    return JSON.parse(native.messages(handles.get(this), first));
  }

  /** Removes the messages after the first `count`. */
  rewind(count) {
    this.#turn.check("conversation");
    native.rewind(handles.get(this), count);
  }

  /** Frees the KV cache and keeps the messages. The next reply computes the KV cache again. */
  release() {
    this.#turn.check("conversation");
    native.release(handles.get(this));
  }

  /** Sets the context length in tokens; 0: the model's, at most 8192. The next reply computes the KV cache
   * again. */
  setCapacity(tokens) {
    this.#turn.check("conversation");
    native.setCapacity(handles.get(this), tokens);
  }

  /** Sets what later replies do if messages exceed the context: "fail" or "forget". */
  setOverflow(overflow) {
    this.#turn.check("conversation");
    native.setOverflow(handles.get(this), overflow);
  }

  /** Sets the LoRA adapters of later replies. The next reply computes the KV cache again. */
  setAdapters(adapters) {
    this.#turn.check("conversation");
    native.setAdapters(handles.get(this), adaptersOf(adapters));
  }

  /** Sets the store of later replies; null: none. */
  setStore(store) {
    this.#turn.check("conversation");
    native.setStore(handles.get(this), store ? handleOf(store, Store) : undefined);
  }

  /** A second conversation with the same messages, which shares their KV cache (copy-on-write). */
  fork() {
    this.#turn.check("conversation");
    return new Conversation(this.model, {}, native.fork(handles.get(this)));
  }

  /** A Uint8Array of the conversation and its KV cache. */
  async save() {
    this.#turn.check("conversation");
    return native.save(handles.get(this));
  }

  get info() {
    return native.info(handles.get(this));
  }

  /** The tokens of the content since the last call with their log probabilities, of a reply with `logprobs`. */
  logprobs() {
    const { tokens, logprobs } = native.logprobs(handles.get(this));
    const entries = Array.from(tokens, (token, i) => ({ token, logprob: logprobs[i] }));
    const rows = [];
    for (let at = 0; at < entries.length; at += this.#row) {
      rows.push({ ...entries[at], likeliest: entries.slice(at + 1, at + this.#row) });
    }
    return rows;
  }

  /** Ends the loop over a reply, as if the loop had been left. */
  stop() {
    this.#turn.end();
  }

  close() {
    this.#turn.end(invalid("the conversation is closed"));
    super.close();
  }

  /** Replies to the messages, part by part. Leaving the loop early gives the reply up; with `keep` the text so far
   * becomes a message. */
  async *reply(given = {}) {
    const { signal, ...options } = check(given, REPLY);
    const turn = this.#turn.take("conversation", signal);
    yield* this.#parts(turn, signal, options);
  }

  /** Reads the messages into the KV cache, so that the next reply begins sooner: a long document, the world of a game.
   * The options are the options of the next reply. Adds no message. */
  async read(given = {}) {
    const { signal, ...options } = check(given, READ);
    const turn = this.#turn.take("conversation", signal);
    for await (const part of this.#parts(turn, signal, options, native.read)) void part; // there are none
  }

  async *#parts(turn, signal, options, begin = native.reply) {
    const handle = handles.get(this);
    try {
      await begin(handle, replyOptions(options), turn.cancel);
      turn.cleanUp = () => quietly(() => native.add(handle, "[]"));
      this.#row = Math.min(options.logprobs ?? 0, this.model.info.vocabSize) + 1;
      while (turn.cleanUp && !turn.hasEnded) {
        const step = await steps.get(this.model).step(handle);
        if (!step.more) turn.cleanUp = undefined;
        for (const [i, part] of step.parts.entries()) {
          if (turn.hasEnded) break;
          turn.isIdle = true;
          yield part;
          turn.isIdle = false;
          if (!step.more && i + 1 === step.parts.length) turn.error = undefined; // closed behind the last part
        }
        if (step.error) throw step.error;
        if (step.more) signal?.throwIfAborted();
      }
      if (turn.error) throw turn.error;
    } catch (error) {
      if (turn.error) throw turn.error;
      if (!turn.hasEnded || error?.code !== "RZ_ERR_CANCELLED") throw reasonOf(signal, error);
    } finally {
      turn.leave();
    }
  }

  /** Adds a message of the user and yields the content of the reply. If the loop is left or aborted, the text so far
   * stays as a message; any other failure restores the messages. */
  async *say(text, given = {}) {
    const { signal, ...options } = check(given, REPLY);
    const turn = this.#turn.take("conversation", signal);
    const handle = handles.get(this);
    let count;
    try {
      native.add(handle, "[]");
      count = this.info.nMessages;
      native.addText(handle, "user", text);
    } catch (error) {
      turn.leave();
      throw error;
    }
    try {
      for await (const part of this.#parts(turn, signal, { keep: true, ...options })) {
        if (part.kind === "content" && part.text) yield part.text;
      }
    } catch (error) {
      if (!signal?.aborted) quietly(() => native.rewind(handle, count));
      throw error;
    }
  }
}

/** The tokens of a text with their KV cache, for texts that are no conversations. */
class Session extends Handle {
  #turn = new Turn();

  constructor(model, options = {}, handle) {
    super();
    const known = check(options, ["cache", "adapters"]);
    this.model = model;
    handles.set(this, handle ?? native.session(handleOf(model, Model), opened(model, known)));
  }

  /** Reads the session that `save` has written. */
  static async load(model, bytes, options = {}) {
    const known = check(options, ["cache"]);
    return new Session(model, {}, await native.restoreSession(handleOf(model, Model), bytes, opened(model, known)));
  }

  get length() {
    return native.info(handles.get(this)).len;
  }

  get capacity() {
    return native.info(handles.get(this)).capacity;
  }

  /** The tokens of the session. */
  get tokens() {
    return native.tokens(handles.get(this));
  }

  /** Keeps the first `length` tokens and removes the others. */
  truncate(length) {
    this.#turn.check("session");
    native.truncate(handles.get(this), length);
  }

  fork() {
    this.#turn.check("session");
    return new Session(this.model, {}, native.fork(handles.get(this)));
  }

  async save() {
    this.#turn.check("session");
    return native.save(handles.get(this));
  }

  close() {
    this.#turn.end(invalid("the session is closed"));
    super.close();
  }

  /** Continues a text, tokens or a prompt, piece by piece. Leading tokens that the KV cache holds already are not
   * computed again. */
  async *generate(prompt, given = {}) {
    const { signal, ...options } = check(given, GENERATE);
    const turn = this.#turn.take("session", signal);
    const handle = handles.get(this);
    try {
      const media = prompt instanceof Prompt ? handles.get(prompt) : undefined;
      if (typeof prompt === "string") prompt = this.model.tokenize(prompt);
      const tokens = media ? prompt.tokens : idsOf(prompt);
      let kept = media ? native.matchPrompt(handle, media) : native.match(handle, tokens);
      // The last token of a prompt is always computed, because the answer starts from its logits; rows at its end are
      // as a whole, because they may see each other.
      if (kept === tokens.length) {
        kept = Math.max(kept - 1, 0);
        while (kept && tokens[kept] === MEDIA_TOKEN) kept--;
      }
      native.truncate(handle, kept);
      const job = await native.job(
        handle,
        handles.get(this.model),
        media ? undefined : tokens.subarray(kept),
        { ...replyOptions(options), prompt: media, promptFirst: media ? kept : 0 },
        turn.cancel,
      );
      turn.cleanUp = () => native.close(job);
      for (let more = true; more && !turn.hasEnded;) {
        const step = await native.jobStep(job, SLICE);
        more = step.more;
        if (step.text && !turn.hasEnded) {
          turn.isIdle = true;
          yield step.text;
          turn.isIdle = false;
        }
        if (more) signal?.throwIfAborted();
      }
      if (turn.error) throw turn.error;
    } catch (error) {
      if (turn.error) throw turn.error;
      if (!turn.hasEnded || error?.code !== "RZ_ERR_CANCELLED") throw reasonOf(signal, error);
    } finally {
      turn.leave();
    }
  }
}

module.exports = {
  Adapter,
  Conversation,
  Encoder,
  MEDIA_TOKEN,
  Media,
  Model,
  Prompt,
  RealizarError,
  Session,
  Store,
  devices,
  fetchModel,
  plan,
  version,
};
