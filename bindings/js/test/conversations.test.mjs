// Conversations: replies, messages, tools, and what is closed or called at once.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import path from "node:path";
import test from "node:test";
import {
  chat, Conversation, fails, home, index, model, Model, RealizarError, reasons, Session, Store, talk,
} from "./fixture.mjs";
import { ADAPTER, DIGIT, EXPECTED, GO, PROMPT, STORY, all, folder } from "./models.mjs";

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
    fails("RZ_ERR_INVALID_ARGUMENT", /content\[0\].media is no/),
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
