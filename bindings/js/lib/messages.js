// Messages, tools and grammars as the library takes them.
"use strict";

const { GRAMMAR, arrayOf, check } = require("./arguments.js");
const { RealizarError, invalid, wrong } = require("./errors.js");
const { isA, nativeOf } = require("./handles.js");

/** A value as JSON, with a number in place of each media item, and the list of these media. Throws for values that
 * JSON.stringify would omit or write as null or {}, except undefined. */
function numbered(value) {
  const media = [];
  const written = (name, value) => {
    if (isA(value, "media")) return media.push(nativeOf(value)) - 1;
    const isOther = value instanceof Map || value instanceof Set || ["function", "symbol", "bigint"].includes(typeof value);
    if (isOther || (typeof value === "number" && !Number.isFinite(value)))
      throw wrong(value, name || "the value", "a value of JSON");
    return value;
  };
  try {
    return { json: JSON.stringify(value, written), media };
  } catch (error) {
    if (error instanceof RealizarError || !(error instanceof TypeError || error instanceof RangeError)) throw error;
    throw invalid(`the value has no JSON: ${error.message.split("\n")[0]}; it must be a value of JSON`);
  }
}

/** Messages, each of which must be an object. */
function messagesOf(messages, name = "messages") {
  const found = arrayOf(messages, name, "messages");
  found.forEach((message, i) => isObject(message) || refuse(message, `${name}[${i}]`, "an object with role and content"));
  return found;
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function refuse(value, name, wanted) {
  throw wrong(value, name, wanted);
}

/** Tools, a choice among them and variables as the library takes them. */
function membersOf({ tools, toolChoice, parallelToolCalls, variables }) {
  const given = (value) => value !== undefined && value !== null;
  if (given(tools)) arrayOf(tools, "tools", "tools").forEach((tool, i) => isObject(tool) || refuse(tool, `tools[${i}]`, "an object"));
  if (given(toolChoice) && typeof toolChoice !== "string" && !isObject(toolChoice))
    refuse(toolChoice, "toolChoice", '"auto", "none", "required", or an object that names a function');
  if (given(parallelToolCalls) && typeof parallelToolCalls !== "boolean") refuse(parallelToolCalls, "parallelToolCalls", "true or false");
  if (given(variables) && !isObject(variables)) refuse(variables, "variables", "an object");
  return {
    tools: tools ?? undefined,
    tool_choice: toolChoice ?? undefined,
    parallel_tool_calls: parallelToolCalls ?? undefined,
    variables: variables ?? undefined,
  };
}

/** A grammar as the addon takes it: its kind, its text, and whether JSON may contain whitespace. */
function grammarOf(grammar) {
  if (grammar === undefined || grammar === null) return {};
  const { whitespace, ...given } = check(grammar, GRAMMAR, "grammar");
  const texts = Object.entries(given).map(([kind, value]) => [kind, grammarText(kind, value)]);
  const kinds = texts.filter(([, text]) => text !== undefined && text !== null);
  if (kinds.length > 1) throw invalid("grammar is of several kinds; it must be of one");
  if (!kinds.length) throw invalid(`grammar is of no kind; it must be of one of ${GRAMMAR.slice(0, -1).join(", ")}`);
  return { grammarKind: kinds[0][0], grammar: kinds[0][1], whitespace };
}

function grammarText(kind, value) {
  if (value === undefined || value === null) return value;
  if (kind === "json") return value === true ? "" : refuse(value, "grammar.json", "true");
  if (kind === "choices") arrayOf(value, "grammar.choices", "strings").forEach((one, i) => typeof one === "string" || refuse(one, `grammar.choices[${i}]`, "a string"));
  const isText = typeof value === "string" && kind !== "choices";
  if (!isText && ["regex", "lark", "gbnf"].includes(kind)) refuse(value, `grammar.${kind}`, "a string");
  return isText ? value : numbered(value).json;
}

module.exports = { grammarOf, membersOf, messagesOf, numbered };
