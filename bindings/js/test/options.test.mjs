// Each option: values that do not fit, and names that there are not.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import test from "node:test";
import {
  chat, Conversation, fails, fetchModel, home, index, model, Model, plan, Prompt, Session, Store, talk,
} from "./fixture.mjs";
import { PROMPT, all } from "./models.mjs";

/** The members of a declared interface and of those that it extends, and their types. */
function members(kind) {
  const declared = ["index.d.ts", "options.d.ts"].map((name) => fs.readFileSync(path.join(home, name), "utf8")).join();
  const [, bases, body] = declared.match(`interface ${kind} (?:extends ([^{]*) )?{([^]*?)\n?}\n`);
  const own = [...body.matchAll(/^  (\w+)\?: (.*);/gm)].map(([, name, type]) => [name, type]);
  return Object.assign({}, ...(bases?.split(", ") ?? []).map(members), Object.fromEntries(own));
}

test("each number, switch and name of the options is checked", async () => {
  const calls = {
    LoadOptions: (options) => Model.load(chat, options),
    CacheOptions: (cache) => talk({ cache }),
    SamplingParams: (sampling) => talk().say(PROMPT, { sampling }).next(),
    ReplyOptions: (options) => talk().say(PROMPT, options).next(),
    GenerateOptions: (options) => new Session(model).generate(PROMPT, options).next(),
    StoreOptions: (options) => Store.open(model, options),
    EmbedParams: (options) => model.embed([PROMPT], options),
  };
  const wrong = { number: ["1", true, NaN, {}], boolean: ["no", 1, 0], WeightType: ["q9", 1, "q2_k"], CacheType: ["q9", 1, "q2_k"], Reasoning: ["maybe", 1], Pooling: ["men", 0], "Filter[]": ["top", 1] };
  for (const [kind, call] of Object.entries(calls)) {
    for (const [name, type] of Object.entries(members(kind))) {
      for (const value of wrong[type] ?? []) {
        const refused = fails("RZ_ERR_INVALID_ARGUMENT", new RegExp(`^${name} is `));
        await assert.rejects(async () => await call({ [name]: value }), refused, `${kind}.${name}: ${String(value)}`);
      }
    }
  }
});

test("an option of sampling counts alone", async () => {
  const usual = await all(new Session(model).generate(PROMPT, { maxTokens: 1 }));
  const session = new Session(model);
  await all(session.generate(PROMPT, { maxTokens: 2 }));
  const first = session.tokens[model.tokenize(PROMPT).length];
  for (const sampling of [{ bannedSequences: [[first]] }, { biases: [[first, -Infinity]] }])
    assert.notEqual(await all(new Session(model).generate(PROMPT, { maxTokens: 1, sampling })), usual);
});

test("options of an unknown name are refused, all that are declared are known", async () => {
  const names = (kind) => Object.keys(members(kind));
  const bytes = await talk().save(), kept = await new Session(model).save();
  const calls = [
    [[...names("LoadOptions"), "signal", "progress"], (options) => Model.load(chat, options)],
    [[...names("LoadOptions"), "sessions", "cache"], (options) => plan(chat, options)],
    [names("CacheOptions"), (cache) => plan(chat, { cache })],
    [names("CacheOptions"), (cache) => talk({ cache })],
    [[...names("ToolOptions"), ...names("ConversationOptions")], (options) => new Conversation(model, options)],
    [["cache", "store"], (options) => Conversation.load(model, bytes, options)],
    [["cache", "adapters"], (options) => new Session(model, options)],
    [["cache"], (options) => Session.load(model, kept, options)],
    [
      [...names("ToolOptions"), ...names("GenerateOptions"), ...names("ReplyOptions")],
      (options) => talk().say(PROMPT, { maxTokens: 1, ...options }).next(),
    ],
    [[...names("ToolOptions"), "reasoning", "priority", "signal"], (options) => talk({ system: "S" }).read(options)],
    [names("GenerateOptions"), (options) => new Session(model).generate(PROMPT, { maxTokens: 1, ...options }).next()],
    [names("Sampling"), (sampling) => talk().say(PROMPT, { maxTokens: 1, sampling }).next()],
    [names("StoreOptions"), (options) => Store.open(model, options)],
    [["pooling", "raw", "signal"], (options) => model.embed([PROMPT], { pooling: "mean", ...options })],
    [["special", "parse"], (options) => model.tokenize(PROMPT, options)],
    [["special"], (options) => model.detokenize([1], options)],
    [["bare"], (options) => new Prompt(model, [[1]], options)],
    [["signal", "progress"], (options) => fetchModel("hf:a/b/c", options)],
  ];
  for (const [known, call] of calls) {
    for (const name of known) {
      const wrong = `${name}z`;
      const refused = fails("RZ_ERR_INVALID_ARGUMENT", new RegExp(`^the option ${wrong} is unknown; the nearest is ${name}$`));
      await assert.rejects(async () => await call({ [wrong]: 1 }), refused);
    }
    for (const [wrong, shown] of [[5, "5"], [true, "true"], ["x", "a string"], [[], "an array"], [() => 1, "a function"]]) {
      const refused = fails("RZ_ERR_INVALID_ARGUMENT", new RegExp(`^\\w+ is ${shown}; it must be an object$`));
      // Where other options are spread around these there is nothing to see of them.
      if (!String(call).includes("...options")) await assert.rejects(async () => await call(wrong), refused);
    }
    const given = Object.fromEntries(known.map((name) => [name, undefined]));
    await Promise.resolve(call(given)).catch((error) => assert.doesNotMatch(error.message, /unknown/));
  }
  const refused = (pattern) => fails("RZ_ERR_INVALID_ARGUMENT", pattern);
  const misplaced = /^the option temperature is unknown; it is an option of sampling$/;
  await assert.rejects(talk().say(PROMPT, { temperature: 0.5 }).next(), refused(misplaced));
  await assert.rejects(model.embed([PROMPT], { pooling: "mean", colour: 1 }), refused(/^the option colour is unknown$/));
  const grammar = { jsonSchema: {}, whitespac: true };
  await assert.rejects(talk().say(PROMPT, { grammar }).next(), fails("RZ_ERR_INVALID_ARGUMENT", /nearest is whitespace/));
  for (const grammar of [{ regex: "a", choices: ["b"] }, { json: false }, { whitespace: true }, 5, []])
    await assert.rejects(talk().say(PROMPT, { grammar }).next(), fails("RZ_ERR_INVALID_ARGUMENT", /must be/));
  await assert.rejects(talk().say(PROMPT, 5).next(), fails("RZ_ERR_INVALID_ARGUMENT", /^options is 5; it must be an object$/));
  for (const given of [{ adapters: "x" }, { messages: "x" }, { messages: "" }])
    assert.throws(() => talk(given), fails("RZ_ERR_INVALID_ARGUMENT", /is a string; it must be an array of/));
  await assert.rejects(talk().say(PROMPT, { signal: {} }).next(), fails("RZ_ERR_INVALID_ARGUMENT", /^signal is an object; it must be an AbortSignal$/));
});

test("what has no JSON is refused", async () => {
  const refused = fails("RZ_ERR_INVALID_ARGUMENT", /; it must be a value of JSON/);
  for (const value of [NaN, Infinity, new Map([["a", 1]]), new Set([1]), () => 1, Symbol("a")]) {
    assert.throws(() => talk({ variables: { a: value } }), refused);
    assert.throws(() => talk({ variables: { list: [{ a: value }] } }), refused);
    assert.throws(() => talk().add({ role: "user", content: value }), refused);
    assert.throws(() => Prompt.ofChat(model, [{ role: "user", content: value }]), refused);
    await assert.rejects(talk().say(PROMPT, { grammar: { jsonSchema: { const: value } } }).next(), refused);
  }
  assert.throws(() => talk({ variables: new Map([["a", 1]]) }), refused);
  assert.equal(talk({ messages: [{ role: "user", content: "x", name: undefined }] }).messages().length, 1);
});

test("half of a surrogate pair is refused, and U+FFFD is a character", async () => {
  const refused = fails("RZ_ERR_INVALID_ARGUMENT", /surrogate/);
  for (const half of ["\ud834", "a\ud834b", "\udd1e", "\udd1e\ud834", "\ufffd\ud834"]) {
    await assert.rejects(talk().say(half).next(), refused);
    assert.throws(() => model.tokenize(half), refused);
    assert.throws(() => talk({ system: half }), refused);
    await assert.rejects(talk().say(PROMPT, { stops: [half] }).next(), refused);
    await assert.rejects(model.embed([half], { pooling: "mean" }), refused);
  }
  const whole = "\ufffd \ud834\udd1e \0\ufffd";
  assert.equal(model.detokenize(model.tokenize(whole)), whole);
});

test("numbers out of range and what is no list are refused", async () => {
  for (const number of [-1, 2 ** 32, 0.5, NaN]) {
    const refused = (name) =>
      fails("RZ_ERR_INVALID_ARGUMENT", new RegExp(`^${name} is ${number}; it must be a whole number from 0 to 4294967295$`, "i"));
    await assert.rejects(talk().say(PROMPT, { maxTokens: number }).next(), refused("maxTokens"));
    assert.throws(() => talk({ cache: { capacity: number } }), refused("capacity"));
    assert.throws(() => new Prompt(model, [[1, number]]), refused("parts\\[0\\]\\[1\\]"));
    await assert.rejects(new Session(model).generate([number]).next(), refused("tokens\\[0\\]"));
    assert.throws(() => model.detokenize([number]), refused("tokens\\[0\\]"));
  }
  // 2^53 is what the next whole number would be, too.
  const seed = fails("RZ_ERR_INVALID_ARGUMENT", /seed is .*; it must be a whole number from 0 to 9007199254740991/);
  await assert.rejects(talk().say(PROMPT, { sampling: { seed: 2 ** 53 } }).next(), seed);
  const refused = fails("RZ_ERR_INVALID_ARGUMENT");
  await assert.rejects(talk().say(PROMPT, { stops: "five" }).next(), refused);
  await assert.rejects(model.embed("hello"), refused);
  await assert.rejects(new Session(model).generate(5).next(), refused);
  assert.throws(() => new Prompt(model, "text"), refused);
});
