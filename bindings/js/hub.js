// Models of the Hugging Face Hub: "hf:owner/name" and "hf:owner/name:quantization" become a path in the cache that the
// Hub's own client uses. `fetchModel` is the entry.
//
// A model that is complete in the cache needs no connection. Otherwise files are downloaded next to the cache's blobs,
// verified with the Hub's hashes, renamed, and linked into a snapshot once all are complete; refs/main is updated last.
"use strict";

const crypto = require("node:crypto");
const { ftruncateSync, writeSync } = require("node:fs");
const fs = require("node:fs/promises");
const http = require("node:http");
const https = require("node:https");
const os = require("node:os");
const path = require("node:path");
const tls = require("node:tls");
const { native } = require("./lib/errors.js");

/** Attempts without progress, milliseconds before the second attempt (each later pause is twice as long), and the
 * function that creates links; tests change them. */
const settings = { attempts: 5, pause: 1000, timeout: 30_000, symlink: fs.symlink };

/** An error message, which the package converts to its own error. */
class Failure extends Error {}

/** A failed connection, or a response status. */
class Cut extends Error {
  constructor(cause, status = 0) {
    super("", { cause });
    this.status = status;
  }
}

const sizeOf = (n) => (n >= 1e9 ? `${(n / 1e9).toFixed(1)} GB` : `${(n / 1e6).toFixed(1)} MB`);

/** Parses a model's name and, given a listing in JSON, chooses its files. `isCached`: the listing is of files in the
 * cache. */
const choose = (model, listing, free = 0, isCached = false) =>
  JSON.parse(native.hubChoose(model, listing, Math.min(free, Number.MAX_SAFE_INTEGER), { isCached }));

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
      // Limits the time for all headers, which may come byte by byte, and for any pause.
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
        return get(https, from(target, { ...own, agent: undefined, createConnection })); // it accepts no agents
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

  /** Returns the response to a GET, from this byte on, after redirects. Only the Hub's own host gets the token. */
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

  /** The files of the main branch with their sizes and hashes, in JSON. */
  listing() {
    return this.attempts(
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
  }

  /** Retries after connection failures, as long as `progress` advances between attempts. */
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
        ? `${where} rejects the token in HF_TOKEN for ${repository}: create a new one at ${where}/settings/tokens`
        : `${repository} does not exist, or needs a token: check the name, or set HF_TOKEN to one of ${where}/settings/tokens`,
      403: `${repository} is gated: accept its terms at ${where}/${repository}, and set HF_TOKEN`,
      404: `there is no ${repository} at ${where}: check the name`,
      429: `${where} receives too many requests from this address: wait some minutes, or set HF_TOKEN`,
    }[status];
    if (sentence) return new Failure(sentence);
    if (status) return new Failure(`${where} answers with status ${status}: try again later`);
    return new Failure(
      `${where} cannot be reached (${cause.message || cause.code}): check the network and HTTPS_PROXY; ` +
        "the next try resumes the download",
      { cause },
    );
  }

  strange() {
    return new Failure(
      `${this.endpoint} does not answer like the Hugging Face Hub: log in to the network if it requires that, or check HTTPS_PROXY and HF_ENDPOINT`,
    );
  }
}

/** Passes each piece of a response to `take`. Call it as soon as the response arrives: data that is not read is lost
 * with its connection, and only listeners present at that time get its end. */
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

  model(commit, load) {
    return this.path("snapshots", commit, load);
  }

  /** The path of a model that is complete. */
  async find(model, free) {
    const commit = (await fs.readFile(this.path("refs", "main"), "utf8").catch(() => "")).trim();
    if (!commit) return undefined;
    const siblings = [];
    const look = async (below) => {
      const top = this.path("snapshots", commit, below);
      for (const entry of await fs.readdir(top, { withFileTypes: true }).catch(() => [])) {
        const name = path.posix.join(below, entry.name);
        if (entry.isDirectory()) await look(name);
        else {
          const stat = await statOf(this.path("snapshots", commit, name)); // a link may point to nothing
          if (stat) siblings.push({ rfilename: name.toWellFormed?.() ?? name, size: stat.size });
        }
      }
    };
    await look("");
    const { files, load } = choose(model, JSON.stringify({ siblings }), free, true);
    return files.length ? this.model(commit, load) : undefined;
  }

  /** Takes the lock that the Hub's own client takes for a blob, where the file system has locks. */
  async lock(digest, hub) {
    const folder = path.join(this.root, ".locks", this.name);
    await fs.mkdir(folder, { recursive: true });
    const file = await fs.open(path.join(folder, `${digest}.lock`), "a+", 0o664);
    try {
      while (!native.lock(file.fd)) await hub.wait(100);
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
  constructor(hub, cache, { commit, files, size }, progress) {
    Object.assign(this, { hub, cache, commit, files, total: size, progress, done: 0 });
  }

  async run() {
    try {
      await fs.mkdir(this.cache.path("blobs"), { recursive: true });
      let needed = this.total;
      for (const listed of this.files) needed -= await this.kept(listed);
      await this.checkRoom(needed);
      for (const file of this.files) await this.one(file);
      for (const { name, digest } of this.files) await this.cache.link(this.commit, name, digest);
      await fs.mkdir(this.cache.path("refs"), { recursive: true });
      await beside(this.cache.path("refs", "main"), (name) => fs.writeFile(name, this.commit));
    } catch (error) {
      if (error.code === "ENOSPC") await this.checkRoom(Infinity);
      if (!error.syscall) throw error;
      throw new Failure(
        `${this.cache.root} cannot be written (${error.message.split(",")[0]}): set HF_HOME to a folder that can`,
        { cause: error },
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
        "free space, or set HF_HOME to a folder on another disk",
    );
  }

  tell(n) {
    this.done += n;
    this.hub.signal?.throwIfAborted();
    this.progress?.(this.done, this.total);
  }

  /** Brings a file into the cache, unless it is there. */
  async one({ name: file, size, digest }) {
    const blob = this.cache.path("blobs", digest);
    const part = `${blob}.part`;
    const lock = await this.cache.lock(digest, this.hub);
    try {
      if ((await statOf(blob))?.size === size) return this.tell(size);
      const isWhole = await this.receive(file, part, size, digest).catch(async (error) => {
        if (error.code === "ENOSPC" || (await statOf(part))?.size === 0) await fs.rm(part);
        throw error;
      });
      if (!isWhole) {
        await fs.rm(part);
        throw new Failure(
          `${file} has another hash than ${this.hub.endpoint} lists, and was deleted: ` +
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
 * unknown. */
async function fetchModel(model, { free, signal, progress }) {
  const { repository } = choose(model);
  const cache = new Cache(repository);
  const found = await cache.find(model, free);
  if (found) return found;
  if (/^(1|on|yes|true)$/i.test(process.env.HF_HUB_OFFLINE ?? "")) {
    throw new Failure(
      `${model} is not complete in ${cache.root}, and HF_HUB_OFFLINE is set: unset it to fetch the model`,
    );
  }
  const hub = new Hub(repository, signal);
  const listing = await hub.listing();
  let chosen;
  try {
    chosen = choose(model, listing, free);
  } catch (error) {
    throw ["RZ_ERR_FORMAT", "RZ_ERR_LIMIT"].includes(error.code) ? hub.strange() : error;
  }
  await new Fetch(hub, cache, chosen, progress).run();
  return cache.model(chosen.commit, chosen.load);
}

module.exports = { Failure, choose, fetchModel, settings };
