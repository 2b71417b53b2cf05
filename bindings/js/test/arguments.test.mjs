// Arguments that are wrong: each is an error that names the argument in the words of JavaScript, what it is and what it
// must be, with the caller's line in its stack.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import test from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { PROMPT, STORY, all, chatModel } from "./models.mjs";

const home = process.env.REALIZAR_PACKAGE;
const { Conversation, Encoder, Media, Model, Prompt, RealizarError, Session, Store, fetchModel, plan } = await import(
  pathToFileURL(path.join(home, "index.mjs")).href
);
const chat = chatModel();
const model = await Model.load(chat, { threads: 1 });
const here = fileURLToPath(import.meta.url);
const whole = "it must be a whole number from 0 to 4294967295";

/** Calls, each with the message of its error, which has this file in its stack. */
async function check(calls) {
  for (const [call, message] of calls) {
    await assert.rejects(async () => await call(), (error) => {
      assert.ok(error instanceof RealizarError, String(error));
      assert.deepEqual([error.message, error.code, error.status], [message, "RZ_ERR_INVALID_ARGUMENT", -1]);
      assert.ok(error.stack.includes(message) && error.stack.includes(here), error.stack);
      return true;
    }, message);
  }
}

const talk = (options) => new Conversation(model, { cache: { capacity: 200 }, messages: [{ role: "user", content: PROMPT }], ...options });
const reply = (options) => all(talk().reply({ maxTokens: 2, ...options }));
const say = (text, options) => all(talk().say(text, { maxTokens: 2, ...options }));

test("kinds are named", async () => {
  const source = 'it must be a string, which is a path or "hf:owner/name", or the bytes of a file, a Uint8Array';
  const session = new Session(model, { cache: { capacity: 64 } });
  await check([
    [() => Model.load(5), `source is 5; ${source}`],
    [() => Model.load(), `source is undefined; ${source}`],
    [() => Model.load(null), `source is null; ${source}`],
    [() => Model.load(new ArrayBuffer(8)), `source is an ArrayBuffer; ${source}`],
    [() => Model.load(chat, { signal: {} }), "signal is an object; it must be an AbortSignal"],
    [() => Model.load(chat, { progress: 5 }), "progress is 5; it must be a function"],
    [() => Model.load(chat, "mmap"), "options is a string; it must be an object"],
    [() => Model.load(chat, new Map([["threads", 2]])), "options is a Map; it must be an object with options as its members"],
    [() => Model.load(chat, { devices: "1" }), "devices is a string; it must be an array"],
    [() => Model.load(chat, { placements: [5] }), "placements[0] is 5; it must be an object"],
    [() => plan(5), `source is 5; ${source}`],
    [() => fetchModel(5), 'model is 5; it must be a string, such as "hf:owner/name"'],
    [() => new Conversation(), "model is undefined; it must be a Model"],
    [() => new Conversation(session), "model is a Session; it must be a Model"],
    [() => talk({ system: 5 }), "system is 5; it must be a string"],
    [() => talk({ messages: "x" }), "messages is a string; it must be an array of messages"],
    [() => talk({ messages: ["x"] }), "messages[0] is a string; it must be an object with role and content"],
    [() => talk({ store: model }), "store is a Model; it must be a Store"],
    [() => talk({ adapters: model }), "adapters is a Model; it must be an array of adapters"],
    [() => talk({ adapters: [model] }), "adapters[0] is a Model; it must be an Adapter"],
    [() => talk({ tools: "x" }), "tools is a string; it must be an array of tools"],
    [() => talk({ tools: ["x"] }), "tools[0] is a string; it must be an object"],
    [() => say(null), "text is null; it must be a string"],
    [() => say(5), "text is 5; it must be a string"],
    [() => say(["a"]), "text is an array; it must be a string"],
    [() => talk().add(5), "messages is 5; it must be a string, a message or an array of messages"],
    [() => talk().add("x", 5), "role is 5; it must be a string"],
    [() => reply({ toolChoice: 5 }), 'toolChoice is 5; it must be "auto", "none", "required", or an object that names a function'],
    [() => reply({ variables: [1] }), "variables is an array; it must be an object"],
    [() => reply({ variables: { a: 1n } }), "a is a bigint; it must be a value of JSON"],
    [() => reply({ stops: "five" }), "stops is a string; it must be an array"],
    [() => reply({ stops: ["a", 5] }), "stops[1] is 5; it must be a string"],
    [() => reply({ stops: [, "a"] }), "stops[0] is undefined; it must be a string"],
    [() => reply({ grammar: "json" }), "grammar is a string; it must be an object"],
    [() => reply({ grammar: { regex: ["yes", "no"] } }), "grammar.regex is an array; it must be a string"],
    [() => reply({ grammar: { choices: "no" } }), "grammar.choices is a string; it must be an array of strings"],
    [() => reply({ grammar: { json: "yes" } }), "grammar.json is a string; it must be true"],
    [() => reply({ sampling: 0.7 }), "sampling is 0.7; it must be an object"],
    [() => all(session.generate(5)), "tokens is 5; it must be an array of whole numbers or a Uint32Array"],
    [() => all(session.generate(new Int32Array(2))), "tokens is an Int32Array; it must be an array of whole numbers or a Uint32Array"],
    [() => model.tokenize(5), "text is 5; it must be a string"],
    [() => model.meta(5), "key is 5; it must be a string"],
    [() => model.embed("hello"), "texts is a string; it must be an array of texts"],
    [() => model.embed(["a", 5]), "texts[1] is 5; it must be an array"],
    [() => new Prompt(model, "text"), "parts is a string; it must be an array of texts, tokens and media"],
    [() => Prompt.ofChat(model, "text"), "messages is a string; it must be an array of messages"],
    [() => Media.fromRows(model, [1], { rowDim: 64 }), "rows is an array; it must be a Float32Array"],
    [() => Conversation.load(model, "x"), "bytes is a string; it must be a Uint8Array"],
    [() => Store.open(5), "model is 5; it must be a Model"],
    [() => Encoder.load(model, 5), `file is 5; ${source}`],
    [() => model.tokenize.call({}, "x"), "this is an object; it must be an object of realizar"],
    [() => model.tokenize.call(Object.create(Model.prototype), "x"), "this is a Model; it must be an object of realizar"],
  ]);
});

test("values are named", async () => {
  const weights = "it must be one of default, f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k";
  const loop = {};
  loop.a = loop;
  await check([
    [() => reply({ maxTokens: -1 }), `maxTokens is -1; ${whole}`],
    [() => reply({ maxTokens: 2 ** 33 }), `maxTokens is 8589934592; ${whole}`],
    [() => reply({ maxTokens: 0.5 }), `maxTokens is 0.5; ${whole}`],
    [() => reply({ maxTokens: NaN }), `maxTokens is NaN; ${whole}`],
    [() => reply({ maxTokens: Infinity }), `maxTokens is Infinity; ${whole}`],
    [() => reply({ maxTokens: "5" }), `maxTokens is a string; ${whole}`],
    [() => reply({ maxTokens: 5n }), `maxTokens is a bigint; ${whole}`],
    [() => reply({ maxTokens: true }), `maxTokens is true; ${whole}`],
    [() => reply({ maxTokens: new Number(5) }), `maxTokens is an object; ${whole}`],
    [() => reply({ priority: 2 ** 31 }), "priority is 2147483648; it must be a whole number from -2147483648 to 2147483647"],
    [() => reply({ keep: "no" }), "keep is a string; it must be true or false"],
    [() => reply({ parallelToolCalls: "no" }), "parallelToolCalls is a string; it must be true or false"],
    [() => reply({ reasoning: "none" }), 'reasoning is "none"; it must be one of model, off, on'],
    [() => reply({ reasoning: "off\0" }), 'reasoning is "off"; it must be one of model, off, on'],
    [() => reply({ draft: "guess" }), 'draft is "guess"; it must be one of none, lookup, model, mtp'],
    [() => reply({ draft: 5 }), "draft is 5; it must be one of none, lookup, model, mtp"],
    [() => talk({ overflow: "drop" }), 'overflow is "drop"; it must be one of fail, forget'],
    [() => talk({ cache: { kType: "q2_k" } }), 'kType is "q2_k"; it must be one of default, f32, f16, q4_0, q8_0'],
    [() => Model.load(chat, { quantize: "q2_k" }), `quantize is "q2_k"; ${weights}`],
    [() => Model.load(chat, { mmap: true, packedPath: "x" }), "mmap and packedPath are both set; set one"],
    [() => Model.load(chat, { placements: [{ place: "gpu" }] }), 'placements[0].bytes is 0; it must be positive with "gpu" ("cpu" leaves GPUs none)'],
    [() => Model.load(chat, { devices: [1], shares: [1, 2] }), "shares has 2 numbers; it must have one for each of 1 devices"],
    [() => Model.load(chat, { devices: [1], shares: ["x"] }), "shares[0] is a string; it must be a number"],
    [() => Model.load("a\0b"), "source has a NUL at 1; it must be a text without one"],
    [() => reply({ sampling: { temperature: "hot" } }), "temperature is a string; it must be a number"],
    [() => reply({ sampling: { temperature: NaN } }), "temperature is NaN; it must be a number"],
    [() => reply({ sampling: { temperature: 1e39 } }), "temperature is 1e+39; it must be at most 3.402823e+38"],
    [() => reply({ sampling: { topK: -1 } }), `topK is -1; ${whole}`],
    [() => reply({ sampling: { order: ["top"] } }), 'order[0] is "top"; it must be one of topNSigma, topK, typicalP, topP, minP, xtc, temperature'],
    [() => reply({ sampling: { bannedSequences: [[1], [2, "a"]] } }), `bannedSequences[1][1] is a string; ${whole}`],
    [() => reply({ sampling: { biases: [["5", 1]] } }), `a token of biases is a string; ${whole}`],
    [() => reply({ sampling: { biases: [[5, 1e300]] } }), "a bias of biases is 1e+300; it must be at most 3.402823e+38"],
    [() => reply({ grammar: { tools: {} } }), "grammar is tools; it must be a kind for the content: calls follow the tools of the conversation"],
    [() => reply({ grammar: { regex: "a", whitespace: true } }), "whitespace needs a grammar of JSON, not a grammar of another kind"],
    [() => reply({ grammar: { regex: "a", lark: "b" } }), "grammar is of several kinds; it must be of one"],
    [() => reply({ grammar: { whitespace: true } }), "grammar is of no kind; it must be of one of jsonSchema, regex, lark, gbnf, json, choices, tools"],
    [() => reply({ variables: { a: NaN } }), "a is NaN; it must be a value of JSON"],
    [() => reply({ variables: loop }), "the value has no JSON: Converting circular structure to JSON; it must be a value of JSON"],
    [() => say("a\ud800"), "text has half of a surrogate pair at 1; it must be a text of Unicode"],
    [() => reply({ stops: ["a\0"] }), "stops[0] has a NUL at 1; it must be a text without one"],
    [() => new Prompt(model, [[1, -1]]), `parts[0][1] is -1; ${whole}`],
    [() => new Prompt(model, [[1, , 2]]), `parts[0][1] is undefined; ${whole}`],
    [() => model.detokenize([1, true]), `tokens[1] is true; ${whole}`],
    [() => plan(chat, { sessions: -1 }), `sessions is -1; ${whole}`],
    [() => plan(chat, { threads: -1 }), `threads is -1; ${whole}`],
    [() => Media.fromRows(model, new Float32Array(64)), "rowDim is undefined; it must be a whole number from 1 to 4294967295"],
    [() => talk().rewind(-1), `count is -1; ${whole}`],
    [() => talk().setCapacity(1.5), `tokens is 1.5; ${whole}`],
  ]);
});

test("unknown options are named, inherited ones too", async () => {
  await check([
    [() => talk({ sytem: "x" }), "the option sytem is unknown; the nearest is system"],
    [() => Model.load(chat, { thread: 2 }), "the option thread is unknown; the nearest is threads"],
    [() => all(talk().reply(Object.create({ maxToken: 2 }))), "the option maxToken is unknown; the nearest is maxTokens"],
    [() => reply({ sampling: { temp: 1 } }), "the option temp is unknown; the nearest is temperature"],
    [() => Prompt.ofChat(model, [], { tool: [] }), "the option tool is unknown; the nearest is tools"],
  ]);
  const inherited = talk();
  await all(inherited.reply(Object.create({ maxTokens: 2 })));
  assert.equal(inherited.info.nTokens, 2);
});

test("what is alike is taken", async () => {
  class Options {
    maxTokens = 2;
  }
  class List extends Array {}
  const proxy = new Proxy({ maxTokens: 2 }, {});
  for (const options of [new Options(), proxy, Object.assign(Object.create(null), { maxTokens: 2 }), Object.freeze({ maxTokens: 2 }), { maxTokens: 2, keep: null }]) {
    const one = talk();
    await all(one.reply(options));
    assert.equal(one.info.nTokens, 2);
  }
  assert.equal(talk({ messages: List.from([{ role: "user", content: "x" }]) }).messages().length, 1);
  assert.equal((await Model.load(Buffer.from(fs.readFileSync(STORY)))).info.vocabSize, 512);
});

test("what the caller's objects throw goes on", async () => {
  const own = new Error("own");
  const thrower = () => {
    throw own;
  };
  const getter = (name) => Object.defineProperty({}, name, { get: thrower, enumerable: true });
  const calls = [
    () => reply(getter("maxTokens")),
    () => reply({ sampling: getter("topK") }),
    () => reply(new Proxy({}, { ownKeys: thrower })),
    () => talk({ cache: getter("capacity") }),
    () => talk({ messages: [getter("content")] }),
    () => reply({ stops: Object.defineProperty(["a"], 0, { get: thrower }) }),
    () => Model.load(chat, { placements: [getter("place")] }),
    () => model.tokenize("x", getter("special")),
    () => Model.load(chat, { progress: thrower }),
  ];
  for (const call of calls) await assert.rejects(async () => await call(), (error) => error === own);
});

test("errors of the library have the caller's line too", async () => {
  const lines = [
    () => model.meta("none"),
    () => Model.load("/none.gguf"),
    () => reply({ grammar: { regex: "(" } }),
    () => plan("/none.gguf"),
    () => Conversation.load(model, new Uint8Array(3)),
    () => new Prompt(model, [[9999]]),
  ];
  for (const call of lines) {
    await assert.rejects(async () => await call(), (error) => {
      assert.ok(error instanceof RealizarError && error.stack.includes(here), error.stack);
      assert.ok(error.stack.startsWith(`RealizarError: ${error.message}`), error.stack);
      return true;
    });
  }
});

test("what objects tell is declared, and what is declared is told", async () => {
  const declared = ["index.d.ts", "results.d.ts"].map((name) => fs.readFileSync(path.join(home, name), "utf8")).join();
  const members = (kind) => {
    const [, base, body] = declared.match(`interface ${kind} (?:extends (\\w+) )?{([^]*?)\n}`);
    return [...(base ? members(base) : []), ...body.matchAll(/^  (\w+)(\??):/gm)];
  };
  const infos = {
    ModelInfo: model.info,
    ConversationInfo: talk().info,
    StoreInfo: (await Store.open(model)).info,
    Plan: await plan(chat),
    MediaInfo: Media.fromRows(model, new Float32Array(128), { rowDim: 64 }).info,
    Device: (await import(pathToFileURL(path.join(home, "index.mjs")).href)).devices()[0],
  };
  for (const [kind, info] of Object.entries(infos)) {
    const names = members(kind).map(([, name]) => name);
    const needed = members(kind).filter(([, , optional]) => !optional).map(([, name]) => name);
    assert.deepEqual(Object.keys(info).filter((name) => !names.includes(name)), [], kind);
    assert.deepEqual(needed.filter((name) => !(name in info)), [], kind);
  }
  const { capabilities, embeddingDim, nScores, pooling, readsSource } = model.info;
  assert.deepEqual([capabilities.includes("generate"), capabilities.includes("images")], [true, false]);
  assert.deepEqual([embeddingDim, nScores, pooling, readsSource], [64, 0, undefined, false]);
});
