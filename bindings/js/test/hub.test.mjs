// Tests of models of the Hub, on the server of tests/hub and the facts of tests/data/hub.json; run by tests/js.sh.
import assert from "node:assert/strict";
import { execFile, execFileSync, spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import https from "node:https";
import { createRequire } from "node:module";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import test from "node:test";
import { promisify } from "node:util";

const require = createRequire(import.meta.url);
const home = process.env.REALIZAR_PACKAGE;
const { Model, RealizarError, fetchModel } = require(path.join(home, "index.js"));
const hub = require(path.join(home, "hub.js"));
const tests = path.join(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), "../../../tests");
const facts = JSON.parse(fs.readFileSync(path.join(tests, "data/hub.json"), "utf8"));

const server = spawn("python3", [path.join(tests, "hub/server.py")], { stdio: ["pipe", "pipe", "inherit"] });
const address = await new Promise((resolve) => server.stdout.once("data", (line) => resolve(String(line).trim())));
test.after(() => server.stdin.end());
hub.settings.pause = 0;
for (const name in process.env) if (/^HF_|^XDG_|_proxy$/i.test(name)) delete process.env[name];

let endpoint;
function use(fault) {
  endpoint = fault === "down" ? "http://127.0.0.1:1" : `${address}/${fault}`;
  process.env.HF_ENDPOINT = endpoint;
}

/** Has an empty cache, and gives its folder. */
async function fresh() {
  process.env.HF_HOME = fs.mkdtempSync(path.join(os.tmpdir(), "hub-"));
  use("ok");
  await requests();
  return path.join(process.env.HF_HOME, "hub");
}

/** Requests since the last call: host, token, range. */
async function requests() {
  const told = await (await fetch(`${address}/log`)).json();
  return told.map(([host, , token, range]) => [host, token, range]);
}

/** Files and links below a folder, without locks, with sizes and targets. */
function tree(top) {
  const found = {};
  const names = fs.existsSync(top) ? fs.readdirSync(top, { recursive: true }) : [];
  for (const name of names) {
    const stat = fs.lstatSync(path.join(top, name));
    if (stat.isDirectory() || name.includes(".locks")) continue;
    found[name] = stat.isSymbolicLink() ? fs.readlinkSync(path.join(top, name)) : stat.size;
  }
  return found;
}

async function fails(model, sentence, cache, code) {
  const wanted = sentence.replaceAll("{endpoint}", endpoint).replaceAll("{cache}", cache);
  const parts = wanted.split("{*}").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  await assert.rejects(fetchModel(model), (error) => {
    assert.match(error.message, new RegExp(`^${parts.join(".+")}$`));
    assert.ok(error instanceof RealizarError && error.status < 0);
    if (code) assert.equal(error.code, code);
    return true;
  });
}

test("names", async () => {
  for (const { model, error } of facts.names) await fails(model, error, "", "RZ_ERR_INVALID_ARGUMENT");
});

test("names of encoders", () => {
  for (const { model, encoder } of facts.encoders) assert.equal(hub.choose(model).encoder, encoder);
  assert.ok(facts.encoders.length >= 5);
});

test("choices", () => {
  for (const { files, quantization, free, chosen, error } of facts.choices) {
    const siblings = Object.entries(files).map(([rfilename, size]) => ({ rfilename, size, blobId: "a".repeat(40) }));
    const model = quantization ? `hf:o/n:${quantization}` : "hf:o/n";
    let found;
    try {
      found = hub.choose(model, JSON.stringify({ sha: "5".repeat(40), siblings }), free).files.map(({ name }) => name);
    } catch (e) {
      found = e.message;
    }
    assert.deepEqual(found, chosen ?? error);
  }
});

async function succeeds({ model, path: end, token, files = [end], tree: all, requests: expected }) {
  let last;
  const found = await fetchModel(model, { progress: (...told) => (last = told) });
  const snapshot = found.slice(0, found.length - end.length).replace(/\/$/, "");
  assert.match(snapshot, /\/models--tests--[a-z]+\/snapshots\/5{40}$/);
  assert.deepEqual(Object.keys(tree(snapshot)).sort(), [...files].sort());
  if (all) assert.deepEqual(tree(path.join(process.env.HF_HOME, "hub")), all);
  const size = files.reduce((sum, file) => sum + fs.statSync(path.join(snapshot, file)).size, 0);
  assert.deepEqual(last, [size, size]);
  const told = await requests();
  if (expected) assert.deepEqual(told, expected);
  for (const [host, sent] of told) assert.equal(sent, host === "hub" && token ? `Bearer ${token}` : null);
  use("down");
  assert.equal(await fetchModel(model), found);
}

test("faults", async () => {
  const cache = await fresh();
  await fetchModel("hf:tests/many:Q8_0");
  const before = tree(cache);
  for (const fault of facts.faults) {
    use(fault.fault);
    await requests();
    process.env.HF_TOKEN = fault.token ?? "";
    process.env.HF_HUB_OFFLINE = fault.offline ? "1" : "";
    if (!fault.error) {
      const { HF_HOME } = process.env;
      await fresh();
      use(fault.fault);
      await succeeds(fault);
      process.env.HF_HOME = HF_HOME;
      continue;
    }
    const { timeout } = hub.settings;
    if (fault.patience) hub.settings.timeout = 1000 * fault.patience;
    await fails(fault.model, fault.error, cache);
    hub.settings.timeout = timeout;
    const after = tree(cache);
    for (const name of Object.keys(after).filter((name) => name.endsWith(".part"))) {
      assert.equal(after[name], fault.kept);
      fs.rmSync(path.join(cache, name));
      delete after[name];
    }
    assert.deepEqual(after, before);
  }
  process.env.HF_HUB_OFFLINE = process.env.HF_TOKEN = "";
  use("down");
  assert.match(await fetchModel("hf:tests/many"), /many-Q8_0\.gguf$/);
});

test("what was kept is gone on with", async () => {
  const cache = await fresh();
  use("gone");
  await assert.rejects(fetchModel("hf:tests/many:Q4_K_M"));
  use("ok");
  await requests();
  await fetchModel("hf:tests/many:Q4_K_M");
  assert.deepEqual((await requests()).at(-1), ["files", null, "bytes=1500-"]);
  assert.deepEqual(
    Object.keys(tree(cache)).filter((name) => name.endsWith(".part")),
    [],
  );
});

test("a folder that cannot be written, and copies where there are no links", async () => {
  await fresh();
  process.env.HF_HOME = path.join(tests, "data/hub.json");
  await fails("hf:tests/many:Q4_K_M", facts.unwritable, path.join(process.env.HF_HOME, "hub"), "RZ_ERR_IO");
  await fresh();
  const { symlink } = hub.settings;
  hub.settings.symlink = async () => {
    throw Object.assign(new Error("not permitted"), { code: "EPERM", syscall: "symlink" });
  };
  const found = await fetchModel("hf:tests/many:Q4_K_M");
  hub.settings.symlink = symlink;
  assert.equal(fs.lstatSync(found).size, 3000);
  use("down");
  assert.equal(await fetchModel("hf:tests/many"), found);
});

test("a signal and progress end a fetch", async () => {
  await fresh();
  const signal = AbortSignal.abort(new Error("enough"));
  await assert.rejects(fetchModel("hf:tests/many:Q4_K_M", { signal }), /enough/);
  const progress = () => {
    throw new Error("failed");
  };
  await assert.rejects(Model.load("hf:tests/many:Q4_K_M", { progress }), /failed/);
});

test("proxies of the environment", async () => {
  await fresh();
  process.env.HF_ENDPOINT = "http://hub.invalid/ok";
  process.env.http_proxy = address;
  const found = await fetchModel("hf:tests/many:Q4_K_M");
  assert.equal(fs.statSync(found).size, 3000);
  delete process.env.http_proxy;
});

const skip = spawnSync("openssl", ["version"]).status !== 0 && "there is no openssl";
test("connections to https go through a tunnel", { skip }, async () => {
  await fresh();
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "hub-"));
  const [key, cert] = ["key", "cert"].map((name) => path.join(folder, name));
  const words = `req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=hub.invalid -keyout ${key} -out ${cert}`;
  execFileSync("openssl", words.split(" "), { stdio: "pipe" });
  const pass = (request, answer) =>
    http.get(address + request.url, { headers: { ...request.headers, host: new URL(address).host } }, (response) => {
      answer.writeHead(response.statusCode, response.headers);
      response.pipe(answer);
    });
  const secured = https.createServer({ key: fs.readFileSync(key), cert: fs.readFileSync(cert) }, pass);
  const asked = [];
  const proxy = http.createServer().on("connect", ({ url, headers }, socket) => {
    asked.push(url);
    if (headers["proxy-authorization"] !== `Basic ${Buffer.from("name:secret").toString("base64")}`) {
      return socket.end("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
    }
    const other = net.connect(secured.address().port, "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      other.pipe(socket).pipe(other);
    });
    for (const end of [other, socket]) end.on("error", () => {});
  });
  for (const server of [secured, proxy]) await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = proxy.address();
  endpoint = process.env.HF_ENDPOINT = "https://hub.invalid/ok";
  process.env.HTTPS_PROXY = `127.0.0.1:${port}`;
  const refused = `{endpoint} cannot be reached (the proxy 127.0.0.1:${port} answers with status 407): {*}`;
  await fails("hf:tests/many:Q8_0", refused, "");
  process.env.HTTPS_PROXY = `http://name:secret@127.0.0.1:${port}`;
  await fails("hf:tests/many:Q8_0", "{endpoint} cannot be reached (self-signed certificate): {*}", "");
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
  assert.equal(fs.statSync(await fetchModel("hf:tests/many:Q8_0")).size, 5000);
  delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
  assert.deepEqual(new Set(asked), new Set(["hub.invalid:443"]));
  const before = asked.length;
  process.env.no_proxy = "other.invalid,.hub.invalid";
  await fails("hf:tests/many:Q6_K", "{endpoint} cannot be reached ({*}): {*}", "");
  assert.equal(asked.length, before);
  for (const server of [secured, proxy]) server.close();
  for (const name of ["HTTPS_PROXY", "no_proxy"]) delete process.env[name];
});

test("two processes fetch once, and a model loads by its name", async () => {
  await fresh();
  const code = `require(process.argv[1]).fetchModel("hf:tests/many:Q4_K_M").then(console.log)`;
  const run = () => promisify(execFile)(process.execPath, ["-e", code, path.join(home, "index.js")]);
  const [one, other] = await Promise.all([run(), run()]);
  assert.equal(one.stdout, other.stdout);
  assert.equal((await requests()).filter(([host]) => host === "files").length, 1);
  const told = [];
  const model = await Model.load("hf:tests/story", { progress: (...bytes) => told.push(bytes.join()) });
  assert.equal(model.info.architecture, "llama");
  assert.ok(told.includes("1054304,1054304"), String(told));
});
