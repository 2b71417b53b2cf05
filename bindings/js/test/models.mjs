// Models for the tests: the tiny one, with a chat template, and what it says.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const data = fileURLToPath(new URL("../../../tests/data/", import.meta.url));
export const STORY = path.join(data, "stories260K-f32.gguf");
export const ADAPTER = path.join(data, "story-adapter.gguf");
export const PROMPT = "Once upon a time";
/** The greedy text, and that of weights that have the adapter merged in, of independent float64 implementations. */
export const EXPECTED = ", there was a little girl named Lily. She loved to play outside in the park.";
export const ADAPTED = ", there was a little girl named Lily. She loved to draw animals with her family.";

const CALLS =
  '{% for c in m.tool_calls or [] %}<call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</call>{% endfor %}';
const TOOLS = "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}";
/** Templates: texts alone; and roles, with reasoning. */
export const PLAIN = `{{ bos_token }}{% for m in messages %}{{ m.content or '' }}${CALLS}{% endfor %}${TOOLS}`;
export const REASONS =
  "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}" +
  "{{ m.content or '' }}{% endfor %}{% if add_generation_prompt %}<assistant>{% if enable_thinking %}<think>{% endif %}{% endif %}";

export const folder = fs.mkdtempSync(path.join(os.tmpdir(), "realizar-js-"));
process.on("exit", () => fs.rmSync(folder, { recursive: true, force: true }));

const u64 = (number) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(number));
  return bytes;
};

/** The tiny model with a chat template: a path. */
export function chatModel(template = PLAIN, name = "chat.gguf") {
  const key = Buffer.from("tokenizer.chat_template");
  // A multiple of 32 bytes, so that what is behind keeps its alignment.
  const fill = (32 - ((8 + key.length + 4 + 8 + Buffer.byteLength(template) + 4) % 32)) % 32;
  const text = Buffer.from(`${template}{#${" ".repeat(fill)}#}`);
  const story = fs.readFileSync(STORY);
  const count = story.readBigUInt64LE(16) + 1n;
  const file = path.join(folder, name);
  const entry = [u64(key.length), key, Buffer.from([8, 0, 0, 0]), u64(text.length), text];
  fs.writeFileSync(file, Buffer.concat([story.subarray(0, 16), u64(count), ...entry, story.subarray(24)]));
  return file;
}

/** A model of zeros that takes a while to load, most of it a hole in its file: a path. */
export function largeModel(layers = 6, width = 1024) {
  const text = (string) => Buffer.concat([u64(Buffer.byteLength(string)), Buffer.from(string)]);
  const u32 = (...numbers) => Buffer.from(new Uint32Array(numbers).buffer);
  const numbers = { block_count: layers, context_length: 512, embedding_length: width, feed_forward_length: 4 * width };
  Object.assign(numbers, { "attention.head_count": 16, "attention.head_count_kv": 16, vocab_size: 64 });
  const keys = [Buffer.concat([text("general.architecture"), u32(8), text("llama")])];
  for (const [name, number] of Object.entries(numbers))
    keys.push(Buffer.concat([text(`llama.${name}`), u32(4, number)]));
  const epsilon = Buffer.from(new Float32Array([1e-5]).buffer);
  keys.push(Buffer.concat([text("llama.attention.layer_norm_rms_epsilon"), u32(6), epsilon]));
  const tensors = { "token_embd.weight": [width, 64], "output.weight": [width, 64], "output_norm.weight": [width] };
  const square = ["attn_q", "attn_k", "attn_v", "attn_output"];
  for (let i = 0; i < layers; i++) {
    for (const name of ["attn_norm", "ffn_norm"]) tensors[`blk.${i}.${name}.weight`] = [width];
    for (const name of square) tensors[`blk.${i}.${name}.weight`] = [width, width];
    for (const name of ["ffn_gate", "ffn_up"]) tensors[`blk.${i}.${name}.weight`] = [width, 4 * width];
    tensors[`blk.${i}.ffn_down.weight`] = [4 * width, width];
  }
  const head = [Buffer.from("GGUF"), u32(3), u64(Object.keys(tensors).length), u64(keys.length), ...keys];
  let offset = 0;
  for (const [name, shape] of Object.entries(tensors)) {
    head.push(text(name), u32(shape.length), ...shape.map(u64), u32(0), u64(offset));
    offset += 4 * shape.reduce((product, n) => product * n, 1);
  }
  const bytes = Buffer.concat(head);
  const file = path.join(folder, "large.gguf");
  fs.writeFileSync(file, bytes);
  fs.truncateSync(file, Math.ceil(bytes.length / 32) * 32 + offset);
  return file;
}

export const GO = {
  type: "function",
  function: {
    name: "go",
    parameters: {
      type: "object",
      properties: { by: { enum: ["car", "bus"] } },
      required: ["by"],
      additionalProperties: false,
    },
  },
};
export const DIGIT = {
  type: "object",
  properties: { n: { type: "integer", minimum: 0, maximum: 9 } },
  required: ["n"],
  additionalProperties: false,
};

/** All that a loop gives, as one text. */
export async function all(pieces) {
  let text = "";
  for await (const piece of pieces) text += piece.text ?? piece;
  return text;
}
