// Devices, models of the Hub, memory plans, and options of KV caches.
"use strict";

const hub = require("../hub.js");
const known = require("../options.js");
const { LOAD, WATCHED, arrayOf, check, functionOf } = require("./arguments.js");
const { failed, native, wrong } = require("./errors.js");
const { handleOf } = require("./handles.js");

/** Devices that models can be loaded to, and those that cannot be used, with the reason. */
function devices() {
  return Array.from({ length: native.deviceCount() }, (_, i) => native.deviceInfo(i + 1));
}

const isOfHub = (name) => typeof name === "string" && name.startsWith("hf:");

/** The path of a model of the Hugging Face Hub, "hf:owner/name" or "hf:owner/name:quantization", in the cache of the
 * Hub's own client. A model that is complete there needs no connection. */
async function fetchModel(model, options = {}) {
  if (typeof model !== "string") throw wrong(model, "model", 'a string, such as "hf:owner/name"');
  const { signal, progress } = check(options, WATCHED);
  functionOf(progress, "progress");
  const free = Math.max(...devices().map((device) => (device.available ? device.memoryFree : 0)));
  try {
    return await hub.fetchModel(model, { free, signal, progress });
  } catch (error) {
    if (!(error instanceof hub.Failure)) throw error;
    throw Object.assign(failed("RZ_ERR_IO", error.message), { cause: error.cause });
  }
}

/** The memory, in bytes, that a load and `sessions` sessions will take. Reads no weights. */
function plan(source, options = {}) {
  const { sessions = 1, cache, threads, memoryLimit, ...load } = check(options, [...LOAD, "sessions", "cache"]);
  checkSource(source, "source");
  // A plan starts no threads, so that the addon does not get these two options.
  checkWhole(threads, "threads", 0xffffffff);
  checkWhole(memoryLimit, "memoryLimit", Number.MAX_SAFE_INTEGER);
  const [path, bytes] = typeof source === "string" ? [source] : [undefined, source];
  return native.modelPlan(path, bytes, load, check(cache, known.cache, "cache"), sessions);
}

/** Throws unless a value is absent or a whole number up to `most`. */
function checkWhole(value, name, most) {
  if (value === undefined || value === null) return;
  if (!Number.isInteger(value) || value < 0 || value > most) throw wrong(value, name, `a whole number from 0 to ${most}`);
}

/** Throws unless a source of a model or an encoder is a path or bytes. */
function checkSource(source, name) {
  if (typeof source === "string" || source instanceof Uint8Array) return;
  throw wrong(source, name, 'a string, which is a path or "hf:owner/name", or the bytes of a file, a Uint8Array');
}

/** Options of a conversation or a session as the addon takes them. */
function opened({ cache, adapters, store, ...rest }) {
  return {
    ...rest,
    cache: check(cache, known.cache, "cache"),
    ...adaptersOf(adapters),
    store: store === undefined || store === null ? undefined : handleOf(store, "store"),
  };
}

/** Approximate bytes of a KV cache with these options. */
function bytesOfCache(model, cache) {
  const { nLayers, nKvHeads, headDim, contextLength } = model.info;
  const capacity = cache?.capacity || Math.min(contextLength, 8192);
  return Math.min(4 * nLayers * nKvHeads * headDim * capacity, Number.MAX_SAFE_INTEGER) || 0;
}

/** Adapters, or pairs of an adapter and its scale, as the addon takes them. */
function adaptersOf(adapters) {
  const pairs = arrayOf(adapters ?? [], "adapters", "adapters").map((adapter) => (Array.isArray(adapter) ? adapter : [adapter, 1]));
  return {
    adapters: pairs.map(([adapter], i) => handleOf(adapter, "adapter", `adapters[${i}]`)),
    scales: pairs.map(([, scale = 1], i) => {
      if (typeof scale !== "number" || Number.isNaN(scale)) throw wrong(scale, `the scale of adapters[${i}]`, "a number");
      return scale;
    }),
  };
}

module.exports = { adaptersOf, bytesOfCache, checkSource, devices, fetchModel, isOfHub, opened, plan };
