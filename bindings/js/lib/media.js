// Vision and audio encoders, encoded media, and multimodal prompts.
"use strict";

const hub = require("../hub.js");
const { ENCODER, MEDIA, MEMBERS, WATCHED, arrayOf, bytesOf, check, idsOf } = require("./arguments.js");
const { invalid, native, wrong } = require("./errors.js");
const { Handle, handleOf, isA, made, nativeOf, own, watched } = require("./handles.js");
const { checkSource, fetchModel, isOfHub } = require("./loading.js");
const { membersOf, messagesOf, numbered } = require("./messages.js");

/** RZ_AGAIN, the status of a step that leaves work to do. */
const AGAIN = 1;

/** The times of frames in seconds. */
function secondsOf(times) {
  if (times === null || typeof times !== "object" || !Number.isInteger(times.length)) throw wrong(times, "times", "an array of numbers");
  return Float64Array.from(Array.from(times), (time, i) => {
    if (typeof time === "number" && !Number.isNaN(time)) return time;
    throw wrong(time, `times[${i}]`, "a number");
  });
}

/** The vision or audio encoder of a multimodal model. Any number of calls may use it at once. */
class Encoder extends Handle {
  constructor() {
    throw new TypeError("an encoder is made by Encoder.load");
  }

  /** Loads the encoder of a model: the .gguf file with the projector ("mmproj-..."), its bytes, a folder with a
   * config.json, which may be that of the model, or the encoder of a model of the Hub. */
  static async load(model, file, given = {}) {
    checkSource(file, "file");
    const { signal, progress, ...options } = check(given, [...ENCODER, ...WATCHED]);
    const handle = handleOf(model, "model");
    if (isOfHub(file)) file = await fetchModel(hub.choose(file).encoder, { signal, progress });
    return watched({ signal, progress }, model, async (cancel) => {
      const load = typeof file === "string" ? native.encoderLoad : native.encoderLoadFrom;
      return made(Encoder, "encoder", await load(handle, file, { ...options, cancel }), model);
    });
  }

  /** The memory, in bytes, that an encoder will take. Reads no weights. */
  static async plan(model, file, given = {}) {
    checkSource(file, "file");
    const options = check(given, ENCODER);
    const handle = handleOf(model, "model");
    if (isOfHub(file)) file = await fetchModel(hub.choose(file).encoder);
    const [path, bytes] = typeof file === "string" ? [file] : [undefined, file];
    return native.encoderPlan(handle, path, bytes, options);
  }

  get info() {
    const info = native.encoderInfo(nativeOf(this));
    return { ...info, hears: info.kinds.includes("audio") };
  }

  /** Encodes an image from the bytes of a PNG, JPEG, WebP, GIF or BMP file, or from pixels, {data, width, height,
   * format, stride}, such as an ImageData. */
  async encode(image, given = {}) {
    const { signal, progress, ...options } = check(given, [...MEDIA, ...WATCHED]);
    const handle = nativeOf(this), isFile = ArrayBuffer.isView(image);
    const bytes = isFile ? bytesOf(image) : bytesOf(image?.data, image && typeof image === "object" ? "image.data" : "image", "the bytes of a file, or {data, width, height} with a typed array");
    const { width, height, stride, format = "rgba8" } = image;
    return encoded(this, { signal, progress }, options, (params) =>
      isFile ? native.mediaFromImage(handle, bytes, params) : native.mediaFromPixels(handle, { width, height, stride, format, data: bytes }, params),
    );
  }

  /** Encodes a video. `frames`: {data, width, height, format}, with at least two frames of the same size in `data`,
   * without gaps. `times`: the time of each frame in seconds from the beginning of the video. */
  async encodeVideo(frames, times, given = {}) {
    const { signal, progress, ...options } = check(given, [...MEDIA, ...WATCHED]);
    const { width, height, format = "rgba8" } = frames ?? {};
    const handle = nativeOf(this), bytes = bytesOf(frames?.data, "frames.data"), seconds = secondsOf(times);
    const size = width * height * ({ rgb8: 3, gray8: 1 }[format] ?? 4);
    if (Number.isInteger(size) && bytes.length !== size * seconds.length)
      throw invalid(`${bytes.length} bytes are no ${seconds.length} frames of ${width} x ${height}`);
    const each = Array.from(seconds, (_, i) => ({ width, height, format, data: bytes.subarray(i * size, (i + 1) * size) }));
    return encoded(this, { signal, progress }, options, (params) => native.mediaFromFrames(handle, each, seconds, params));
  }

  /** Encodes sound from the bytes of a WAV, MP3, FLAC or Ogg file, or from samples, a Float32Array. Samples of several
   * `channels` are interleaved; `rate` is samples per second of each channel. */
  async encodeSound(sound, given = {}) {
    const { signal, progress, channels = 1, rate, ...options } = check(given, ["channels", "rate", "maxRows", "inSteps", ...WATCHED]);
    const handle = nativeOf(this), bytes = bytesOf(sound, "sound", "the bytes of a file, or samples, a Float32Array");
    if (sound instanceof Float32Array !== Boolean(rate)) throw invalid(sound instanceof Float32Array ? "rate is absent; it must be given with samples" : "rate is given with a file; it must be absent");
    return encoded(this, { signal, progress }, options, (params) =>
      rate ? native.mediaFromSamples(handle, sound, channels, rate, params) : native.mediaFromAudio(handle, bytes, params),
    );
  }

  /** The info of an image of this size, without the image. For sound, `width` is the number of samples per channel at
   * the rate of the encoder. Time and hash are zero. */
  measure(width, height = 0, options = {}) {
    return native.mediaMeasure(nativeOf(this), width, height, check(options, MEDIA));
  }
}

/** A media item of a native handle. */
const mediaOf = (handle) => made(Media, "media", handle, undefined, native.mediaInfo(handle).bytes);

/** Makes a media item. With `inSteps` the cancel is not used, because the steps that encode come later. */
function encoded(encoder, watch, options, make) {
  return watched(watch, encoder, async (cancel) => mediaOf(await make({ ...options, cancel: options.inSteps ? undefined : cancel })));
}

/** The encoded rows of an image, a video or a sound, which take the place of tokens in any number of prompts. */
class Media extends Handle {
  constructor() {
    throw new TypeError("a media item is made by encoder.encode, Media.fromRows or Media.load");
  }

  /** A media item of rows that the caller has encoded, one after the other in a Float32Array. */
  static fromRows(model, rows, options) {
    const { rowDim, kind = "image", columns = 0, lines = 0 } = check(options, ["rowDim", "kind", "columns", "lines"]);
    if (!(rows instanceof Float32Array)) throw wrong(rows, "rows", "a Float32Array");
    if (!Number.isInteger(rowDim) || rowDim < 1 || rowDim > 0xffffffff) throw wrong(rowDim, "rowDim", "a whole number from 1 to 4294967295");
    return mediaOf(native.mediaFromRows(handleOf(model, "model"), kind, rows, rowDim, columns, lines));
  }

  /** Reads the media item that `save` has written. No encoder is needed. */
  static async load(model, bytes) {
    return mediaOf(await native.mediaLoad(handleOf(model, "model"), bytes));
  }

  async save() {
    return native.mediaSave(nativeOf(this));
  }

  get info() {
    return native.mediaInfo(nativeOf(this));
  }

  /** 32 bytes that are the same for the same pixels, options and encoder: a key for caches. */
  get hash() {
    return this.info.hash;
  }

  /** Encodes for about `milliseconds` on a media item that was made with `inSteps`. True if work is left. */
  async step(milliseconds = Infinity) {
    if (typeof milliseconds !== "number" || Number.isNaN(milliseconds)) throw wrong(milliseconds, "milliseconds", "a number");
    const whole = Math.min(Math.ceil(milliseconds * 1000), Number.MAX_SAFE_INTEGER);
    return (await native.mediaStep(nativeOf(this), Math.max(whole, 0))) === AGAIN;
  }

  /** The rows one after the other, each of `info.rowDim` numbers. */
  rows() {
    return native.mediaRows(nativeOf(this));
  }
}

/** Stands for a row of a media item in the tokens of sessions and prompts. */
const MEDIA_TOKEN = 0xfffffffe;

/** A sequence of tokens and media. */
class Prompt extends Handle {
  /** `parts`: media, lists of tokens, and texts. A text that is the first part gets the tokens that begin a text (BOS).
   * `bare`: leaves out the model's tokens around and between the rows of media. */
  constructor(model, parts, options = {}) {
    super();
    const { bare = false } = check(options, ["bare"]);
    const handle = handleOf(model, "model");
    const taken = arrayOf(parts, "parts", "texts, tokens and media").map((part, i) => {
      if (typeof part === "string") return { tokens: model.tokenize(part, { special: i === 0 }) };
      return isA(part, "media") ? { media: nativeOf(part) } : { tokens: idsOf(part, `parts[${i}]`) };
    });
    own(this, "prompt", native.promptNew(handle, taken, { bare }));
  }

  /** A prompt of messages, up to where the reply begins. Their content may have parts with media: {type: "image",
   * media}. `rest`: tools and variables, as in a conversation. */
  static ofChat(model, messages, rest = {}) {
    const { json, media } = numbered({ messages: messagesOf(messages), ...membersOf(check(rest, MEMBERS)) });
    return made(Prompt, "prompt", native.promptFromChat(handleOf(model, "model"), json, media));
  }

  get length() {
    return this.tokens.length;
  }

  /** The tokens, with MEDIA_TOKEN for each row of a media item. */
  get tokens() {
    return native.promptTokens(nativeOf(this));
  }
}

module.exports = { Encoder, MEDIA_TOKEN, Media, Prompt, mediaOf };
