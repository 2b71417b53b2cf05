// Models of the Hugging Face Hub: "hf:owner/name" and "hf:owner/name:quantization" become a path in the cache that the
// Hub's own client uses. `fetchModel` is the entry.
//
// A model that is complete in the cache is used without a connection. Else files are fetched beside the cache's blobs,
// checked by the hashes that the Hub lists, renamed, and linked into a snapshot once all of them are there; refs/main
// names that snapshot last.
"use strict";

const crypto = require("node:crypto");
const { ftruncateSync, writeSync } = require("node:fs");
const fs = require("node:fs/promises");
const http = require("node:http");
const https = require("node:https");
const os = require("node:os");
const path = require("node:path");
const tls = require("node:tls");

/** Attempts without a byte in between, milliseconds ahead of the second one, each later pause being twice as long, and
 * how links are made; tests change them. */
const settings = { attempts: 5, pause: 1000, timeout: 30_000, symlink: fs.symlink };
const NAME = /^hf:([A-Za-z0-9_][A-Za-z0-9._-]*\/[A-Za-z0-9_][A-Za-z0-9._-]*)(?::(.+))?$/;
const PART = /-\d{5}-of-(\d{5})\.(?:gguf|safetensors)$/;
const LABEL =
  /(?<=^|[-._/])(?:UD-)?(?:I?Q[1-8](?:_[A-Z0-9]+)*|TQ[12]_0|MXFP4(?:_MOE)?|NVFP4|BF16|FP?16|FP?32)(?=[-._/]|$)/g;
const FLOATS = ["", "BF16", "F16", "FP16", "F32", "FP32"];
/** Projectors as they are preferred; what is named otherwise comes after them. */
const PROJECTORS = ["F16", "FP16", "BF16", "Q8_0", "F32", "FP32"];
/** Files of a folder beside its weights, with those of sentence-transformers. */
const TEXTS = /^(?:[^/]+\.(?:json|txt|model|jinja)|\d_[A-Za-z]+\/(?:config\.json|model\.safetensors))$/;
const TOKENIZERS = ["tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt"];

/** An error by its sentence, which the package makes one of its own of. */
class Failure extends Error {
  constructor(message, code = "RZ_ERR_IO", cause = undefined) {
    super(message, { cause });
    this.code = code;
  }
}

/** A connection that has failed, or the status of an answer. */
class Cut extends Error {
  constructor(cause, status = 0) {
    super("", { cause });
    this.status = status;
  }
}

const sizeOf = (n) => (n >= 1e9 ? `${(n / 1e9).toFixed(1)} GB` : `${(n / 1e6).toFixed(1)} MB`);
const sum = (files, names) => names.reduce((size, name) => size + files[name], 0);

/** Bytes of memory: weights about as they are in the file, with a cache and scratch memory. */
const needs = (one) => one.size + Math.floor(one.size / 4) + 2 ** 28;

/** Tells whether the encoder of a model is named, not the model; and whether no quantization is. */
const isProjector = (quantization) => quantization.toLowerCase().includes("mmproj");
const isAny = (quantization) => ["", "mmproj"].includes(quantization.toLowerCase());

/** The name of the encoder in the repository of a model, unless it is one already. */
function encoderName(model) {
  const [repository, ...quantization] = model.slice("hf:".length).split(":");
  return isProjector(quantization.join(":")) ? model : `hf:${repository}:mmproj`;
}

/** The models, or projectors, among files with these sizes: those in GGUF files with all their parts, or else the
 * folder, which has both and no base. The first of their files is the one to load. */
function candidates(files, projectors) {
  const sets = new Map();
  for (const file of Object.keys(files).sort()) {
    const name = path.posix.basename(file).toLowerCase();
    if (!name.endsWith(".gguf") || isProjector(name) !== projectors || name.includes("imatrix")) continue;
    const part = PART.exec(file);
    const base = part ? file.slice(0, part.index) : file.slice(0, -5);
    const key = `${base}\n${part?.[1]}`;
    if (!sets.has(key)) sets.set(key, { base, parts: part ? Number(part[1]) : 1, files: [] });
    sets.get(key).files.push(file);
  }
  const found = [];
  for (const { base, parts, files: names } of sets.values()) {
    const label = base.toUpperCase().match(LABEL)?.pop() ?? "";
    // Rows interleaved for one processor, which no program reads any more.
    if (names.length === parts && !/Q4_0_[48]_[48]/.test(label)) {
      found.push({ label, base, files: names, size: sum(files, names) });
    }
  }
  return found.length ? found : folder(files);
}

function folder(files) {
  const names = Object.keys(files).sort();
  let weights = names.filter((name) => /^[^/]+\.safetensors$/.test(name));
  const shards = weights.filter((name) => /^model(-\d{5}-of-\d{5})?\.safetensors$/.test(name));
  if (shards.length) weights = shards;
  const parts = Number(PART.exec(weights[0] ?? "")?.[1] ?? 1);
  if (!("config.json" in files) || !TOKENIZERS.some((name) => name in files) || weights.length < parts) return [];
  // Weights come last: where they are complete, all else is.
  const all = [...names.filter((name) => TEXTS.test(name)), ...weights];
  return [{ label: "", base: "", files: all, size: sum(files, all) }];
}

/** The candidates of a quantization, or of the name of a file. */
function named(found, quantization) {
  const wanted = quantization.toUpperCase();
  const label = wanted.replace(/^MMPROJ-/, "");
  for (const is of [
    (one) => one.label === label,
    (one) => one.label === `UD-${label}`,
    (one) => one.base.toUpperCase() === wanted.replace(/\.GGUF$/, ""),
  ]) {
    const matching = found.filter((one) => one.base && is(one));
    if (matching.length) return matching;
  }
  return [];
}

/** The largest quantised one that fits into so much memory (0: unknown), else the smallest of floats that does, else
 * the smallest. Of projectors the preferred one, of several the first. */
function best(found, projectors, free) {
  const rank = (one) => {
    if (projectors) return [PROJECTORS.includes(one.label) ? PROJECTORS.indexOf(one.label) : PROJECTORS.length, 0];
    if (free && needs(one) > free) return [2, one.size];
    return FLOATS.includes(one.label) ? [1, one.size] : [0, -one.size];
  };
  const before = ([a, b], [c, d]) => a < c || (a === c && b < d);
  return found.reduce((chosen, one) => (before(rank(one), rank(chosen)) ? one : chosen));
}

/** The candidate to fetch, of the files that a repository has. */
function choose(files, repository, quantization = "", free = 0) {
  const projectors = isProjector(quantization);
  const found = candidates(files, projectors);
  if (!found.length && projectors) {
    throw new Failure(
      `${repository} has neither mmproj files nor config.json, tokenizer and safetensors files: it has no encoder`,
    );
  }
  if (!found.length) {
    throw new Failure(
      `${repository} has neither GGUF files nor config.json, tokenizer and safetensors files: take another repository, ` +
        "such as one whose name ends in GGUF",
    );
  }
  if (isAny(quantization)) {
    const one = best(found, projectors, free);
    if (!free || needs(one) <= free || projectors) return one;
    const or = one.label ? `or name its quantization to fetch it all the same, ${one.label}` : "or one in GGUF files";
    throw new Failure(
      `${sizeOf(free)} of memory are free, and the smallest of ${repository} takes ${sizeOf(needs(one))}: ` +
        `take a smaller model, ${or}`,
      "RZ_ERR_OUT_OF_MEMORY",
    );
  }
  const matching = named(found, quantization);
  if (matching.length === 1) return matching[0];
  if (matching.length) {
    const names = matching.map((one) => `${one.base}.gguf`).join(", ");
    throw new Failure(`${repository} has several files of ${quantization}: name one of them in its place, ${names}`);
  }
  const labelOf = ({ label, base }) => (label ? (projectors ? `mmproj-${label}` : label) : base);
  const labels = new Set(found.filter((one) => one.base).map(labelOf));
  const advice = labels.size ? `take one of ${[...labels].sort().join(", ")}` : "it has no GGUF files, so name none";
  throw new Failure(`${repository} has no ${quantization}: ${advice}`);
}

/** The proxy that the environment names for an address. */
function proxyOf({ protocol, hostname, port }) {
  const variable = (name) => process.env[name] || process.env[name.toUpperCase()] || "";
  const isPast = variable("no_proxy")
    .split(/[\s,]+/)
    .filter(Boolean)
    .map((entry) => entry.replace(/^\*?\./, ""))
    .some((entry) => entry === "*" || `.${hostname}`.endsWith(`.${entry}`) || `${hostname}:${port}` === entry);
  const found = isPast ? "" : variable(protocol.replace(":", "_proxy")) || variable("all_proxy");
  return found && new URL(found.includes("://") ? found : `http://${found}`);
}

/** The response to a GET, without redirects. */
function request(address, headers, signal) {
  const target = new URL(address);
  const proxy = proxyOf(target);
  const from = (of, options) => ({
    hostname: of.hostname.replace(/^\[|\]$/g, ""),
    port: of.port || (of.protocol === "https:" ? 443 : 80),
    agent: false,
    signal,
    timeout: settings.timeout,
    ...options,
  });
  const own = { path: target.pathname + target.search, headers };
  const modules = { "http:": http, "https:": https };
  return new Promise((resolve, reject) => {
    const late = () => new Error("no answer came in time");
    const watch = (sent) => {
      // The headers as a whole, which may come a byte at a time, and any silence.
      const timer = setTimeout(() => sent.destroy(late()), settings.timeout);
      sent.on("timeout", () => sent.destroy(late())).on("error", reject);
      for (const event of ["response", "connect", "close"]) sent.on(event, () => clearTimeout(timer));
      return sent.end();
    };
    const get = (module, options) => watch(module.request(options)).on("response", resolve);
    if (!proxy) return get(modules[target.protocol], from(target, own));
    const secret = Buffer.from(decodeURIComponent(`${proxy.username}:${proxy.password}`)).toString("base64");
    const login = proxy.username && { "Proxy-Authorization": `Basic ${secret}` };
    if (target.protocol === "http:") {
      const all = { Host: target.host, ...headers, ...login };
      return get(modules[proxy.protocol], from(proxy, { path: address, headers: all }));
    }
    const host = `${target.hostname}:${target.port || 443}`;
    const tunnel = from(proxy, { method: "CONNECT", path: host, headers: { Host: host, ...login } });
    watch(modules[proxy.protocol].request(tunnel)).on("connect", ({ statusCode }, socket) => {
      if (statusCode === 200) {
        const createConnection = () => tls.connect({ socket, servername: target.hostname });
        return get(https, from(target, { ...own, agent: undefined, createConnection })); // of agents it takes none
      }
      socket.destroy();
      reject(new Error(`the proxy ${proxy.host} answers with status ${statusCode}`));
    });
  });
}

/** The server, as the environment names it. */
class Hub {
  constructor(repository, signal) {
    this.repository = repository;
    this.signal = signal;
    this.endpoint = (process.env.HF_ENDPOINT || "https://huggingface.co").replace(/\/+$/, "");
    this.token = (process.env.HF_TOKEN ?? "").trim();
  }

  /** The response to a GET, from this byte on, behind redirects. The token goes to the Hub's own host alone. */
  async get(address, start = 0) {
    for (let n = 0; n < 10; n++) {
      if (!/^https?:\/\//.test(address) || !URL.canParse(address)) break;
      const headers = { "Accept-Encoding": "identity", "User-Agent": "realizar" };
      if (start) headers.Range = `bytes=${start}-`;
      if (this.token && new URL(address).origin === new URL(this.endpoint).origin) {
        headers.Authorization = `Bearer ${this.token}`;
      }
      let response;
      try {
        response = await request(address, headers, this.signal);
      } catch (error) {
        throw new Cut(error);
      }
      if (response.statusCode === 200 || response.statusCode === 206) return response;
      response.destroy();
      const { location } = response.headers;
      if (!location || Math.floor(response.statusCode / 100) !== 3) throw new Cut(undefined, response.statusCode);
      address = new URL(location, address).href;
    }
    throw this.strange();
  }

  /** The commit of the main branch, and the size and the hash of each of its files. */
  async listing() {
    const body = await this.attempts(
      () => 0,
      async () => {
        const response = await this.get(`${this.endpoint}/api/models/${this.repository}/revision/main?blobs=true`);
        const pieces = [];
        let size = 0;
        const timer = setTimeout(() => response.destroy(new Error("no answer came in time")), settings.timeout);
        try {
          await receive(response, (piece) => {
            pieces.push(piece);
            if ((size += piece.length) > 2 ** 26) throw this.strange();
          });
        } finally {
          clearTimeout(timer);
        }
        return Buffer.concat(pieces).toString();
      },
    );
    try {
      const listed = JSON.parse(body);
      const files = {};
      for (const { rfilename, size: own, blobId, lfs } of listed.siblings) {
        const [size, digest] = lfs ? [lfs.size, lfs.sha256] : [own, blobId];
        const isWhole = size >= 0 && /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(digest);
        if (isWhole && isSafe(rfilename)) files[rfilename] = { size, digest };
      }
      if (/^[0-9a-f]{40}$/.test(listed.sha)) return [listed.sha, files];
    } catch {}
    throw this.strange();
  }

  /** Does something again where a connection fails, while `progress` gets further in between than it was ever. */
  async attempts(progress, work) {
    for (let n = 0, furthest = progress(); ;) {
      try {
        return await work();
      } catch (error) {
        this.signal?.throwIfAborted();
        if (!(error instanceof Cut)) throw error;
        n = progress() <= furthest ? n + 1 : 1;
        furthest = Math.max(furthest, progress());
        const isFinal = error.status >= 400 && error.status < 500 && error.status !== 429;
        if (n >= settings.attempts || isFinal) throw this.refused(error);
      }
      await this.wait(settings.pause * 2 ** (n - 1));
    }
  }

  wait(milliseconds) {
    return new Promise((resolve, reject) => {
      this.signal?.throwIfAborted();
      const end = () => {
        clearTimeout(timer);
        reject(this.signal.reason);
      };
      const timer = setTimeout(() => {
        this.signal?.removeEventListener("abort", end);
        resolve();
      }, milliseconds);
      this.signal?.addEventListener("abort", end, { once: true });
    });
  }

  refused({ status, cause }) {
    const { endpoint: where, repository } = this;
    const sentence = {
      401: this.token
        ? `${where} does not take the token in HF_TOKEN for ${repository}: make a new one at ${where}/settings/tokens`
        : `${repository} does not exist, or needs a token: check the name, or set HF_TOKEN to one of ${where}/settings/tokens`,
      403: `the makers of ${repository} want their terms to be accepted: do so at ${where}/${repository}, and set HF_TOKEN`,
      404: `there is no ${repository} at ${where}: check the name`,
      429: `${where} gets too many requests from here: wait some minutes, or set HF_TOKEN`,
    }[status];
    if (sentence) return new Failure(sentence);
    if (status) return new Failure(`${where} answers with status ${status}: try again later`);
    return new Failure(
      `${where} cannot be reached (${cause.message || cause.code}): check the network and HTTPS_PROXY; ` +
        "what has come is kept for the next try",
      "RZ_ERR_IO",
      cause,
    );
  }

  strange() {
    return new Failure(
      `${this.endpoint} does not answer as the Hub does: log in where the network asks for it, or check HTTPS_PROXY and HF_ENDPOINT`,
    );
  }
}

/** Gives `take` each piece of a response as it comes. A caller comes here as soon as it has the response: what is not
 * taken yet is lost with its connection, whose end is told only to those who listen by then. */
function receive(response, take) {
  return new Promise((resolve, reject) => {
    const end = (error) => {
      response.destroy();
      reject(error);
    };
    response.on("data", (data) => {
      try {
        take(data);
      } catch (error) {
        end(error);
      }
    });
    response.on("end", resolve);
    response.on("error", (error) => end(new Cut(error)));
    response.on("close", () => end(new Cut(new Error("the connection was cut"))));
  });
}

/** Tells whether a name stays below the folder that it is put into. */
const isSafe = (file) =>
  // eslint-disable-next-line no-control-regex
  !/[\\:\x00-\x1f]/.test(file) && file.split("/").every((name) => !["", ".", ".."].includes(name));

const statOf = (file) => fs.stat(file).catch(() => undefined);

/** The folder of a repository in the cache. */
class Cache {
  constructor(repository) {
    const { HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME } = process.env;
    const home = HF_HOME || path.join(XDG_CACHE_HOME || path.join("~", ".cache"), "huggingface");
    this.root = (HF_HUB_CACHE || path.join(home, "hub")).replace(/^~(?=$|[/\\])/, () => os.homedir());
    this.name = `models--${repository.replace("/", "--")}`;
    this.folder = path.join(this.root, this.name);
  }

  path(...names) {
    return path.join(this.folder, ...names);
  }

  model(commit, one) {
    return one.base ? this.path("snapshots", commit, one.files[0]) : this.path("snapshots", commit);
  }

  /** The path of a model that is complete. */
  async find(quantization, free) {
    const commit = (await fs.readFile(this.path("refs", "main"), "utf8").catch(() => "")).trim();
    if (!commit) return undefined;
    const files = {};
    const look = async (below) => {
      const top = this.path("snapshots", commit, below);
      for (const entry of await fs.readdir(top, { withFileTypes: true }).catch(() => [])) {
        const name = path.posix.join(below, entry.name);
        if (entry.isDirectory()) await look(name);
        else {
          const stat = await statOf(this.path("snapshots", commit, name)); // a link may point to nothing
          if (stat) files[name] = stat.size;
        }
      }
    };
    await look("");
    const projectors = isProjector(quantization);
    let found = candidates(files, projectors);
    if (!isAny(quantization)) found = named(found, quantization);
    return found.length ? this.model(commit, best(found, projectors, free)) : undefined;
  }

  /** Takes the lock that the Hub's own client takes for a blob, where the file system has locks. */
  async lock(digest, hub, lock) {
    const folder = path.join(this.root, ".locks", this.name);
    await fs.mkdir(folder, { recursive: true });
    const file = await fs.open(path.join(folder, `${digest}.lock`), "a+", 0o664);
    try {
      while (!lock(file.fd)) await hub.wait(100);
    } catch (error) {
      await file.close();
      throw error;
    }
    return file;
  }

  /** Puts a blob into a snapshot: a relative link, or the file itself where links cannot be made. */
  async link(commit, file, digest) {
    const to = this.path("snapshots", commit, file);
    const blob = this.path("blobs", digest);
    await fs.mkdir(path.dirname(to), { recursive: true });
    if (await statOf(to)) return;
    await fs.rm(to, { force: true });
    try {
      await settings.symlink(path.relative(path.dirname(to), blob), to);
    } catch (error) {
      if (error.code !== "EEXIST") await beside(to, (name) => fs.copyFile(blob, name));
    }
  }
}

/** Makes a file under another name, and renames it. */
async function beside(file, make) {
  const name = `${file}.${process.pid}`;
  try {
    await make(name);
    await fs.rename(name, file);
  } catch (error) {
    await fs.rm(name, { force: true });
    throw error;
  }
}

/** The files of one model on their way into the cache. */
class Fetch {
  constructor(hub, cache, commit, files, { progress, lock }) {
    Object.assign(this, { hub, cache, commit, files, progress, lockFile: lock, done: 0 });
    this.total = Object.values(files).reduce((total, { size }) => total + size, 0);
  }

  async run() {
    try {
      await fs.mkdir(this.cache.path("blobs"), { recursive: true });
      let needed = this.total;
      for (const listed of Object.values(this.files)) needed -= await this.kept(listed);
      await this.checkRoom(needed);
      for (const file in this.files) await this.one(file, this.files[file]);
      for (const file in this.files) await this.cache.link(this.commit, file, this.files[file].digest);
      await fs.mkdir(this.cache.path("refs"), { recursive: true });
      await beside(this.cache.path("refs", "main"), (name) => fs.writeFile(name, this.commit));
    } catch (error) {
      if (error.code === "ENOSPC") await this.checkRoom(Infinity);
      if (!error.syscall) throw error;
      throw new Failure(
        `${this.cache.root} cannot be written (${error.message.split(",")[0]}): set HF_HOME to a folder that can`,
        "RZ_ERR_IO",
        error,
      );
    }
  }

  /** Bytes of a file that are there. */
  async kept({ digest }) {
    const blob = this.cache.path("blobs", digest);
    return ((await statOf(blob)) ?? (await statOf(`${blob}.part`)))?.size ?? 0;
  }

  async checkRoom(needed) {
    const { bavail, bsize } = await fs.statfs(this.cache.root);
    if (needed <= bavail * bsize) return;
    throw new Failure(
      `${this.hub.repository} takes ${sizeOf(this.total)}, and the disk of ${this.cache.root} has ${sizeOf(bavail * bsize)} left: ` +
        "make room, or set HF_HOME to a folder on another disk",
    );
  }

  tell(n) {
    this.done += n;
    this.hub.signal?.throwIfAborted();
    this.progress?.(this.done, this.total);
  }

  /** Brings a file into the cache, unless it is there. */
  async one(file, { size, digest }) {
    const blob = this.cache.path("blobs", digest);
    const part = `${blob}.part`;
    const lock = await this.cache.lock(digest, this.hub, this.lockFile);
    try {
      if ((await statOf(blob))?.size === size) return this.tell(size);
      const isWhole = await this.receive(file, part, size, digest).catch(async (error) => {
        if (error.code === "ENOSPC" || (await statOf(part))?.size === 0) await fs.rm(part);
        throw error;
      });
      if (!isWhole) {
        await fs.rm(part);
        throw new Failure(
          `${file} has arrived with another hash than ${this.hub.endpoint} lists, and is discarded: ` +
            "try again, without a proxy or mirror if that does not help",
        );
      }
      await fs.rename(part, blob);
    } finally {
      await lock.close();
    }
  }

  /** Goes on with a file until it has its size, and tells whether it has the hash too. */
  async receive(file, part, size, digest) {
    const { endpoint, repository } = this.hub;
    const escaped = file.split("/").map(encodeURIComponent).join("/");
    const address = `${endpoint}/${repository}/resolve/${this.commit}/${escaped}`;
    const begin = () =>
      digest.length === 64 ? crypto.createHash("sha256") : crypto.createHash("sha1").update(`blob ${size}\0`);
    let [hash, at] = [begin(), 0];
    const add = (data) => {
      hash.update(data);
      at += data.length;
      this.tell(data.length);
    };
    const out = await fs.open(part, "a+");
    try {
      if ((await out.stat()).size > size) await out.truncate();
      for await (const data of out.createReadStream({ start: 0, autoClose: false })) add(data);
      const work = async () => {
        if (at >= size) return;
        const response = await this.hub.get(address, at);
        if (response.headers["content-type"]?.includes("text/html")) {
          response.destroy();
          throw this.hub.strange();
        }
        if (response.statusCode !== 206) {
          ftruncateSync(out.fd);
          this.tell(-at);
          [hash, at] = [begin(), 0];
        }
        await receive(response, (data) => {
          if (at > size) throw new Cut(new Error("more has come than the file has"));
          for (let from = 0; from < data.length;) from += writeSync(out.fd, data, from);
          add(data);
        });
        if (at < size) throw new Cut(new Error("the connection was cut"));
      };
      await this.hub.attempts(() => at, work);
      await out.sync();
    } finally {
      await out.close();
    }
    return at === size && hash.digest("hex") === digest;
  }
}

/** The path of a model of the Hub, which is fetched where it is not in the cache. `free`: bytes of memory, 0 where
 * unknown. `lock` tries to lock an open file. */
async function fetchModel(model, { free, signal, progress, lock }) {
  const [, repository, quantization = ""] = NAME.exec(model) ?? [];
  if (!repository || repository.includes("..")) {
    throw new Failure(
      `"${model}" names no model of the Hub: write hf:owner/name or hf:owner/name:quantization`,
      "RZ_ERR_INVALID_ARGUMENT",
    );
  }
  const cache = new Cache(repository);
  const found = await cache.find(quantization, free);
  if (found) return found;
  if (/^(1|on|yes|true)$/i.test(process.env.HF_HUB_OFFLINE ?? "")) {
    throw new Failure(
      `${model} is not complete in ${cache.root}, and HF_HUB_OFFLINE is set: unset it to fetch the model`,
    );
  }
  const hub = new Hub(repository, signal);
  const [commit, files] = await hub.listing();
  const sizes = Object.fromEntries(Object.entries(files).map(([file, { size }]) => [file, size]));
  const chosen = choose(sizes, repository, quantization, free);
  const wanted = Object.fromEntries(chosen.files.map((file) => [file, files[file]]));
  await new Fetch(hub, cache, commit, wanted, { progress, lock }).run();
  return cache.model(commit, chosen);
}

module.exports = { Failure, choose, encoderName, fetchModel, settings };
