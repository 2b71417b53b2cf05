// Compiled, not run: what index.d.ts has to allow, and what it has to refuse.
import {
  Conversation,
  Encoder,
  Model,
  Prompt,
  RealizarError,
  Session,
  Store,
  devices,
  fetchModel,
  plan,
  type Part,
} from "realizar";

export async function use(signal: AbortSignal): Promise<string> {
  const model = await Model.load("model.gguf", {
    threads: 2,
    signal,
    progress: (done, total) => console.log(done / total),
  });
  await Model.load(new Uint8Array(3), { mixedPrefillTokens: 32, gpuLayers: 0, quantize: "q8_0" });
  await Model.load(await fetchModel("hf:owner/name", { signal, progress: (done, total) => console.log(done / total) }));
  const store = await Store.open(model, { path: "folder" });
  const conversation = new Conversation(model, {
    system: "Be brief.",
    overflow: "forget",
    store,
    cache: { capacity: 512, kType: "q8_0" },
  });
  let said = "";
  for await (const text of conversation.say("Hi", { signal, sampling: { temperature: 0.7, order: ["topP", "temperature"], biases: [[3, -1]] } }))
    said += text.toUpperCase();
  const tools = [{ type: "function", function: { name: "go" } }];
  await conversation.read({ tools, toolChoice: "required", signal });
  conversation.release();
  conversation.setCapacity(256);
  conversation.setOverflow("fail");
  conversation.setAdapters([]);
  conversation.setStore(null);
  const parts: Part[] = [];
  for await (const part of conversation.reply({ grammar: { jsonSchema: { type: "object" } }, draft: model, tools }))
    parts.push(part);
  const kinds: ("content" | "reasoning" | "toolId" | "toolName" | "toolArguments" | "end")[] = parts.map((part) => part.kind);
  const [vector] = await model.embed(["text", model.tokenize("x")], { pooling: "mean" });
  const other = await Conversation.load(model, await conversation.save());
  for await (const text of new Session(other.model).generate("Once", { stops: ["."] })) said += text;
  const encoder = await Encoder.load(model, "mmproj.gguf", { signal });
  const media = await encoder.encode({ data: new Uint8ClampedArray(4), width: 1, height: 1 }, { maxTiles: 1 });
  const heard = await encoder.encodeSound(new Float32Array(16000), { channels: 2, rate: 16000, inSteps: true });
  while (await heard.step(5)) said += encoder.measure(16000).nRows;
  const prompt = new Prompt(model, ["What is it? ", media, heard, [1]]);
  Prompt.ofChat(model, [{ role: "user", content: [{ type: "image", media }] }]);
  for await (const text of new Session(model).generate(prompt)) said += text + media.info.nRows;
  const can: boolean = model.info.capabilities.includes("tools") && !model.closed && model.info.pooling !== "rank";
  const total: number = Number(can) + vector.length + devices().length + (await plan("model.gguf")).totalHost + kinds.length;
  try {
    conversation.rewind(0);
  } catch (error) {
    if (error instanceof RealizarError && error.code === "RZ_ERR_BUSY") conversation.stop();
  }
  // @ts-expect-error
  conversation.say(5);
  // @ts-expect-error
  new Conversation(model, { overflow: "drop" });
  // @ts-expect-error
  conversation.reply({ grammar: { prose: "" } });
  // @ts-expect-error
  conversation.read({ maxTokens: 5 });
  // @ts-expect-error
  await Model.load("model.gguf", { thread: 2 });
  // @ts-expect-error
  await Model.load("model.gguf", { quantize: "q9" });
  // @ts-expect-error
  await Model.load("model.gguf", { mmap: "no" });
  // @ts-expect-error
  conversation.say("Hi", { maxToken: 5 });
  // @ts-expect-error
  conversation.say("Hi", { maxTokens: "5" });
  // @ts-expect-error
  conversation.say("Hi", { sampling: { temprature: 1 } });
  // @ts-expect-error
  conversation.say("Hi", { sampling: { order: ["top"] } });
  // @ts-expect-error
  new Conversation(model, { cache: { kType: "q2_k" } });
  // @ts-expect-error
  await Model.load("model.gguf", { quantize: "q2_k" });
  // @ts-expect-error
  await Model.load(5);
  // @ts-expect-error
  model.closed = true;
  // @ts-expect-error
  model.info.capabilities.includes("fly");
  // @ts-expect-error
  conversation.say("Hi", { draft: "guess" });
  // @ts-expect-error
  conversation.say("Hi", { stops: "five" });
  // @ts-expect-error
  conversation.reply({ grammar: { choices: "no" } });
  // @ts-expect-error
  new Conversation(model, { store: model });
  // @ts-expect-error
  new Conversation(model, { cache: { kType: "q9" } });
  // @ts-expect-error
  new Session(model).generate("Once", { logprobs: 3 });
  // @ts-expect-error
  await model.embed(["a"], { pooling: "men" });
  // @ts-expect-error
  encoder.measure(1, 1, { maxRowz: 1 });
  // @ts-expect-error
  new Model();
  return said + total;
}
