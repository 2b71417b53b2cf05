// Tests of the package on a tiny model.  REALIZAR_PACKAGE: the folder with the addon; run by tests/js.sh with
// --expose-gc.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import test from "node:test";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import {
  ADAPTED,
  ADAPTER,
  DIGIT,
  EXPECTED,
  GO,
  PROMPT,
  REASONS,
  STORY,
  all,
  chatModel,
  folder,
  largeModel,
} from "./models.mjs";

const home = process.env.REALIZAR_PACKAGE;
const index = pathToFileURL(path.join(home, "index.mjs")).href;
const { Conversation, Encoder, MEDIA_TOKEN, Media, Model, Prompt, RealizarError, Session, Store, devices, fetchModel, plan, version } =
  await import(index);

const chat = chatModel();
const model = await Model.load(chat, { threads: 2 });
const reasons = await Model.load(chatModel(REASONS, "reasons.gguf"), { threads: 2 });
const talk = (options, of = model) => new Conversation(of, { cache: { capacity: 256 }, ...options });
const fails = (code, message) => (error) => {
  assert.ok(error instanceof RealizarError && error instanceof Error && error.status < 0, String(error));
  assert.equal(error.code, code, error.message);
  if (message) assert.match(error.message, message);
  return true;
};

test("sounds are encoded at once and in steps", async (t) => {
  const encoder = path.join(path.dirname(chat), "mmproj.gguf");
  try {
    execFileSync("python3", [path.join(path.dirname(STORY), "../encoder.py"), "sound/ultravox", encoder]);
  } catch (error) {
    if (error.code === "ENOENT") return t.skip("there is no python3");
    throw error;
  }
  const hears = await Encoder.load(model, encoder);
  assert.deepEqual([hears.info.hears, hears.info.sampleRate], [true, 16000]);
  const samples = Float32Array.from({ length: 70000 }, (_, i) => ((i * i) % 2048) / 4096 - 0.25);
  const whole = await hears.encodeSound(samples, { rate: 16000 });
  const { nRows, nTokens, hash } = whole.info;
  const measured = hears.measure(70000);
  assert.deepEqual([measured.kind, measured.nRows, measured.nTokens, measured.width], ["audio", nRows, nTokens, 70000]);
  const both = Float32Array.from({ length: 140000 }, (_, i) => samples[i >> 1] + (i % 2 ? -0.125 : 0.125));
  const stepped = await hears.encodeSound(both, { channels: 2, rate: 16000, inSteps: true });
  assert.throws(() => stepped.rows(), fails("RZ_ERR_NOT_READY"));
  assert.equal(stepped.info.nRows, nRows);
  let steps = 1;
  while (await stepped.step(0.001)) steps++;
  assert.ok(steps > 1);
  assert.deepEqual(stepped.hash, hash);
  assert.deepEqual(stepped.rows(), whole.rows());
  assert.equal(await stepped.step(), false);
  const other = await hears.encodeSound(samples, { rate: 16000, inSteps: true });
  assert.equal(await other.step(), false);
  assert.deepEqual(other.rows(), whole.rows());
  await assert.rejects(hears.encodeSound(samples, { channels: 3, rate: 16000 }), fails("RZ_ERR_INVALID_ARGUMENT", /3 channels/));
});

test("frames become a video", async (t) => {
  const folder = path.join(path.dirname(chat), "video");
  try {
    execFileSync("python3", [path.join(path.dirname(STORY), "../encoder.py"), "videos/qwen25", folder]);
  } catch (error) {
    if (error.code === "ENOENT") return t.skip("there is no python3");
    throw error;
  }
  const sees = await Encoder.load(await Model.load(folder), folder);
  const size = { width: 84, height: 56 };
  const data = Uint8Array.from({ length: 3 * 84 * 56 * 4 }, (_, i) => (i % 4 === 3 ? 255 : i * 7));
  const video = await sees.encodeVideo({ data, ...size }, [0, 0.5, 1]);
  const { kind, pairs, nRows, nTokens, columns, lines, width, height } = video.info;
  assert.deepEqual({ kind, pairs, nRows, nTokens }, { kind: "video", pairs: 2, nRows: 12, nTokens: 14 });
  assert.deepEqual([columns, lines, width, height], [3, 2, 84, 56]);
  const rgb = data.filter((_, i) => i % 4 !== 3);
  const same = await sees.encodeVideo({ data: rgb, ...size, format: "rgb8" }, [0, 0.5, 1], { inSteps: true });
  assert.deepEqual(same.hash, video.hash);
  while (await same.step(0.001));
  assert.deepEqual(same.rows(), video.rows());
  const other = await sees.encodeVideo({ data, ...size }, [0, 1, 2]);
  assert.notDeepEqual(other.hash, video.hash);
  const invalid = (message) => fails("RZ_ERR_INVALID_ARGUMENT", message);
  await assert.rejects(sees.encodeVideo({ data, ...size }, [0, 2, 1]), invalid(/entry 2: the time/));
  await assert.rejects(sees.encodeVideo({ data, ...size }, [0, 1]), invalid(/frames/));
});

test("CommonJS and modules are one package", async () => {
  const required = createRequire(import.meta.url)(path.join(home, "index.js"));
  assert.equal(required.Model, Model);
  assert.equal((await import(index)).default.Model, Model);
  assert.match(version, /^\d+\.\d+\.\d+/);
  assert.equal(devices()[0].kind, "cpu");
});

test("a model has tokens and a description", async () => {
  const ids = model.tokenize(PROMPT);
  assert.equal(ids[0], model.info.bosToken);
  assert.equal(model.detokenize(ids), PROMPT);
  assert.equal(model.detokenize([...ids]), PROMPT);
  assert.equal(model.tokenize("", { special: false }).length, 0);
  const long = "größe €".repeat(2000);
  assert.equal(model.detokenize(model.tokenize(long)), long);
  assert.deepEqual([model.info.architecture, model.info.vocabSize, model.info.chatTemplate], ["llama", 512, true]);
  assert.equal(model.meta("general.architecture"), "llama");
  assert.throws(() => model.meta("none"), fails("RZ_ERR_NOT_FOUND"));
  assert.throws(() => model.tokenize(1), fails("RZ_ERR_INVALID_ARGUMENT", /^text is 1; it must be a string$/));
  assert.throws(() => model.detokenize([1.5]), fails("RZ_ERR_INVALID_ARGUMENT", /1\.5/));
  assert.throws(() => model.detokenize([512]), fails("RZ_ERR_INVALID_ARGUMENT"));
  const bytes = await plan(STORY, { sessions: 3, cache: { capacity: 64 } });
  assert.ok(bytes.totalHost >= bytes.weightsHost + 3 * bytes.cacheHost && bytes.cacheHost > 0);
});

test("a session goes on with a text", async () => {
  const session = new Session(model);
  const pieces = [];
  for await (const text of session.generate(PROMPT, { maxTokens: 25 })) pieces.push(text);
  assert.equal(pieces.join("").slice(0, 60), EXPECTED.slice(0, 60));
  assert.equal(await all(session.generate(PROMPT, { maxTokens: 25 })), pieces.join(""));
  assert.equal(
    await all(session.generate(PROMPT, { stops: [" She", "never"] })),
    EXPECTED.slice(0, EXPECTED.indexOf(" She")),
  );
  assert.equal(session.length, session.tokens.length);
  const other = await Session.load(model, await session.save());
  assert.deepEqual(other.tokens, session.tokens);
  session.truncate(3);
  assert.deepEqual([session.fork().length, other.length > 3, session.capacity], [3, true, 512]);
  const matched = await all(session.generate("A number: ", { grammar: { regex: "[0-9]{4}" } }));
  assert.match(matched, /^ ?[0-9]{4}$/);
  for (const draft of ["lookup", model]) {
    assert.equal(await all(session.generate(PROMPT, { maxTokens: 25, draft, draftMax: 4 })), pieces.join(""));
  }
});

test("rows of media stand for tokens, and wrong ones are refused", async () => {
  // The embeddings of tokens, the first tensor of the tiny model.
  const table = new Float32Array(fs.readFileSync(STORY).subarray(14176).buffer.slice(14176, 14176 + 4 * 512 * 64));
  const ids = model.tokenize(PROMPT);
  const rows = Float32Array.from([...ids.subarray(1, 4)].flatMap((token) => [...table.subarray(token * 64, token * 64 + 64)]));
  const media = Media.fromRows(model, rows, { rowDim: 64 });
  const { kind, nRows, rowDim, columns, lines } = media.info;
  assert.deepEqual([kind, nRows, rowDim, columns, lines], ["image", 3, 64, 3, 1]);
  assert.deepEqual(media.rows(), rows);
  const prompt = new Prompt(model, [ids.subarray(0, 1), media, [...ids.subarray(4)]], { bare: true });
  const tokens = ids.map((id, i) => (i >= 1 && i <= 3 ? MEDIA_TOKEN : id));
  assert.deepEqual(prompt.tokens, tokens);
  const expected = await all(new Session(model).generate(PROMPT, { maxTokens: 25 }));
  const session = new Session(model);
  for (let i = 0; i < 2; i++) assert.deepEqual(await all(session.generate(prompt, { maxTokens: 25 })), expected);
  assert.deepEqual(session.tokens.subarray(0, tokens.length), tokens);
  const again = await Media.load(model, await media.save());
  assert.deepEqual([again.hash, media.hash.length], [media.hash, 32]);
  assert.notDeepEqual(Media.fromRows(model, new Float32Array(192), { rowDim: 64 }).hash, media.hash);

  const parts = [
    { type: "image", media },
    { type: "text", text: "Once" },
  ];
  const seen = Prompt.ofChat(model, [{ role: "user", content: parts }]).tokens;
  assert.deepEqual([seen[1], seen.filter((token) => token === MEDIA_TOKEN).length], [MEDIA_TOKEN, 3]);

  const shown = talk();
  shown.add({ role: "user", content: parts });
  await all(shown.reply({ maxTokens: 5 }));
  assert.deepEqual([shown.info.nMedia, shown.media[0].hash], [1, media.hash]);
  assert.deepEqual(shown.messages()[0].content[0], { type: "image", media: 0 });
  const begun = new Conversation(model, { system: "S", messages: [{ role: "user", content: [{ type: "image", media }] }] });
  assert.deepEqual(begun.messages()[1].content, [{ type: "image", media: 0 }]);
  assert.equal(begun.info.nMedia, 1);
  for (const pooling of ["mean", "none"]) {
    assert.deepEqual(await model.embed([prompt, "Once"], { pooling }), await model.embed([ids, "Once"], { pooling }));
  }
  await assert.rejects(Encoder.load(model, fs.readFileSync(STORY)), fails("RZ_ERR_UNSUPPORTED"));

  const wrong = fails("RZ_ERR_INVALID_ARGUMENT");
  parts.push({ type: "image", media: 7 });
  assert.throws(() => Prompt.ofChat(model, [{ role: "user", content: parts }]), wrong);
  assert.throws(() => Media.fromRows(model, new Float32Array(63), { rowDim: 63 }), wrong);
  assert.throws(() => Media.fromRows(model, new Float32Array(63), { rowDim: 64 }), wrong);
  assert.throws(() => Media.fromRows(model, rows, { rowDim: 64, kind: "smell" }), wrong);
  assert.throws(() => new Prompt(model, [[512]]), wrong);
  assert.throws(() => new Prompt(reasons, [media]), fails("RZ_ERR_MISMATCH"));
  await assert.rejects(Encoder.load(model, STORY), fails("RZ_ERR_UNSUPPORTED"));
  await assert.rejects(Encoder.plan(model, "none.gguf"), fails("RZ_ERR_IO"));
  media.close();
  assert.throws(() => new Prompt(model, [media]), wrong);
  assert.equal(prompt.length, tokens.length);
});

test("what is said comes in pieces, and the next turn costs its new end", async () => {
  const conversation = talk();
  const pieces = [];
  for await (const text of conversation.say(PROMPT, { maxTokens: 25 })) pieces.push(text);
  assert.equal(pieces.join("").slice(0, 60), EXPECTED.slice(0, 60));
  const first = conversation.info;
  assert.deepEqual(
    [first.state, first.end, first.nTokens, first.nMessages, first.reusedTokens],
    ["ended", "length", 25, 2, 0],
  );
  const again = await all(conversation.say("And then?", { maxTokens: 5 }));
  assert.ok(
    conversation.info.reusedTokens >= first.promptTokens &&
      conversation.info.reusedTokens < conversation.info.promptTokens,
  );
  assert.deepEqual(conversation.messages(2), [
    { role: "user", content: "And then?" },
    { role: "assistant", content: again, finish_reason: "length" },
  ]);
  const parts = [];
  const whole = talk({ messages: [{ role: "user", content: PROMPT }] });
  for await (const part of whole.reply({ maxTokens: 25 })) parts.push(part);
  assert.deepEqual(parts.pop(), { kind: "end", text: "", call: 0, unparsed: false });
  assert.deepEqual(new Set(parts.map((part) => part.kind)), new Set(["content"]));
  assert.equal(parts.map((part) => part.text).join(""), pieces.join(""));
});

test("sampling is advised or given", async () => {
  const greedy = await all(talk().say(PROMPT, { maxTokens: 20 }));
  assert.equal(await all(talk().say(PROMPT, { sampling: {}, maxTokens: 20 })), greedy);
  const warm = { sampling: { temperature: 1.5, seed: 7, order: ["temperature"] }, maxTokens: 20 };
  const [one, two] = [await all(talk().say(PROMPT, warm)), await all(talk().say(PROMPT, warm))];
  assert.equal(one, two);
  assert.notEqual(one, greedy);
  const comma = model.tokenize(",", { special: false }).at(-1);
  const without = await all(talk().say(PROMPT, { sampling: { biases: [[comma, -Infinity]] }, maxTokens: 5 }));
  assert.ok(!without.includes(","));
  const banned = await all(talk().say(PROMPT, { sampling: { bannedSequences: [[comma]] }, maxTokens: 5 }));
  assert.equal(banned, without);
});

test("a reply that is aborted ends with the signal's reason and keeps what was said", async () => {
  const conversation = talk();
  const controller = new AbortController();
  const reason = new Error("enough");
  let said = "";
  await assert.rejects(async () => {
    for await (const text of conversation.say(PROMPT, { signal: controller.signal })) {
      said += text;
      controller.abort(reason);
    }
  }, reason);
  assert.equal(conversation.messages(1)[0].finish_reason, "cancelled");
  assert.ok(conversation.messages(1)[0].content.startsWith(said));
  const ended = new AbortController();
  const loop = talk().say(PROMPT, { signal: ended.signal });
  await loop.next();
  ended.abort(null);
  assert.equal(await loop.next().catch((error) => error), null);
  const aborted = conversation.say("x", { signal: AbortSignal.abort() });
  await assert.rejects(aborted.next(), { name: "AbortError" });
  assert.equal(conversation.info.nMessages, 2);
  conversation.rewind(1);
  await assert.rejects(all(conversation.reply({ signal: AbortSignal.timeout(1), sampling: { temperature: 1 } })), {
    name: "TimeoutError",
  });
  assert.equal(conversation.info.nMessages, 1);
  assert.ok((await all(conversation.reply({ maxTokens: 5 }))).length > 0);
});

test("a load heeds the signal, and tells how far it is", async () => {
  const controller = new AbortController();
  let calls = 0;
  const progress = (done, total) => {
    calls++;
    assert.ok(done <= total);
    controller.abort("stop");
  };
  const large = largeModel();
  await assert.rejects(Model.load(large, { signal: controller.signal, progress }), (error) => error === "stop");
  assert.ok(calls > 0);
  const broken = new Error("of progress");
  await assert.rejects(
    Model.load(large, {
      progress: () => {
        throw broken;
      },
    }),
    broken,
  );
  const reports = [];
  (await Model.load(STORY, { progress: (...told) => reports.push(told) })).close();
  assert.equal(...reports.at(-1));
});

test("a loop that is left keeps what was said, or gives the reply up, and a reply that was cut goes on", async () => {
  const whole = talk();
  const text = await all(whole.say(PROMPT, { maxTokens: 24 }));
  const conversation = talk();
  let said;
  for await (said of conversation.say(PROMPT)) break;
  assert.deepEqual(conversation.messages(1), [{ role: "assistant", content: said, finish_reason: "cancelled" }]);
  const more = await all(conversation.reply({ maxTokens: 24, continue: true }));
  assert.ok((said + more).startsWith(text));
  conversation.rewind(1);
  for await (const _ of conversation.reply()) break;
  assert.deepEqual([conversation.info.nMessages, conversation.info.state], [1, null]);
  conversation.rewind(0);
  const begun = await all(conversation.say(PROMPT, { maxTokens: 9 }));
  assert.equal(begun + (await all(conversation.reply({ maxTokens: 15, continue: true }))), text);
  assert.deepEqual(conversation.messages(), whole.messages());
  conversation.add("More");
  await assert.rejects(all(conversation.reply({ continue: true })), fails("RZ_ERR_INVALID_ARGUMENT"));
});

test("a failure leaves the messages as they were, and the object fit for use", async () => {
  const conversation = talk({ cache: { capacity: 64 } });
  await all(conversation.say("Hi", { maxTokens: 5 }));
  const before = conversation.messages();
  await assert.rejects(all(conversation.say("long ".repeat(99))), fails("RZ_ERR_CONTEXT_FULL"));
  await assert.rejects(all(conversation.say("long ".repeat(99))), (error) => error.needed > 99);
  assert.deepEqual(conversation.messages(), before);
  for (const wrong of [
    { maxTokens: -1 },
    { maxTokens: "x" },
    { stops: "x" },
    { stops: [""] },
    { stops: ["a\0b"] },
    { draft: "x" },
    { grammar: { prose: "" } },
    { grammar: { jsonSchema: "{" } },
    { sampling: { topK: 1.5 } },
    { sampling: { temperature: NaN } },
    { sampling: { biases: [[1]] } },
    { reasoning: 1 },
    { keep: "x" },
    { sampling: { order: ["x"] } },
  ]) {
    await assert.rejects(all(conversation.say("x", wrong)), fails("RZ_ERR_INVALID_ARGUMENT"), JSON.stringify(wrong));
    assert.deepEqual(conversation.messages(), before);
  }
  await assert.rejects(all(conversation.say("x", { reasoning: "on" })), fails("RZ_ERR_UNSUPPORTED"));
  for (const wrong of [[1], { content: "x" }, [{ role: "user", content: 1 }], undefined, 5]) {
    assert.throws(() => conversation.add(wrong), fails("RZ_ERR_INVALID_ARGUMENT"));
  }
  assert.throws(() => conversation.add("x", "a\0"), fails("RZ_ERR_INVALID_ARGUMENT", /NUL/));
  assert.throws(() => conversation.rewind(9), fails("RZ_ERR_INVALID_ARGUMENT"));
  assert.throws(
    () => conversation.add({ role: "user", content: [{ type: "image_url" }] }),
    fails("RZ_ERR_INVALID_ARGUMENT", /no number of a medium/),
  );
  assert.throws(() => new Conversation({}), fails("RZ_ERR_INVALID_ARGUMENT"));
  assert.throws(() => new Conversation(model, { overflow: "x" }), fails("RZ_ERR_INVALID_ARGUMENT"));
  await assert.rejects(Model.load("/none.gguf"), fails("RZ_ERR_IO", /none\.gguf/));
  await assert.rejects(Model.load(path.join(home, "index.js")), (error) => error instanceof RealizarError);
  await assert.rejects(Model.load(new Uint8Array(9)), (error) => error instanceof RealizarError);
  await assert.rejects(Model.load(5), fails("RZ_ERR_INVALID_ARGUMENT"));
  const story = await Model.load(STORY);
  assert.throws(() => new Conversation(story), fails("RZ_ERR_UNSUPPORTED"));
  story.close();
  story.close();
  assert.throws(() => story.info, fails("RZ_ERR_INVALID_ARGUMENT", /closed/));
  await assert.rejects(all(new Session(model).generate([])), fails("RZ_ERR_INVALID_ARGUMENT"));
});

test("messages are added, edited and overflow", async () => {
  const conversation = talk({
    system: "Be brief.",
    messages: [{ role: "user", content: "größe" }],
    variables: { a: 1 },
    toolChoice: "none",
  });
  conversation.add("A text");
  conversation.add("Of a role", "system");
  conversation.add([
    { role: "assistant", content: "1" },
    { role: "user", content: "2", name: "x" },
  ]);
  assert.throws(() => conversation.add([{ role: "user", content: null }]), fails("RZ_ERR_INVALID_ARGUMENT"));
  assert.deepEqual(
    conversation.messages().map((m) => m.content),
    ["Be brief.", "größe", "A text", "Of a role", "1", "2"],
  );
  assert.deepEqual(conversation.messages(6), []);
  conversation.rewind(2);
  assert.equal(conversation.info.nMessages, 2);
  const long = talk({ system: "S", overflow: "forget", cache: { capacity: 64, kType: "q8_0", vType: "q8_0" } });
  for (let i = 0; i < 8; i++) await all(long.say(`Question ${i} of some length`, { maxTokens: 5 }));
  assert.ok(long.info.firstInPrompt > 0 && long.info.nMessages === 17 && long.info.cacheCapacity === 64);
});

test("calls follow their schemas", async () => {
  const conversation = talk({ tools: [GO], toolChoice: "required", parallelToolCalls: false });
  conversation.add(PROMPT);
  for (let turn = 0; turn < 2; turn++) {
    const parts = { toolId: "", toolName: "", toolArguments: "" };
    for await (const part of conversation.reply({ maxTokens: 200 })) parts[part.kind] += part.text;
    assert.equal(parts.toolName, "go");
    assert.ok(["car", "bus"].includes(JSON.parse(parts.toolArguments).by));
    const message = conversation.messages().at(-1);
    assert.equal(message.finish_reason, "tool_calls");
    assert.equal(message.tool_calls[0].id, parts.toolId);
    assert.deepEqual(message.tool_calls[0].function, { name: "go", arguments: parts.toolArguments });
    conversation.add({ role: "tool", tool_call_id: message.tool_calls[0].id, content: "done" });
  }
});

test("a reply has tools of its own, and messages are read ahead of it", async () => {
  const tools = { tools: [GO], toolChoice: "required", parallelToolCalls: false };
  const [ofLife, once] = [talk({ ...tools, variables: { a: 1 } }), talk()];
  for (const conversation of [ofLife, once]) conversation.add(PROMPT);
  for await (const part of ofLife.reply()) void part;
  await once.read(tools);
  assert.deepEqual([once.info.end, once.info.nTokens, once.info.nMessages], ["length", 0, 1]);
  for await (const part of once.reply({ ...tools, variables: { a: 1 } })) void part;
  assert.deepEqual(once.messages(), ofLife.messages());
  assert.equal(once.messages()[1].finish_reason, "tool_calls");
  assert.equal(once.info.reusedTokens + 1, once.info.promptTokens);
  // The other replies are as the conversation was made.
  once.add("And now?");
  for await (const part of once.reply({ maxTokens: 3 })) assert.notEqual(part.kind, "toolName");
  await assert.rejects(once.reply({ toolChoice: "required" }).next(), fails("RZ_ERR_INVALID_ARGUMENT", /there are no tools/));
  await assert.rejects(once.read({ signal: AbortSignal.abort(new Error("enough")) }), /enough/);
});

test("a conversation is changed between its replies", async () => {
  const [plain, conversation] = [talk(), talk()];
  const changes = [
    () => conversation.release(),
    () => conversation.setCapacity(300),
    () => conversation.setOverflow("forget"),
    () => conversation.setAdapters([]),
    () => conversation.setStore(null),
  ];
  for (const change of changes) {
    for (const each of [plain, conversation]) await all(each.say("Go on", { maxTokens: 5 }));
    assert.deepEqual(conversation.messages(), plain.messages());
    change();
  }
  assert.equal(conversation.info.cacheCapacity, 300);
  const reading = conversation.read();
  assert.throws(() => conversation.release(), fails("RZ_ERR_BUSY"));
  await reading;
  conversation.release();
  assert.equal(conversation.info.cacheLen, 0);
  const adapter = await model.adapter(ADAPTER);
  const adapted = talk({ adapters: [adapter] });
  conversation.rewind(0);
  conversation.setAdapters([adapter]);
  assert.equal(await all(conversation.say(PROMPT, { maxTokens: 9 })), await all(adapted.say(PROMPT, { maxTokens: 9 })));
  const store = await Store.open(model, { minTokens: 3 });
  conversation.setStore(store);
  await all(conversation.say("More", { maxTokens: 5 }));
  assert.ok(store.info.nEntries > 0);
  assert.throws(() => conversation.setOverflow("drop"), fails("RZ_ERR_INVALID_ARGUMENT"));
  assert.throws(() => conversation.setCapacity(-1), fails("RZ_ERR_INVALID_ARGUMENT"));
});

test("grammars, reasoning and probabilities", async () => {
  const conversation = talk({}, reasons);
  const options = { grammar: { jsonSchema: DIGIT }, reasoning: "on", reasoningTokens: 6, logprobs: 2, maxTokens: 99 };
  const text = await all(conversation.say(PROMPT, options));
  assert.ok(Number.isInteger(JSON.parse(text).n));
  const rows = conversation.logprobs();
  assert.equal(model.detokenize(rows.map((row) => row.token)).trimStart(), text);
  assert.ok(
    rows.every((row) => row.likeliest.length === 2 && row.logprob <= row.likeliest[0].logprob && row.logprob <= 0),
  );
  assert.deepEqual(conversation.logprobs(), []);
  assert.equal(conversation.info.reasoningTokens, 6);
  assert.ok(
    ["yes", "no"].includes(
      await all(conversation.say("So?", { grammar: { choices: ["yes", "no"] }, reasoning: "off" })),
    ),
  );
  assert.equal(conversation.info.end, "grammar");
  assert.match(
    await all(conversation.say("?", { grammar: { gbnf: 'root ::= "a" [bc]' }, reasoning: "off" })),
    /^a[bc]$/,
  );
  JSON.parse(
    await all(
      conversation.say("?", { grammar: { jsonSchema: JSON.stringify(DIGIT), whitespace: true }, reasoning: "off" }),
    ),
  );
  const kinds = [];
  const other = talk({ messages: [{ role: "user", content: PROMPT }] }, reasons);
  for await (const part of other.reply({ reasoning: "on", reasoningTokens: 5, maxTokens: 20 })) kinds.push(part.kind);
  assert.deepEqual([...new Set(kinds)], ["reasoning", "content", "end"]);
});

test("conversations reply at once, with their own texts, and the event loop goes on", async () => {
  const alone = [];
  for (let i = 0; i < 3; i++) alone.push(await all(talk().say(PROMPT.slice(0, 4 + i), { maxTokens: 60 })));
  let ticks = 0;
  const timer = setInterval(() => ticks++, 1);
  const together = alone.map((_, i) => all(talk().say(PROMPT.slice(0, 4 + i), { maxTokens: 60 })));
  assert.deepEqual(await Promise.all(together), alone);
  clearInterval(timer);
  assert.ok(ticks > 0);
  const many = Array.from({ length: 100 }, (_, i) =>
    all(talk().say(PROMPT.slice(0, 4 + (i % 3)), { maxTokens: 60, priority: i % 2 })),
  );
  (await Promise.all(many)).forEach((text, i) => assert.equal(text, alone[i % 3]));
});

test("of replies that are made in common each fails, is aborted and is closed alone", async () => {
  const whole = await all(talk().say(PROMPT, { maxTokens: 100 }));
  const nothing = Array.from({ length: 512 }, (_, token) => [token, -Infinity]);
  const controller = new AbortController();
  const [failed, aborted, closed, left] = [talk(), talk(), talk(), talk()];
  const outcomes = Promise.allSettled([
    all(talk().say(PROMPT, { maxTokens: 100 })),
    all(failed.say(PROMPT, { sampling: { biases: nothing } })),
    (async () => {
      for await (const _ of aborted.say(PROMPT, { signal: controller.signal })) controller.abort();
    })(),
    (async () => {
      for await (const _ of closed.say(PROMPT)) closed.close();
    })(),
    (async () => {
      for await (const text of left.say(PROMPT)) return text;
    })(),
    all(talk().say(PROMPT, { maxTokens: 100 })),
  ]);
  const [first, two, three, four, five, last] = await outcomes;
  assert.deepEqual([first.value, last.value], [whole, whole]);
  assert.ok(two.reason instanceof RealizarError, String(two.reason));
  assert.equal(failed.info.nMessages, 0);
  assert.equal(three.reason.name, "AbortError");
  fails("RZ_ERR_INVALID_ARGUMENT", /the conversation is closed/)(four.reason);
  assert.ok(whole.startsWith(five.value));
  assert.equal(left.info.nMessages, 2);
  for (let ticks = 0; ticks < 20; ticks++) {
    const closed = talk();
    const others = [
      all(talk().say(PROMPT, { maxTokens: 100 })),
      all(closed.say(PROMPT)).catch(() => {}),
      all(talk().say(PROMPT, { maxTokens: 100 })),
    ];
    for (let i = 0; i < ticks; i++) await new Promise(setImmediate);
    closed.close();
    const said = await Promise.all(others);
    assert.deepEqual([said[0], said[2]], [whole, whole]);
  }
});

test("a second call on one object is refused, a loop can be ended from elsewhere", async () => {
  const conversation = talk();
  const loop = conversation.say(PROMPT);
  await loop.next();
  const busy = fails("RZ_ERR_BUSY");
  await assert.rejects(conversation.say("x").next(), busy);
  await assert.rejects(conversation.reply().next(), busy);
  await assert.rejects(conversation.save(), busy);
  for (const call of [() => conversation.add("x"), () => conversation.rewind(0), () => conversation.fork()])
    assert.throws(call, busy);
  const [one, two] = await Promise.allSettled([loop.next(), conversation.reply().next()]);
  assert.equal(one.status, "fulfilled");
  busy(two.reason);
  const pending = loop.next();
  conversation.stop();
  await pending;
  assert.deepEqual(await loop.next(), { value: undefined, done: true });
  assert.equal(conversation.messages(1)[0].finish_reason, "cancelled");
  // One that nobody goes on with.
  const dropped = conversation.say("And?");
  await dropped.next();
  conversation.stop();
  assert.equal(conversation.info.nMessages, 4);
  assert.ok(await all(conversation.say("More", { maxTokens: 5 })));
  assert.equal((await dropped.next()).done, true);
  assert.equal(conversation.info.nMessages, 6);
  const session = new Session(model);
  const text = session.generate(PROMPT);
  await text.next();
  await assert.rejects(session.generate(PROMPT).next(), busy);
  assert.throws(() => session.truncate(0), busy);
  await text.return();
  assert.ok(await all(session.generate(PROMPT, { maxTokens: 5 })));
});

test("what is closed at work ends, and closing is safe at any moment", async () => {
  const conversation = talk();
  const loop = conversation.say(PROMPT);
  await loop.next();
  const pending = loop.next();
  conversation.close();
  await assert.rejects(pending, fails("RZ_ERR_INVALID_ARGUMENT", /the conversation is closed/));
  assert.equal((await loop.next()).done, true);
  const whole = talk();
  for await (const part of whole.reply({ maxTokens: 5 })) if (part.kind === "end") whole.close();
  const session = new Session(model);
  const pieces = session.generate(PROMPT);
  await pieces.next();
  session.close();
  await assert.rejects(pieces.next(), fails("RZ_ERR_INVALID_ARGUMENT", /the session is closed/));
  assert.throws(() => conversation.messages(), fails("RZ_ERR_INVALID_ARGUMENT", /closed/));
  await assert.rejects(conversation.say("x").next(), fails("RZ_ERR_INVALID_ARGUMENT", /closed/));
  const other = await Model.load(chat);
  const survivor = new Conversation(other);
  const said = survivor.say(PROMPT, { maxTokens: 250 });
  await said.next();
  other.close();
  await assert.rejects(all(said), fails("RZ_ERR_INVALID_ARGUMENT", /^the model of the conversation is closed$/));
  const loading = Model.load(chat);
  (await loading)[Symbol.dispose]?.();
});

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

test("forks and saved conversations go on alike", async () => {
  const conversation = talk({ system: "S", variables: { a: 1 } });
  await all(conversation.say(PROMPT, { maxTokens: 9 }));
  const saved = await conversation.save();
  assert.ok(saved instanceof Uint8Array);
  const others = [conversation.fork(), await Conversation.load(model, saved)];
  await all(conversation.say("Go on", { maxTokens: 9 }));
  for (const each of others) {
    assert.equal(each.messages().length, 3);
    await all(each.say("Go on", { maxTokens: 9 }));
    assert.ok(each.info.reusedTokens > 9);
    assert.deepEqual(each.messages(), conversation.messages());
  }
  await assert.rejects(Conversation.load(model, saved.subarray(0, -1)), fails("RZ_ERR_FORMAT", /the file has fewer bytes left/));
  await assert.rejects(
    Conversation.load(
      model,
      saved.map((byte, i) => (i ? byte : byte + 1)),
    ),
    fails("RZ_ERR_FORMAT"),
  );
  await assert.rejects(Conversation.load(model, "x"), fails("RZ_ERR_INVALID_ARGUMENT", /Uint8Array/));
});

test("models come from bytes, and embed", async () => {
  const bytes = fs.readFileSync(STORY);
  const loading = Model.load(bytes);
  bytes.fill(0);
  const story = await loading;
  const [one, two] = await story.embed([PROMPT, "The end."], { pooling: "mean" });
  assert.equal(one.length, story.info.hiddenDim);
  assert.ok(Math.abs(one.reduce((sum, x) => sum + x * x, 0) - 1) < 1e-3);
  assert.deepEqual((await story.embed([story.tokenize("The end.")], { pooling: "mean" }))[0], two);
  const many = await story.embed(Array(40).fill("The end."), { pooling: "mean" });
  assert.ok(many.length === 40 && many.every((vector) => vector.every((x, i) => x === two[i])));
  const [each, other] = await story.embed([PROMPT, "The end."], { pooling: "none", raw: true });
  assert.equal(each.length, story.tokenize(PROMPT).length * one.length);
  assert.equal(other.length, story.tokenize("The end.").length * one.length);
  assert.deepEqual(await story.embed([]), []);
  await assert.rejects(story.embed([PROMPT, 5], { pooling: "mean" }), fails("RZ_ERR_INVALID_ARGUMENT"));
  await assert.rejects(story.embed(PROMPT), fails("RZ_ERR_INVALID_ARGUMENT"));
  const controller = new AbortController();
  const texts = Array(4000).fill(new Uint32Array(500).fill(403));
  const embedding = story.embed(texts, { pooling: "mean", signal: controller.signal });
  setTimeout(() => controller.abort(), 20);
  await assert.rejects(embedding, { name: "AbortError" });
});

test("adapters", async () => {
  const adapter = await model.adapter(ADAPTER);
  const [adapted, half] = [talk({ adapters: [adapter] }), talk({ adapters: [[adapter, 0.5]] })];
  const session = new Session(model, { adapters: [adapter] });
  assert.throws(() => talk({ adapters: [[adapter, "x"]] }), fails("RZ_ERR_INVALID_ARGUMENT", /^the scale of adapters\[0\] is a string; it must be a number$/));
  adapter.close();
  assert.equal((await all(adapted.say(PROMPT, { maxTokens: 30 }))).slice(0, 60), ADAPTED.slice(0, 60));
  assert.equal((await all(session.generate(PROMPT, { maxTokens: 30 }))).slice(0, 60), ADAPTED.slice(0, 60));
  assert.notEqual(await all(half.say(PROMPT, { maxTokens: 80 })), await all(talk().say(PROMPT, { maxTokens: 80 })));
  await assert.rejects(model.adapter(STORY), (error) => error instanceof RealizarError);
});

test("a store shares prefixes, with other processes too", async () => {
  const system = "Be brief. ".repeat(9);
  const said = await all(talk({ system }).say(PROMPT, { maxTokens: 20 }));
  const place = path.join(folder, "store");
  const store = await Store.open(model, { path: place, minTokens: 30 });
  for (const known of [false, true]) {
    const conversation = talk({ system, store });
    assert.equal(await all(conversation.say(PROMPT, { maxTokens: 20 })), said);
    assert.equal(conversation.info.reusedTokens > 30, known);
    conversation.close();
  }
  assert.deepEqual([store.info.nEntries, store.info.hits, store.info.misses], [1, 1, 1]);
  assert.throws(() => talk({ store }, reasons), fails("RZ_ERR_MISMATCH"));
  store.close();
  assert.throws(() => talk({ store }), fails("RZ_ERR_INVALID_ARGUMENT", /closed/));
  // It is written when the last of its users is freed, on another thread.
  const program = `
    const { Conversation, Model, Store } = require(process.argv[1] + "/index.js");
    (async () => {
      const model = await Model.load(process.argv[2], { threads: 1 });
      const store = await Store.open(model, { path: process.argv[3], minTokens: 30 });
      const conversation = new Conversation(model, { system: process.argv[4], cache: { capacity: 256 }, store });
      for await (const text of conversation.say(process.argv[5], { maxTokens: 20 })) process.stdout.write(text);
      console.log("\\n" + conversation.info.reusedTokens);
      conversation.close();
      store.close();
    })();`;
  const run = () => execFileSync(process.execPath, ["-e", program, home, chat, place, system, PROMPT]).toString();
  run();
  const [text, reused] = run().split("\n");
  assert.equal(text, said);
  assert.ok(Number(reused) > 30);
  const again = await Store.open(model, { path: place, minTokens: 30 });
  assert.ok(again.info.nFiles > 0);
  await again.clear();
  assert.equal(again.info.nFiles, 0);
});

test("worker threads load and reply, and end in the midst of it", async () => {
  const code = `
    const { parentPort, workerData } = require("node:worker_threads");
    const { Conversation, Model } = require(workerData.home + "/index.js");
    (async () => {
      const model = await Model.load(workerData.chat, { threads: 1 });
      const conversation = new Conversation(model, { cache: { capacity: 256 } });
      let text = "";
      for await (const piece of conversation.say(workerData.prompt, { maxTokens: 25 })) text += piece;
      parentPort.postMessage(text);
      for (;;) {
        for await (const piece of conversation.reply({ maxTokens: 200 }));
        conversation.rewind(1);
      }
    })();`;
  const start = () => new Worker(code, { eval: true, workerData: { home, chat, prompt: PROMPT } });
  const workers = [start(), start()];
  const said = await Promise.all(
    workers.map((worker) => new Promise((resolve, reject) => worker.on("message", resolve).on("error", reject))),
  );
  assert.equal(said[0].slice(0, 60), EXPECTED.slice(0, 60));
  assert.equal(said[0], said[1]);
  await Promise.all(workers.map((worker) => worker.terminate()));
  for (let i = 0; i < 5; i++) {
    const worker = start();
    await new Promise((resolve) => setTimeout(resolve, 10 * i));
    await worker.terminate();
  }
  assert.ok(await all(talk().say(PROMPT, { maxTokens: 5 })));
});

test("a process that exits waits for no load", () => {
  // A load that goes on to its end leaves a file.
  const packed = path.join(folder, "packed");
  const program = `
    const { Model } = require(process.argv[1] + "/index.js");
    Model.load(process.argv[2], { threads: 1, packedPath: process.argv[3] }).catch(() => {});
    setTimeout(() => process.exit(), 20);`;
  execFileSync(process.execPath, ["-e", program, home, largeModel(), packed]);
  assert.ok(!fs.existsSync(packed));
});

test("what is forgotten is freed, and not while it is at work", async () => {
  const pause = () => new Promise((resolve) => setTimeout(resolve, 5));
  // Loops that nobody goes on with, in the midst of a step.
  for (let i = 0; i < 20; i++) {
    void talk().say(PROMPT, { maxTokens: 100 }).next();
    void new Session(model).generate(PROMPT).next();
    void Model.load(STORY).catch(() => {});
    void talk().save();
    gc();
  }
  for (let i = 0; i < 20; i++) (await pause(), gc());
  assert.ok(await all(talk().say(PROMPT, { maxTokens: 5 })));
});

test("conversations that are dropped leave no memory behind", async () => {
  // Without a call of gc: the collector is told of their memory.
  const open = async (count) => {
    for (let i = 0; i < count; i++) {
      await all(new Conversation(model, { cache: { capacity: 512 } }).say("word ".repeat(20), { maxTokens: 2 }));
    }
    return process.memoryUsage().rss;
  };
  const before = await open(200);
  const grown = (await open(800)) - before;
  assert.ok(grown < 60e6, `${grown / 1e6} MB more`);
});

test("a real model answers, in a slice at a time", { skip: !process.env.MODEL }, async () => {
  const real = await Model.load(process.env.MODEL);
  const session = new Session(real);
  const prompt = real.tokenize("word ".repeat(2000));
  await assert.rejects(all(session.generate(prompt, { signal: AbortSignal.timeout(100) })), { name: "TimeoutError" });
  assert.ok(session.length < prompt.length);
  const conversation = new Conversation(real, { system: "Be brief." });
  const pieces = [];
  for await (const text of conversation.say("What is the capital of France?", { maxTokens: 30, sampling: {} }))
    pieces.push(text);
  assert.ok(pieces.length > 3);
  const question = { role: "user", content: "Name a digit." };
  const digit = new Conversation(real, { messages: [question] }).reply({ grammar: { jsonSchema: DIGIT } });
  assert.ok(Number.isInteger(JSON.parse(await all(digit)).n));
  real.close();
});

test("the program chats and tells what there is", () => {
  const program = path.join(home, "bin", "realizar.js");
  const run = (...words) =>
    execFileSync(process.execPath, [program, ...words], { input: `${PROMPT}\n`, stdio: "pipe" }).toString();
  assert.match(run("chat", chat), /a little girl named Lily/);
  assert.match(run("doctor"), /device 1: /);
  assert.match(run("doctor", chat), /a chat template[^]*tokens a second/);
  assert.throws(
    () => run("chat", "/none.gguf"),
    (error) => error.status === 1 && /RZ_ERR_IO/.test(error.stderr),
  );
  assert.throws(
    () => run(),
    (error) => error.status === 2,
  );
});
