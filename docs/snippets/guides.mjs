// The JavaScript code of docs/guides, a section per guide, as a program that tests/docs.sh runs:
// guides.mjs MODEL ADAPTER FOLDER
import assert from "node:assert";
import fs from "node:fs";
import { Conversation, Encoder, Model, Prompt, RealizarError, Session, Store, devices, fetchModel, plan } from "realizar";

// --8<-- [start:chat]
async function chat(model) {
  const chat = new Conversation(model, { system: "" });
  for await (const text of chat.say("Once upon a time")) process.stdout.write(text);
  chat.close(); // otherwise the garbage collector frees it
}
// --8<-- [end:chat]

// --8<-- [start:options]
async function options(model) {
  const chat = new Conversation(model, { overflow: "forget" });
  const options = { sampling: { temperature: 0.7, topP: 0.9, seed: 42 }, maxTokens: 60, stops: ["\n\n"] };
  for await (const text of chat.say("Once upon a time", options)) process.stdout.write(text);
}
// --8<-- [end:options]

// --8<-- [start:streaming]
async function streaming(model) {
  const chat = new Conversation(model);
  chat.add("Once upon a time");
  for await (const part of chat.reply({ maxTokens: 60 })) {
    if (part.kind === "content") process.stdout.write(part.text);
    if (part.kind === "reasoning") process.stderr.write(part.text);
  }
}
// --8<-- [end:streaming]

// --8<-- [start:stopping]
async function stopping(model) {
  const chat = new Conversation(model);
  chat.add("Once upon a time");
  const signal = AbortSignal.timeout(20); // or the signal of an AbortController
  try {
    for await (const part of chat.reply({ keep: true, signal })) process.stdout.write(part.text);
  } catch (error) {
    if (error !== signal.reason) throw error;
  }
  // The text is kept, and a later reply continues it.
  if (chat.messages().at(-1).finish_reason !== "cancelled") return;
  for await (const part of chat.reply({ keep: true, continue: true })) {
    if (part.kind === "content") break; // leaving the loop ends the reply; so does chat.stop()
  }
}
// --8<-- [end:stopping]

// --8<-- [start:structured]
async function structured(model) {
  const jsonSchema = {
    type: "object",
    properties: { name: { type: "string", maxLength: 20 }, age: { type: "integer", minimum: 0, maximum: 150 } },
    required: ["name", "age"],
    additionalProperties: false,
  };
  const chat = new Conversation(model);
  let json = "";
  for await (const text of chat.say("Lily is five.", { grammar: { jsonSchema } })) json += text;
  return JSON.parse(json);
}
// --8<-- [end:structured]

// --8<-- [start:tools]
const WEATHER = {
  type: "function",
  function: {
    name: "weather",
    description: "The weather of a city",
    parameters: {
      type: "object",
      properties: { city: { enum: ["Paris", "Tokyo"] } },
      required: ["city"],
      additionalProperties: false,
    },
  },
};

async function tools(model) {
  // toolChoice "auto": the model decides.
  const chat = new Conversation(model, { tools: [WEATHER], parallelToolCalls: false, toolChoice: "required" });
  chat.add("Is it warm in Paris?");
  for await (const part of chat.reply({ maxTokens: 100 })) {
    if (part.kind === "toolName" || part.kind === "toolArguments") process.stdout.write(part.text);
  }
  const [call] = chat.messages().at(-1).tool_calls;
  const { city } = JSON.parse(call.function.arguments);
  chat.add({ role: "tool", tool_call_id: call.id, content: `21 C in ${city}` });
  return city; // the next chat.reply() answers with the result
}
// --8<-- [end:tools]

// --8<-- [start:embeddings]
async function embeddings(model) {
  const texts = ["a small girl", "a little girl"];
  const [small, little] = await model.embed(texts, { pooling: "mean" }); // "model": the model's own
  return small.reduce((sum, x, i) => sum + x * little[i], 0); // normalized, so the dot product is the cosine
}
// --8<-- [end:embeddings]

// --8<-- [start:pictures]
async function pictures(model, projector, picture) {
  const encoder = await Encoder.load(model, projector); // "mmproj-....gguf", or the folder of the model
  const media = await encoder.encode(fs.readFileSync(picture)); // or {data, width, height}, such as an ImageData
  const question = [
    { type: "image", media },
    { type: "text", text: "What is this?" },
  ];
  const prompt = Prompt.ofChat(model, [{ role: "user", content: question }]);
  for await (const text of new Session(model).generate(prompt, { maxTokens: 200 })) process.stdout.write(text);
}
// --8<-- [end:pictures]

// --8<-- [start:rerank]
function rerank(reranker, pairs) {
  return reranker.embed(pairs, { pooling: "rank" }); // the scores of each pair
}
// --8<-- [end:rerank]

// --8<-- [start:adapters]
async function adapters(model, path) {
  const chat = new Conversation(model, { adapters: [[await model.adapter(path), 1]] });
  for await (const text of chat.say("Once upon a time")) process.stdout.write(text);
}
// --8<-- [end:adapters]

// --8<-- [start:saving]
async function saving(model) {
  const chat = new Conversation(model);
  for await (const text of chat.say("Once upon a time")) process.stdout.write(text);
  const bytes = await chat.save(); // a Uint8Array, for a file
  return Conversation.load(model, bytes); // continues bit-identically
}
// --8<-- [end:saving]

// --8<-- [start:store]
async function prefixes(model, folder) {
  const store = await Store.open(model, { path: folder, minTokens: 4 }); // without `path`: in memory only
  for (let i = 0; i < 2; i++) {
    const chat = new Conversation(model, { store }); // the second conversation reuses the prompt
    for await (const text of chat.say("Once upon a time there was a long instruction")) process.stdout.write(text);
  }
  return store.info;
}
// --8<-- [end:store]

// --8<-- [start:batches]
async function batches(model) {
  const questions = ["Once upon a time", "The little dog", "One day"];
  // Concurrent replies are batched: each step decodes a token of every reply.
  return Promise.all(
    questions.map(async (question) => {
      let answer = "";
      for await (const text of new Conversation(model).say(question, { maxTokens: 40 })) answer += text;
      return answer;
    }),
  );
}
// --8<-- [end:batches]

// --8<-- [start:hub]
async function fetched(name) {
  // "hf:Qwen/Qwen3-0.6B-GGUF", or with a quantization: "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0".
  // Model.load(name) does it all.
  const progress = (done, total) => process.stderr.write(`\r${Math.floor(done / 1e6)} of ${Math.floor(total / 1e6)} MB`);
  return Model.load(await fetchModel(name, { progress }));
}
// --8<-- [end:hub]

// --8<-- [start:plan]
async function planned(path) {
  // The memory of one model and four conversations of 4,096 tokens each; no weight is read.
  const { weightsHost, cacheHost, totalHost } = await plan(path, { sessions: 4, cache: { capacity: 4096 } });
  const megabytes = (bytes) => `${Math.round(bytes / 2 ** 20)} MB`;
  console.log(`weights ${megabytes(weightsHost)}, each conversation ${megabytes(cacheHost)}, all ${megabytes(totalHost)}`);
}
// --8<-- [end:plan]

// --8<-- [start:memory]
async function memory(path) {
  const model = await Model.load(path, { threads: 2, memoryLimit: 512 * 2 ** 20 }); // beyond the limit: RZ_ERR_LIMIT
  return new Conversation(model, { cache: { capacity: 2048, kType: "q8_0", vType: "q8_0" } });
}
// --8<-- [end:memory]

// --8<-- [start:gpus]
async function gpus(path) {
  for (const { index, name, isa, unavailable } of devices()) console.log(index, name, unavailable || isa);
  const model = await Model.load(path, { device: 0 }); // 0: the library chooses; or an index, or devices: [2, 3]
  console.log("on device", model.info.device, "with", model.info.gpuLayers, "layers on GPUs");
}
// --8<-- [end:gpus]

// --8<-- [start:determinism]
async function said(path, threads) {
  const chat = new Conversation(await Model.load(path, { threads }));
  let answer = "";
  for await (const text of chat.say("Once upon a time")) answer += text;
  return answer;
}

async function theNumberOfThreadsChangesNothing(path) {
  assert.equal(await said(path, 1), await said(path, 3));
}
// --8<-- [end:determinism]

// --8<-- [start:errors]
async function loadOrExplain(path) {
  try {
    return await Model.load(path);
  } catch (error) {
    if (!(error instanceof RealizarError)) throw error;
    const fetch = error.code === "RZ_ERR_IO"; // or RZ_ERR_FORMAT, RZ_ERR_UNSUPPORTED: another file is needed
    console.error(fetch ? "fetch the model first:" : "another file is needed:", error.message);
  }
}
// --8<-- [end:errors]

const [path, adapter, folder] = process.argv.slice(2);
const model = await Model.load(path);
await chat(model);
console.log();
await options(model);
await streaming(model);
await stopping(model);
assert(Number.isInteger((await structured(model)).age));
assert(["Paris", "Tokyo"].includes(await tools(model)));
assert((await embeddings(model)) > 0.5);
await assert.rejects(rerank(model, [[1, 2, 3]]), { code: "RZ_ERR_UNSUPPORTED" });
await assert.rejects(pictures(model, path, path), { code: "RZ_ERR_UNSUPPORTED" });
await adapters(model, adapter);
assert.equal((await saving(model)).messages().length, 2);
assert((await prefixes(model, folder)).hits > 0);
assert((await batches(model)).every((answer) => answer.length > 20));
assert.equal((await fetched("hf:tests/story")).info.architecture, "llama");
await planned(path);
await memory(path);
await gpus(path);
await theNumberOfThreadsChangesNothing(path);
assert.equal(await loadOrExplain("none.gguf"), undefined);
console.log("\nall ran");
