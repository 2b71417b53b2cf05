// Reads a model from memory with the library as WebAssembly, and prints the bits of the logits after each token, in
// hexadecimal, and the greedy text behind them:  node logits.mjs realizar.wasm model.gguf "Once upon a time"
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [module, model, prompt] = process.argv.slice(2);
const wasi = new WASI({ version: "preview1" });
const { instance } = await WebAssembly.instantiate(await readFile(module), wasi.getImportObject());
wasi.initialize(instance);
const rz = instance.exports;

// Views of the memory, which moves when it grows.
const view = () => new DataView(rz.memory.buffer);
const bytes = (at, n) => new Uint8Array(rz.memory.buffer, at, n);
const string = (at) => new TextDecoder().decode(bytes(at, rz.memory.buffer.byteLength - at).slice(0, 512)).split("\0")[0];
const place = (data) => {
  const at = rz.malloc(data.length);
  bytes(at, data.length).set(data);
  return at;
};

const error = rz.malloc(512);
const check = (status) => {
  if (status < 0) throw new Error(`${string(rz.rz_status_name(status))}: ${string(error + 8)}`);
  return status;
};

// The layouts of structs, as the library tells them.
const fields = {};
const layout = rz.malloc(76);
for (let i = 0; view().setUint32(layout, 76, true), rz.rz_layout_get(i, layout, error) >= 0; i++) {
  const [offset, size] = [view().getUint32(layout + 4, true), view().getUint32(layout + 8, true)];
  fields[`${string(layout + 12)}.${string(layout + 44)}`] = { offset, size };
}
const struct = (name, values) => {
  const size = fields[`${name}.`].size;
  const at = place(new Uint8Array(size));
  for (const [key, value] of Object.entries({ struct_size: size, ...values })) {
    const field = fields[`${name}.${key}`];
    if (field.size === 8) view().setBigUint64(at + field.offset, BigInt(value), true);
    else view().setUint32(at + field.offset, value, true);
  }
  return at;
};

const out = rz.malloc(8);
const result = () => view().getUint32(out, true);

const file = await readFile(model);
const data = place(file);
check(rz.rz_model_load_from(struct("rz_source", { kind: 1, data, size: file.length }), 1, 0, out, error));
const loaded = result();
rz.free(data);
check(rz.rz_cache_new(loaded, 0, out, error));
const cache = result();
check(rz.rz_textstream_new(loaded, out, error));
const stream = result();

const text = new TextEncoder().encode(prompt);
const tokens = rz.malloc(4 * 64);
check(rz.rz_tokenize_into(loaded, place(text), text.length, 1, tokens, 64, out, 0, error));
const ids = Array.from({ length: result() }, (_, i) => view().getUint32(tokens + 4 * i, true));

const room = 4 * 65536;
const logits = rz.malloc(room);
for (const id of ids) {
  view().setUint32(tokens, id, true);
  check(rz.rz_prefill(cache, tokens, 1, 0, error));
  check(rz.rz_logits_into(cache, logits, room / 4, out, error));
  console.log(Buffer.from(bytes(logits, 4 * result())).toString("hex"));
}

check(rz.rz_sample(cache, 0, out, error));
let answer = "";
const piece = rz.malloc(256);
for (let i = 0; i < 40 && !rz.rz_token_is_end(loaded, result()); i++) {
  const token = result();
  check(rz.rz_textstream_push_into(stream, token, piece, 256, out, error));
  answer += Buffer.from(bytes(piece, result())).toString();
  check(rz.rz_decode_token(cache, token, 0, out, error));
}
console.log(answer);
for (const [free, handle] of [["textstream", stream], ["cache", cache], ["model", loaded]]) rz[`rz_${free}_free`](handle);
