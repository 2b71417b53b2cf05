// Arguments: their names and kinds are checked here, their values by the addon.
"use strict";

const { invalid, wrong } = require("./errors.js");
const known = require("../options.js");

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
const GRAMMAR = ["jsonSchema", "regex", "lark", "gbnf", "json", "choices", "tools", "whitespace"];

/** A copy of the options, or {} if there are none. Throws unless they are an object with known names only. */
function check(options, names, what = "options") {
  if (options === undefined || options === null) return {};
  if (typeof options !== "object" || Array.isArray(options)) throw wrong(options, what, "an object");
  const copy = {};
  // Inherited options count too; a copy by {...options} would silently omit them.
  for (const name in options) {
    if (!names.includes(name)) throw unknown(name, names);
    copy[name] = options[name];
  }
  const prototype = Object.getPrototypeOf(options);
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  if (!isPlain && Object.keys(copy).length === 0) throw wrong(options, what, "an object with options as its members");
  return copy;
}

function unknown(name, names) {
  const longer = names.find((one) => name.length > 2 && one.startsWith(name));
  const nearest = longer ?? names.reduce((one, other) => (distance(name, other) < distance(name, one) ? other : one));
  const isNear = longer || distance(name, nearest) <= Math.max(2, name.length / 2);
  const hint = known.sampling.includes(name) ? "; it is an option of sampling" : isNear ? `; the nearest is ${nearest}` : "";
  return invalid(`the option ${name} is unknown${hint}`);
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

/** Returns `value`, which must be an array. Missing elements become undefined. */
function arrayOf(value, name, of = "") {
  if (!Array.isArray(value)) throw wrong(value, name, `an array${of && " of "}${of}`);
  return Array.from(value);
}

/** Token ids as the addon takes them. Uint32Array.from would turn -1 into a token. */
function idsOf(tokens, name = "tokens") {
  if (tokens instanceof Uint32Array) return tokens;
  if (!Array.isArray(tokens)) throw wrong(tokens, name, "an array of whole numbers or a Uint32Array");
  return Uint32Array.from(Array.from(tokens), (token, i) => {
    if (Number.isInteger(token) && token >= 0 && token <= 0xffffffff) return token;
    throw wrong(token, `${name}[${i}]`, "a whole number from 0 to 4294967295");
  });
}

/** The bytes of an ArrayBufferView. */
function bytesOf(view, name, wanted = "a typed array") {
  if (!ArrayBuffer.isView(view)) throw wrong(view, name, wanted);
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}

/** Returns `value`, which must be a function, null or undefined; undefined for null. */
function functionOf(value, name) {
  if (value !== undefined && value !== null && typeof value !== "function") throw wrong(value, name, "a function");
  return value ?? undefined;
}

module.exports = {
  CONVERSATION, ENCODER, GENERATE, GRAMMAR, LOAD, MEDIA, MEMBERS, READ, REPLY, WATCHED,
  arrayOf, bytesOf, check, functionOf, idsOf,
};
