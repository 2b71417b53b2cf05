// Models, LoRA adapters and prefix caches.
"use strict";

const known = require("../options.js");
const { LOAD, WATCHED, arrayOf, check } = require("./arguments.js");
const { native } = require("./errors.js");
const { Handle, cancellable, handleOf, isA, made, nativeOf, watched } = require("./handles.js");
const { checkSource, fetchModel, isOfHub } = require("./loading.js");
const { Prompt } = require("./media.js");

/** Number of texts that are embedded in one slice. */
const TEXTS = 16;

/** Loads a model, with a runtime of its own if `threads` or `memoryLimit` is given. */
async function loaded(source, { threads, memoryLimit, ...options }) {
  const isOwn = [threads, memoryLimit].some((value) => value !== undefined && value !== null && value !== 0);
  const runtime = isOwn ? native.runtimeNew({ threads, memoryLimit }) : undefined;
  try {
    return await native[typeof source === "string" ? "modelLoad" : "modelLoadFrom"](source, { ...options, runtime });
  } finally {
    if (runtime) native.close(runtime); // the model keeps its threads
  }
}

/** The vectors of some texts, lists of tokens and prompts. */
async function embedded(model, texts, options, cancel) {
  const handle = nativeOf(model);
  let lengths, floats;
  if (texts.some((text) => isA(text, "prompt"))) {
    const prompts = texts.map((text) => nativeOf(isA(text, "prompt") ? text : new Prompt(model, [text])));
    lengths = prompts.map((prompt) => native.promptLen(prompt));
    floats = await native.embedPrompts(handle, options, prompts, cancel);
  } else {
    const tokens = texts.map((text, i) => (typeof text === "string" ? native.tokenizeLater(handle, text, { special: true }) : text));
    const lists = await Promise.all(tokens);
    lengths = lists.map((list) => list?.length);
    floats = await native.embed(handle, options, lists, cancel);
  }
  const isEach = options.pooling === "none";
  const width = floats.length / (isEach ? lengths.reduce((sum, length) => sum + length, 0) : texts.length);
  let end = 0;
  return lengths.map((length) => floats.slice(end, (end += width * (isEach ? length : 1))));
}

/** A loaded model. Any number of calls and conversations may use it at once. */
class Model extends Handle {
  constructor() {
    throw new TypeError("a model is made by Model.load");
  }

  /** Loads a file, a folder, the bytes of a file (which are copied), or a model of the Hub (see `fetchModel`). */
  static async load(source, given = {}) {
    checkSource(source, "source");
    const { signal, progress, ...options } = check(given, [...LOAD, ...WATCHED]);
    if (isOfHub(source)) source = await fetchModel(source, { signal, progress });
    return watched({ signal, progress }, undefined, async (cancel) => made(Model, "model", await loaded(source, { ...options, cancel })));
  }

  get info() {
    const handle = nativeOf(this);
    const { nDevices, ...info } = native.modelInfo(handle);
    return { ...info, devices: Array.from({ length: nDevices }, (_, i) => native.modelDevice(handle, i)) };
  }

  /** A value of the metadata as text. */
  meta(key) {
    return native.modelMeta(nativeOf(this), key);
  }

  /** The sampling parameters that the authors of the model recommend, or undefined. */
  get advisedSampling() {
    const { advised, ...sampling } = native.modelSampling(nativeOf(this));
    return advised.length ? Object.fromEntries(advised.map((name) => [name, sampling[name]])) : undefined;
  }

  /** The tokens of a text. `special`: adds the tokens that begin and end a text. `parse`: names of control tokens in
   * the text become these tokens; not for text that users typed. */
  tokenize(text, options = {}) {
    const { special = true, parse = false } = check(options, ["special", "parse"]);
    return native.tokenize(nativeOf(this), text, { special, parse });
  }

  detokenize(tokens, options = {}) {
    const { special = false } = check(options, ["special"]);
    return native.detokenize(nativeOf(this), tokens, { special });
  }

  /** A vector for each text, list of tokens, or prompt with media. */
  async embed(texts, given = {}) {
    texts = arrayOf(texts, "texts", "texts");
    const { signal, ...options } = check(given, [...known.embed, "signal"]);
    return cancellable(signal, this, async (cancel) => {
      const vectors = [];
      for (let at = 0; at < texts.length; at += TEXTS) {
        const slice = texts.slice(at, at + TEXTS);
        vectors.push(...(await embedded(this, slice, options, cancel)));
      }
      return vectors;
    });
  }

  /** Loads a LoRA adapter of this model. */
  async adapter(file) {
    return made(Adapter, "adapter", await native.adapterLoad(nativeOf(this), file), this);
  }
}

/** A LoRA adapter, for the option `adapters`: a list of adapters, or of pairs [adapter, scale]. */
class Adapter extends Handle {
  constructor() {
    throw new TypeError("an adapter is made by model.adapter");
  }
}

/** A prefix cache: keeps the KV cache of prompts, for conversations of one model that begin with the same tokens. */
class Store extends Handle {
  constructor() {
    throw new TypeError("a store is made by Store.open");
  }

  /** `path`: a folder for files that outlive the process, which other processes may share. */
  static async open(model, options = {}) {
    return made(Store, "store", await native.storeNew(handleOf(model, "model"), check(options, [...known.store, "path"])), model);
  }

  get info() {
    return native.storeInfo(nativeOf(this));
  }

  /** Removes all prefixes, and the files of the model in the folder. */
  clear() {
    return native.storeClear(nativeOf(this));
  }
}

module.exports = { Adapter, Model, Store };
