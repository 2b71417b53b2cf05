// Loads the addon, and words its errors with the names of JavaScript.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const known = require("../options.js");
const statuses = require("../statuses.js");

/** A failed call. `code` is the name of the status, such as "RZ_ERR_CONTEXT_FULL", and `status` its number.
 * `systemCode` is the `errno` of the system call that failed, else 0. `needed` is the capacity in tokens that would
 * have been enough, for "RZ_ERR_CONTEXT_FULL"; else 0. */
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

/** `max_tokens` as `maxTokens`. */
const camel = (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());

const OPTIONS = new Set([...Object.values(known).flat(), "toolChoice", "parallelToolCalls"]);

// Names in the library's messages that differ from the names of options and methods by more than the spelling.
const NAMES = {
  grammar_kind: "grammar",
  grammar_flags: "whitespace",
  compiled_grammar: "grammar",
  device_split: "shares",
  rz_sampler_params: "sampling",
  rz_media_step: "media.step",
  rz_embed_into: "model.embed",
  rz_cache_truncate: "session.truncate",
  rz_conversation_add: "conversation.add",
};

/** A message of the library, with options and their values under their JavaScript names. */
function inJavaScript(message) {
  return message
    .replace(/\bRZ_(?:MODEL|SAMPLER|REPLY|GRAMMAR_FLAG)_([A-Z]\w*)/g, (_, name) => camel(name.toLowerCase()))
    .replace(/\bRZ_GRAMMAR_([A-Z]\w*)/g, (_, name) => camel(name.toLowerCase()))
    .replace(/\bRZ_(?:TYPE|PLACE|MEDIA|DEVICE|DRAFT|POOLING|REASONING|OVERFLOW)_([A-Z]\w*)/g, (_, name) => `"${name.toLowerCase()}"`)
    .replace(/\brz_\w+\.(\w+)|\brz_\w+/g, (whole, field) => NAMES[field ?? whole] ?? (field ? camel(field) : whole.endsWith("_params") ? "the options" : whole))
    .replace(/\b[a-z]+(?:_[a-z]+)+\b/g, (name) => (OPTIONS.has(camel(name)) ? camel(name) : name));
}

/** The folder with the addon and the library: the package's own, or a package for this system, which npm installs next
 * to it. */
function homeOfAddon() {
  const own = path.join(__dirname, "..");
  if (fs.existsSync(path.join(own, "realizar.node"))) return own;
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

const home = homeOfAddon();
const addon = require(path.join(home, "realizar.node"));
const version = addon.open(libraryPath(), (code, status, message, ...rest) => new RealizarError(code, status, inJavaScript(message), ...rest));

/** Gives an error the stack of the caller's code, without frames of this package and anonymous frames. */
function located(error, from) {
  if (!(error instanceof RealizarError)) return error;
  const limit = Error.stackTraceLimit;
  if (typeof limit === "number") Error.stackTraceLimit = limit + 20;
  Error.captureStackTrace(error, from);
  const stack = error.stack;
  Error.stackTraceLimit = limit;
  const head = `${error.name}: ${error.message}`;
  if (typeof stack !== "string" || !stack.startsWith(head)) return error; // Error.prepareStackTrace is the program's own
  const frames = stack.slice(head.length).split("\n").filter((frame) => frame && !frame.includes(__dirname) && !frame.endsWith("(<anonymous>)"));
  error.stack = [head, ...frames.slice(0, limit)].join("\n");
  return error;
}

/** The result of a promise. An error of the addon gets the stack of the calls that await the promise. */
async function settled(promise) {
  try {
    return await promise;
  } catch (error) {
    throw located(error, settled);
  }
}

/** The functions of the addon, whose errors have the stack of their callers. */
const native = {};
for (const [name, run] of Object.entries(addon)) {
  native[name] = function call(...values) {
    try {
      const result = run(...values);
      return result instanceof Promise ? settled(result) : result;
    } catch (error) {
      throw located(error, call);
    }
  };
}

/** The error of a status, with the stack from the caller of `from` on. */
const failed = (code, message, from = failed) => located(new RealizarError(code, statuses[code], message), from);

/** The error for a wrong argument, with the stack from the caller of `from` on. */
function invalid(message, from = invalid) {
  return failed("RZ_ERR_INVALID_ARGUMENT", message, from);
}

/** How messages show a value: numbers and booleans as they are, of other values only the type, because texts may be
 * private. */
function shown(value) {
  if (value === null || ["undefined", "boolean", "number"].includes(typeof value)) return String(value);
  if (Array.isArray(value)) return "an array";
  if (typeof value !== "object") return `a ${typeof value}`;
  const name = value.constructor?.name;
  return !name || name === "Object" ? "an object" : `${/^[aeiou]/i.test(name) ? "an" : "a"} ${name}`;
}

/** The error for a value of the wrong type. */
const wrong = (value, name, wanted) => invalid(`${name} is ${shown(value)}; it must be ${wanted}`, wrong);

module.exports = { RealizarError, failed, invalid, located, native, shown, version, wrong };
