// Models, sessions, embeddings, worker threads, processes and memory.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import test from "node:test";
import { Worker } from "node:worker_threads";
import {
  chat, Conversation, devices, fails, home, index, model, Model, plan, RealizarError, Session, talk, version,
} from "./fixture.mjs";
import { ADAPTED, ADAPTER, DIGIT, EXPECTED, PROMPT, STORY, all, folder, largeModel } from "./models.mjs";

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
  assert.match(run("doctor", chat), /a chat template[^]*tokens per second/);
  assert.throws(
    () => run("chat", "/none.gguf"),
    (error) => error.status === 1 && /RZ_ERR_IO/.test(error.stderr),
  );
  assert.throws(
    () => run(),
    (error) => error.status === 2,
  );
});
