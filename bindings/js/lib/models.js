// Models, and what belongs to a model: adapters and stores.
"use strict";

const known = require("../options.js");
const { LOAD, WATCHED, arrayOf, check } = require("./arguments.js");
const { native } = require("./errors.js");
const { Handle, cancellable, handleOf, isA, made, nativeOf, watched } = require("./handles.js");
const { checkSource, fetchModel, isOfHub } = require("./loading.js");
const { Prompt } = require("./media.js");

/** Texts that are embedded in one slice. */
const TEXTS = 16;

/** A loaded model. Any number of calls and conversations may use it at once. */
class Model extends Handle {
  constructor() {
    throw new TypeError("a model is made by Model.load");
  }

  /** Loads a file, a folder, the bytes of a file, which are copied, or a model of the Hub, which `fetchModel` fetches.
   */
  static async load(source, given = {}) {
    checkSource(source, "source");
    const { signal, progress, ...options } = check(given, [...LOAD, ...WATCHED]);
    if (isOfHub(source)) source = await fetchModel(source, { signal, progress });
    return watched({ signal, progress }, undefined, async (cancel) => made(Model, "model", await native.load(source, options, cancel)));
  }

  get info() {
    return native.info(nativeOf(this));
  }

  /** A value of the metadata as text. */
  meta(key) {
    return native.meta(nativeOf(this), key);
  }

  /** The sampling that the authors of the model advise, or undefined. */
  get advisedSampling() {
    return native.advised(nativeOf(this));
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
        const asPrompt = (text) => nativeOf(isA(text, "prompt") ? text : new Prompt(this, [text]));
        const prompts = slice.some((text) => isA(text, "prompt")) ? slice.map(asPrompt) : undefined;
        vectors.push(...(await native.embed(nativeOf(this), prompts ? [] : slice, options, cancel, prompts)));
      }
      return vectors;
    });
  }

  /** Loads a LoRA adapter of this model. */
  async adapter(file) {
    return made(Adapter, "adapter", await native.adapter(nativeOf(this), file), this);
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
    return made(Store, "store", await native.store(handleOf(model, "model"), check(options, [...known.store, "path"])), model);
  }

  get info() {
    return native.info(nativeOf(this));
  }

  /** Removes all prefixes, and the files of the model in the folder. */
  clear() {
    return native.clear(nativeOf(this));
  }
}

module.exports = { Adapter, Model, Store };
