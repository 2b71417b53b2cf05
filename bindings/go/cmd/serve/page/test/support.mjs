// Support for the tests of the page: models, the server, and a proxy between it and the browser.
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import http from "node:http";
import path from "node:path";

export const folder = process.env.SERVE;
export const data = path.resolve("tests/data");

const calls =
  "{% for c in m.tool_calls or [] %}<call>{{ '{\"name\": \"' ~ c.function.name ~ '\", \"arguments\": ' }}" +
  "{{ c.function.arguments | tojson }}{{ '}' }}</call>{% endfor %}";
/** Writes the texts of the messages one after another. */
export const plainTemplate = `{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}{{ m.content or '' }}${calls}{% endfor %}`;
/** A template with reasoning. */
export const thinkingTemplate =
  "{{ bos_token }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}{% for m in messages %}<{{ m.role }}>" +
  "{% if m.reasoning_content and loop.last %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}" +
  `${calls}{% endfor %}{% if add_generation_prompt %}<assistant>{% if enable_thinking %}<think>{% endif %}{% endif %}`;

/** Writes the tiny model with a chat template, and with a recommended temperature if one is given; returns the file. */
export function model(name, template, temperature) {
  const file = readFileSync(path.join(data, "stories260K-f32.gguf"));
  const u32 = (n) => { const b = Buffer.alloc(4); b.writeUInt32LE(n); return b; };
  const u64 = (n) => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(n)); return b; };
  const text = (t) => Buffer.concat([u64(Buffer.byteLength(t)), Buffer.from(t)]);
  const float = (n) => { const b = Buffer.alloc(4); b.writeFloatLE(n); return b; };
  const advice = temperature === undefined ? [] : [text("general.sampling.temp"), u32(6), float(temperature)];
  // What is put in is a multiple of 32 bytes long, so that everything after it keeps its alignment.
  for (let padded = `${template}{#`; ; padded += " ") {
    const more = Buffer.concat([...advice, text("tokenizer.chat_template"), u32(8), text(`${padded}#}`)]);
    if (more.length % 32) continue;
    const number = Number(file.readBigUInt64LE(16)) + 1 + (advice.length ? 1 : 0);
    const out = path.join(folder, `${name}.gguf`);
    writeFileSync(out, Buffer.concat([file.subarray(0, 16), u64(number), more, file.subarray(24)]));
    return out;
  }
}

/** Starts the server; resolves once its models are loaded. */
export async function serve(...flags) {
  const server = spawn(path.join(folder, "serve"), ["-a", "127.0.0.1:0", "-threads", "1", ...flags], { stdio: ["ignore", "ignore", "pipe"] });
  let log = "";
  const url = await new Promise((resolve, reject) => {
    server.stderr.on("data", (text) => {
      log += text;
      const found = /listening at (http:\S+)/.exec(log);
      if (found) resolve(found[1]);
    });
    server.on("exit", () => reject(new Error(log)));
  });
  while (!(await fetch(`${url}/health`)).ok) await new Promise((wake) => setTimeout(wake, 50));
  return { url, stop: () => server.kill("SIGKILL") };
}

/** Passes requests on. `next` says what happens to the next answers: undefined, or one of
 *  {hold: true}: the answer stops after the first text, until release();
 *  {cut: true}: the connection breaks off there, at release();
 *  {answer: [delta, ...]}: these deltas are the answer. With `holdAt: n` the rest comes after release(); with a list,
 *  after as many calls of it;
 *  {status, message}: an error. */
export async function proxy(target) {
  const state = { target, next: [], bodies: [], held: [], closed: 0 };
  const release = () => state.held.splice(0).forEach((go) => go());
  const held = () => new Promise((go) => state.held.push(go));
  const server = http.createServer(async (request, response) => {
    response.on("close", () => response.writableFinished || state.closed++);
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const isChat = request.url === "/v1/chat/completions";
    const plan = isChat ? state.next.shift() : undefined;
    if (isChat) state.bodies.push(JSON.parse(body));
    if (plan?.status) {
      response.writeHead(plan.status, { "Content-Type": "application/json", ...(plan.wait && { "Retry-After": plan.wait }) });
      response.end(JSON.stringify({ error: { message: plan.message } }));
      return;
    }
    if (plan?.answer) {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      const send = (event) => response.write(`data: ${JSON.stringify(event)}\n\n`);
      for (const [i, delta] of plan.answer.entries()) {
        if ([plan.holdAt].flat().includes(i)) await held();
        const usage = { prompt_tokens: 7, completion_tokens: i + 1 };
        send(delta.error ? delta : { choices: [{ index: 0, delta, finish_reason: null }], usage });
      }
      if (!plan.answer.at(-1)?.error) {
        send({ choices: [{ index: 0, delta: {}, finish_reason: plan.finish ?? "stop" }] });
        send({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 42, prompt_tokens_details: { cached_tokens: 3 } } });
        response.write("data: [DONE]\n\n");
      }
      response.end();
      return;
    }
    const onward = http.request(state.target + request.url, { method: request.method, headers: request.headers }, async (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      response.flushHeaders();
      let begun = false;
      try {
        for await (const chunk of answer) {
          for (const event of plan ? chunk.toString().split(/(?<=\n\n)/) : [chunk]) { // the answers of the tests are ASCII
            response.write(event);
            if (!plan || begun || !/"content":"[^"]/.test(event)) continue;
            begun = true;
            await held();
            if (plan.cut) return void response.destroy();
          }
        }
        response.end();
      } catch {
        response.destroy();
      }
    });
    onward.on("error", () => response.destroy());
    response.on("close", () => onward.destroy());
    onward.end(body);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const url = `http://127.0.0.1:${server.address().port}`;
  return Object.assign(state, { url, release, stop: () => (server.closeAllConnections(), server.close()) });
}
