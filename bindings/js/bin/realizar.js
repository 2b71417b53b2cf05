#!/usr/bin/env node
// Chats with a model, or tells what this machine has for one:  realizar chat MODEL [SYSTEM] | realizar doctor [MODEL]
// MODEL is a file, a folder, or hf:owner/name or hf:owner/name:quantization of the Hugging Face Hub.
"use strict";

/** The package, which `main` loads, because a library that does not fit is an error. */
let realizar;

/** The path of a model, with a bar of what is fetched on a terminal. */
async function fetched(name) {
  if (!name.startsWith("hf:")) return name;
  const begin = performance.now();
  let first;
  let shown = 0;
  const progress = (done, total) => {
    const now = performance.now();
    first ??= done;
    if (first === total || !process.stderr.isTTY || (now - shown < 100 && done < total)) return;
    shown = now;
    const bar = "=".repeat(Math.floor((24 * done) / total)).padEnd(24);
    const [of, rate] = [(total / 1e6).toFixed(1), ((done - first) / 1e3 / Math.max(now - begin, 1)).toFixed(1)];
    process.stderr.write(`\r${name}  [${bar}]  ${(done / 1e6).toFixed(1)} of ${of} MB, ${rate} MB/s\x1b[K`);
  };
  try {
    return await realizar.fetchModel(name, { progress });
  } finally {
    if (shown) process.stderr.write("\n");
  }
}

async function chat(name, system) {
  const readline = require("node:readline/promises");
  const model = await realizar.Model.load(await fetched(name));
  const conversation = new realizar.Conversation(model, { system, overflow: "forget" });
  const lines = readline.createInterface({ input: process.stdin, output: process.stdout, prompt: "> " });
  let stop;
  let isOpen = true;
  lines.on("close", () => (isOpen = false));
  // Ctrl-C ends the reply, or the program where there is none.
  lines.on("SIGINT", () => (stop ? stop.abort() : lines.close()));
  lines.prompt();
  for await (const line of lines) {
    stop = new AbortController();
    try {
      for await (const text of conversation.say(line, { signal: stop.signal })) process.stdout.write(text);
    } catch (error) {
      if (!stop.signal.aborted) console.error(`${error.code ?? error.name}: ${error.message}`);
    }
    stop = undefined;
    process.stdout.write("\n");
    if (isOpen) lines.prompt();
  }
}

const gigabytes = (bytes) => (bytes / 1e9).toFixed(1);
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

async function doctor(name) {
  console.log(`realizar ${realizar.version}, Node ${process.version}, ${process.platform} ${process.arch}`);
  for (const device of realizar.devices()) {
    const memory = `${gigabytes(device.memoryFree)} of ${gigabytes(device.memoryTotal)} GB of memory free`;
    const reason = device.unavailable && `unavailable: ${device.unavailable}`;
    const about = [device.name, device.isa, device.memoryTotal && memory, reason].filter(Boolean);
    console.log(`device ${device.index}: ${about.join(", ")}`);
  }
  if (!name) return;
  const file = await fetched(name);
  const plan = await realizar.plan(file);
  console.log(
    `takes ${megabytes(plan.totalHost)} of memory, ${megabytes(plan.totalDevice)} of GPUs, with one conversation`,
  );
  const begin = performance.now();
  const model = await realizar.Model.load(file);
  const { architecture, device, chatTemplate } = model.info;
  const template = chatTemplate ? "a chat template" : "no chat template";
  console.log(
    `loaded in ${(performance.now() - begin).toFixed(0)} ms: ${architecture} on device ${device}, ${template}`,
  );
  const session = new realizar.Session(model);
  let first, last;
  for await (const _ of session.generate("Once upon a time", { maxTokens: 32 })) {
    last = performance.now();
    first ??= { time: last, length: session.length };
  }
  const tokens = session.length - first?.length;
  if (tokens > 0) console.log(`${(tokens / ((last - first.time) / 1000)).toFixed(1)} tokens per second`);
}

async function main([command, ...operands]) {
  realizar = require("../index.js");
  if (command === "chat" && operands.length >= 1) return chat(...operands);
  if (command === "doctor") return doctor(...operands);
  console.error("usage: realizar chat MODEL [SYSTEM]\n       realizar doctor [MODEL]");
  process.exitCode = 2;
}

main(process.argv.slice(2)).catch((error) => {
  console.error(`${error.code ?? error.name}: ${error.message}`);
  process.exitCode = 1;
});
