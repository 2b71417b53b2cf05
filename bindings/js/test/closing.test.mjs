// What is closed: calls that use it end at once, and later ones name it. The event loop, worker threads, signals,
// memory.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import test from "node:test";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import { PROMPT, all, chatModel } from "./models.mjs";

const home = process.env.REALIZAR_PACKAGE;
const index = pathToFileURL(path.join(home, "index.mjs")).href;
const { Conversation, Model, Prompt, RealizarError, Session, Store } = await import(index);
const chat = chatModel();
const load = () => Model.load(chat, { threads: 1 });
const LONG = 30_000;

/** A conversation whose next reply takes seconds to read. */
function longTalk(model) {
  const talk = new Conversation(model, { cache: { capacity: LONG } });
  talk.add("word ".repeat(LONG / 4));
  return talk;
}

const closed = (message) => (error) => {
  assert.ok(error instanceof RealizarError, String(error));
  assert.deepEqual([error.message, error.code], [message, "RZ_ERR_INVALID_ARGUMENT"]);
  return true;
};

/** Closes something while a call is under way, which ends with a message. */
async function closedDuring(call, object, message) {
  const made = call();
  made.catch(() => {});
  await sleep(100);
  const begin = performance.now();
  object.close();
  assert.ok(performance.now() - begin < 500);
  await assert.rejects(made, closed(message));
  assert.ok(performance.now() - begin < 1000, message);
}

test("a call ends when its object is closed, or its model", async () => {
  let model = await load();
  let talk = longTalk(model);
  await closedDuring(() => all(talk.say(PROMPT)), talk, "the conversation is closed");
  const session = new Session(model, { cache: { capacity: LONG } });
  await closedDuring(() => all(session.generate(new Uint32Array(LONG - 10).fill(403))), session, "the session is closed");
  await closedDuring(() => all(longTalk(model).say(PROMPT)), model, "the model of the conversation is closed");
  model = await load();
  const texts = Array(4000).fill(new Uint32Array(500).fill(403));
  await closedDuring(() => model.embed(texts, { pooling: "mean" }), model, "the model is closed");
});

test("the model of what computes is named", async () => {
  const model = await load();
  const talk = new Conversation(model), session = new Session(model), store = await Store.open(model);
  const prompt = new Prompt(model, [[1, 2]]);
  assert.deepEqual([model.closed, talk.closed, session.closed], [false, false, false]);
  model.close();
  assert.deepEqual([model.closed, talk.closed, session.closed, store.closed], [true, true, true, true]);
  for (const [call, message] of [
    [() => talk.info, "the model of the conversation is closed"],
    [() => talk.messages(), "the model of the conversation is closed"],
    [() => talk.add("x"), "the model of the conversation is closed"],
    [() => talk.fork(), "the model of the conversation is closed"],
    [() => talk.save(), "the model of the conversation is closed"],
    [() => all(talk.say("x")), "the model of the conversation is closed"],
    [() => talk.read(), "the model of the conversation is closed"],
    [() => session.tokens, "the model of the session is closed"],
    [() => all(session.generate("x")), "the model of the session is closed"],
    [() => store.clear(), "the model of the store is closed"],
    [() => model.tokenize("x"), "the model is closed"],
    [() => new Conversation(model), "the model is closed"],
    [() => new Session(model), "the model is closed"],
  ])
    await assert.rejects(async () => await call(), closed(message), message);
  assert.equal(prompt.length, 2);
  for (const each of [talk, session, store, prompt, model]) {
    each.close();
    each.close();
  }
});

test("two uses at once are an error, and the first goes on", async () => {
  const model = await load();
  const talk = new Conversation(model);
  const first = all(talk.say(PROMPT, { maxTokens: 20 }));
  for (const call of [() => all(talk.say("x")), () => talk.add("x"), () => talk.fork(), () => talk.save(), () => talk.rewind(0)])
    await assert.rejects(async () => await call(), { code: "RZ_ERR_BUSY", message: "the conversation is in use by another call" });
  assert.ok((await first).length > 0);
  model.close();
});

test("the event loop goes on", async () => {
  const model = await load();
  let longest = 0, last = performance.now();
  const heart = setInterval(() => {
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
  }, 5);
  await assert.rejects(all(longTalk(model).say(PROMPT, { signal: AbortSignal.timeout(1000) })), { name: "TimeoutError" });
  clearInterval(heart);
  assert.ok(longest < 500, `${longest} ms`);
  model.close();
});

test("a signal ends each call with its reason", async () => {
  const model = await load();
  const reason = new Error("enough");
  const fired = AbortSignal.abort(reason);
  const texts = Array(4000).fill(new Uint32Array(500).fill(403));
  const calls = [
    (signal) => Model.load(chat, { signal }),
    (signal) => model.embed(texts, { pooling: "mean", signal }),
    (signal) => all(longTalk(model).say(PROMPT, { signal })),
    (signal) => longTalk(model).read({ signal }),
    (signal) => all(new Session(model, { cache: { capacity: LONG } }).generate(new Uint32Array(LONG - 10).fill(403), { signal })),
  ];
  for (const [i, call] of calls.entries()) {
    await assert.rejects(call(fired), (error) => error === reason, `${i}`);
    if (i === 0) continue;
    const controller = new AbortController();
    setTimeout(() => controller.abort(reason), 50);
    const begin = performance.now();
    await assert.rejects(call(controller.signal), (error) => error === reason, `${i}`);
    assert.ok(performance.now() - begin < 1500, `${i}`);
  }
  model.close();
});

test("worker threads end with replies under way", async () => {
  const program = `
    const { workerData } = require("node:worker_threads");
    const { Conversation, Model } = require(workerData.home + "/index.js");
    Model.load(workerData.chat, { threads: 1 }).then(async (model) => {
      const talk = new Conversation(model);
      require("node:worker_threads").parentPort.postMessage("begun");
      for await (const text of talk.say("x", { maxTokens: 400 }));
    });`;
  for (let i = 0; i < 3; i++) {
    const worker = new Worker(program, { eval: true, workerData: { home, chat } });
    await new Promise((resolve) => worker.once("message", resolve));
    await worker.terminate();
  }
});

test("a process ends in silence with calls under way", () => {
  const program = `
    const { Conversation, Model, Session } = require(process.argv[1] + "/index.js");
    (async () => {
      const model = await Model.load(process.argv[2], { threads: 1 });
      const talk = new Conversation(model, { cache: { capacity: 30000 } });
      talk.add("word ".repeat(7500));
      (async () => { for await (const text of talk.say("x")); })();
      model.embed(Array(4000).fill(new Uint32Array(500).fill(403)), { pooling: "mean" });
      Model.load(process.argv[2]);
      setTimeout(() => process.exit(7), 200);
    })();`;
  const begin = performance.now();
  const { status, stderr } = spawnSync(process.execPath, ["-e", program, home, chat]);
  assert.deepEqual([status, String(stderr)], [7, ""]);
  assert.ok(performance.now() - begin < 5000);
});

test("using and await using close what they hold", (t) => {
  const program = `
    import { Conversation, Model } from ${JSON.stringify(index)};
    let kept;
    {
      await using model = await Model.load(${JSON.stringify(chat)}, { threads: 1 });
      using talk = new Conversation(model);
      kept = [model, talk];
    }
    process.stdout.write(kept.map((each) => each.closed).join());`;
  const file = path.join(path.dirname(chat), "using.mjs");
  fs.writeFileSync(file, program);
  try {
    assert.equal(String(execFileSync(process.execPath, [file], { stdio: "pipe" })), "true,true");
  } catch (error) {
    if (String(error.stderr).includes("SyntaxError")) return t.skip(`${process.version} has no using`);
    throw error;
  }
});

test("memory of many chats is given back", async () => {
  const model = await load();
  const chats = async (n) => {
    for (let i = 0; i < n; i++) {
      const talk = new Conversation(model, { system: "Be brief.", cache: { capacity: 128 } });
      await all(talk.say(PROMPT, { maxTokens: 4 }));
      talk.close();
    }
    globalThis.gc?.();
    return process.memoryUsage().rss;
  };
  await chats(100);
  const begin = await chats(100);
  assert.ok((await chats(200)) - begin < 8 << 20);
  model.close();
});
