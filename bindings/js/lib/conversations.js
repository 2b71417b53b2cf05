// Conversations and sessions: loops over generated text, one at a time per object. Replies of one model are batched.
"use strict";

const known = require("../options.js");
const { CONVERSATION, GENERATE, READ, REPLY, check, idsOf } = require("./arguments.js");
const { failed, located, native, wrong } = require("./errors.js");
const { Handle, bytesOf, handleOf, isA, nativeOf, newFlag, own, reasonOf, whileOpen } = require("./handles.js");
const { adaptersOf, bytesOfCache, opened } = require("./loading.js");
const { MEDIA_TOKEN, mediaOf } = require("./media.js");
const { grammarOf, membersOf, messagesOf, numbered } = require("./messages.js");

/** Microseconds of a slice of a prompt. Decode steps generate one token each. */
const SLICE = 5_000;

/** RZ_DONE, the status of a step after which there is no more work. */
const DONE = 2;

/** Options of a reply or a generation as the addon takes them. */
function replyOptions({ draft, grammar, tools, toolChoice, parallelToolCalls, variables, sampling, ...rest }) {
  const members = membersOf({ tools, toolChoice, parallelToolCalls, variables });
  const isModel = isA(draft, "model");
  return {
    ...rest,
    sampling: sampling === undefined || sampling === null ? undefined : check(sampling, known.sampling, "sampling"),
    draft: isModel ? "model" : draft,
    draftModel: isModel ? nativeOf(draft) : undefined,
    json: Object.values(members).some((value) => value !== undefined) ? numbered(members).json : undefined,
    ...grammarOf(grammar),
  };
}

/** Lets one loop at a time use an object. */
class Turn {
  #current;

  /** Rejects calls while a loop uses the object. */
  check(what) {
    if (this.#current) throw failed("RZ_ERR_BUSY", `the ${what} is in use by another call`);
  }

  /** Reserves the object for a loop until the loop calls `leave`. `isIdle`: true while the body of the loop runs.
   * `cleanUp`: abandons an unfinished reply, or closes the job. */
  take(what, signal, object) {
    nativeOf(object);
    this.check(what);
    const { cancel, release } = newFlag(signal);
    const forget = whileOpen(object, (error) => this.end(error));
    const turn = { cancel, hasEnded: false, isIdle: false, cleanUp: undefined };
    turn.leave = () => {
      if (this.#current !== turn) return;
      this.#current = undefined;
      turn.hasEnded = true;
      turn.cleanUp?.();
      forget();
      release();
    };
    return (this.#current = turn);
  }

  /** Ends the running loop, if any: at once, or after the slice that the loop waits for. The loop then throws `error`,
   * if given. */
  end(error) {
    const turn = this.#current;
    if (!turn) return;
    turn.hasEnded = true;
    turn.error = error;
    if (turn.isIdle) turn.leave();
    else native.cancelFire(turn.cancel);
  }
}

/** Makes a call and ignores its failure, because the object may be closed. */
function quietly(call) {
  try {
    call();
  } catch {}
}

/** The time budget of a step: a slice in prefill; no limit in decode, where a step ends after one token. */
function budgetOf(steppers, info) {
  for (const one of steppers) one.isDecoding ||= info(one.handle).state === "tokens";
  return steppers.some(({ isDecoding }) => isDecoding) ? undefined : SLICE;
}

/** Steps replies as a batch. Resolves to {more, parts, error} for each reply. */
async function stepped(replies) {
  const budget = budgetOf(replies, native.conversationInfo);
  const handles = replies.map(({ handle }) => handle);
  const step = handles.length === 1 ? native.conversationStep(handles[0], budget) : native.conversationsStep(handles, budget);
  const [result] = await Promise.allSettled([step]);
  return Promise.all(handles.map((handle) => outcomeOf(handle, result.reason, handles.length === 1 ? result.value : undefined)));
}

/** The outcome of a step for one reply. `error` is the error of the step, which another reply may have caused; `status`
 * is the status of the step if the batch had only this reply, else undefined. */
async function outcomeOf(handle, error, status) {
  const parts = [];
  let more = true;
  try {
    for (let part; (part = native.conversationNext(handle));)
      parts.push({ kind: part.kind, text: part.out, call: part.index, unparsed: part.flags.includes("unparsed") });
    if (status !== undefined) return { more: status !== DONE, parts };
    const { state, end, stopped } = native.conversationInfo(handle);
    more = state === "prompt" || state === "tokens";
    // If one reply is cancelled, the step ends for all replies of the batch.
    if (error?.code === "RZ_ERR_CANCELLED" || error?.code === "RZ_ERR_DEADLINE") error = undefined;
    if (!error && (end === "failed" || stopped)) await native.conversationStep(handle, 0); // throws the error of this reply again
  } catch (thrown) {
    error = thrown;
  }
  return { more, parts, error };
}

/** Makes a job with a grammar and a sampler of its own. */
async function jobOf(session, model, { grammarKind, whitespace, grammar, sampling, ...options }) {
  const made = [];
  try {
    if (grammarKind) made.push((grammar = await native.grammarNew(model, grammarKind, { whitespace }, grammar)));
    const sampler = sampling && native.samplerNew(sampling);
    if (sampler) made.push(sampler);
    return await native.jobNew(session, { ...options, grammar, sampler });
  } finally {
    made.forEach(native.close); // the job keeps them
  }
}

/** Steps a job. Resolves to {more, text}. If the step fails after it generated text, returns the text; the next step
 * fails again. */
async function jobStepped(job) {
  const [{ value, reason }] = await Promise.allSettled([native.jobStep(job.handle, budgetOf([job], native.jobInfo))]);
  const text = native.jobText(job.handle);
  if (reason && !text) throw reason;
  return { more: value !== DONE, text };
}

/** Steps the replies of one model: one thread makes the requested steps as a batch. */
class Steps {
  #waiting = [];
  #isRunning = false;

  /** Steps a reply, {handle, isDecoding}. Resolves to {more, parts, error}. */
  step(reply) {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ reply, resolve, reject });
      if (!this.#isRunning) void this.#run();
    });
  }

  async #run() {
    this.#isRunning = true;
    while (this.#waiting.length) {
      // By the next turn of the event loop, all loops that are ready have asked for their next step.
      await new Promise(setImmediate);
      // A paused prompt only continues together with the replies that took part in its step, so take all of them.
      const taken = this.#waiting.splice(0);
      try {
        const made = await stepped(taken.map(({ reply }) => reply));
        taken.forEach((one, i) => one.resolve(made[i]));
      } catch (error) {
        // If one reply is closed, the others continue.
        const alone = async ({ reply }) =>
          taken.length === 1 ? Promise.reject(error) : (await stepped([reply]))[0];
        for (const one of taken) await alone(one).then(one.resolve, one.reject);
      }
    }
    this.#isRunning = false;
  }
}

/** The Steps of each model. */
const steps = new WeakMap();

function stepsOf(model) {
  if (!steps.has(model)) steps.set(model, new Steps());
  return steps.get(model);
}

/** Messages with a model, and their KV cache. */
class Conversation extends Handle {
  #turn = new Turn();
  #row = 1;

  /** `handle`: the native handle of an existing conversation; `weight`: bytes of memory that the handle keeps. */
  constructor(model, given = {}, handle, weight) {
    super();
    const { system, messages, tools, toolChoice, parallelToolCalls, variables, ...options } = check(given, CONVERSATION);
    this.model = model;
    const pointer = handleOf(model, "model");
    const bytes = weight ?? bytesOfCache(model, options.cache);
    if (handle) return void own(this, "conversation", handle, model, bytes);
    if (system !== undefined && system !== null && typeof system !== "string") throw wrong(system, "system", "a string");
    const first = typeof system === "string" ? [{ role: "system", content: system }] : [];
    const begun = [...first, ...messagesOf(messages ?? [])];
    const { json, media } = numbered(begun);
    const rest = { messages: media.length ? [] : begun, ...membersOf({ tools, toolChoice, parallelToolCalls, variables }) };
    own(this, "conversation", native.conversationNew(pointer, { ...opened(options), json: numbered(rest).json }), model, bytes);
    if (media.length) native.conversationAdd(nativeOf(this), json, media); // only added messages can have media
  }

  /** Reads the conversation that `save` has written. */
  static async load(model, bytes, options = {}) {
    const known = check(options, ["cache", "store"]);
    const handle = await native.conversationLoad(handleOf(model, "model"), opened(known), bytes);
    return new Conversation(model, known, handle);
  }

  /** Appends a text with a role, a message, or a list of messages. Contents may have parts with media: {type: "image",
   * media}. Computes nothing. */
  add(messages, role = "user") {
    this.#turn.check("conversation");
    if (typeof messages === "string") return native.conversationAddText(nativeOf(this), role, messages);
    if (!Array.isArray(messages) && (typeof messages !== "object" || messages === null))
      throw wrong(messages, "messages", "a string, a message or an array of messages");
    const { json, media } = numbered(Array.isArray(messages) ? messagesOf(messages) : messages);
    native.conversationAdd(nativeOf(this), json, media);
  }

  /** The media of the messages, by the numbers in their parts. */
  get media() {
    return Array.from({ length: this.info.nMedia }, (_, i) => mediaOf(native.conversationMedia(nativeOf(this), i)));
  }

  /** The messages from number `first` on. An unfinished reply is not among them. */
  messages(first = 0) {
    return JSON.parse(native.conversationJson(nativeOf(this), first));
  }

  /** Removes the messages after the first `count`. */
  rewind(count) {
    this.#turn.check("conversation");
    native.conversationRewind(nativeOf(this), count);
  }

  /** Frees the KV cache and keeps the messages. The next reply computes the KV cache again. */
  release() {
    this.#turn.check("conversation");
    native.conversationRelease(nativeOf(this));
  }

  /** Sets the context length in tokens; 0: the model's, at most 8192. The next reply computes the KV cache
   * again. */
  setCapacity(tokens) {
    this.#turn.check("conversation");
    native.conversationCapacitySet(nativeOf(this), tokens);
  }

  /** Sets what later replies do if messages exceed the context: "fail" or "forget". */
  setOverflow(overflow) {
    this.#turn.check("conversation");
    native.conversationOverflowSet(nativeOf(this), overflow);
  }

  /** Sets the LoRA adapters of later replies. The next reply computes the KV cache again. */
  setAdapters(adapters) {
    this.#turn.check("conversation");
    const given = adaptersOf(adapters);
    native.conversationAdaptersSet(nativeOf(this), given.adapters, given.scales);
  }

  /** Sets the store of later replies; null: none. */
  setStore(store) {
    this.#turn.check("conversation");
    native.conversationStoreSet(nativeOf(this), store === undefined || store === null ? undefined : handleOf(store, "store"));
  }

  /** A second conversation with the same messages, which shares their KV cache (copy-on-write). */
  fork() {
    this.#turn.check("conversation");
    return new Conversation(this.model, {}, native.conversationFork(nativeOf(this)), bytesOf(this));
  }

  /** A Uint8Array of the conversation and its KV cache. */
  async save() {
    this.#turn.check("conversation");
    return native.conversationSave(nativeOf(this));
  }

  get info() {
    return native.conversationInfo(nativeOf(this));
  }

  /** The tokens of the content since the last call with their log probabilities, of a reply with `logprobs`. */
  logprobs() {
    const { tokens, logprobs } = native.conversationLogprobs(nativeOf(this));
    const entries = Array.from(tokens, (token, i) => ({ token, logprob: logprobs[i] }));
    const rows = [];
    for (let at = 0; at < entries.length; at += this.#row) {
      rows.push({ ...entries[at], likeliest: entries.slice(at + 1, at + this.#row) });
    }
    return rows;
  }

  /** Ends the loop over a reply, as if the loop were left. */
  stop() {
    this.#turn.end();
  }

  /** Replies to the messages, part by part. Leaving the loop early abandons the reply; with `keep` the text so far
   * becomes a message. */
  async *reply(given = {}) {
    const { signal, ...options } = check(given, REPLY);
    const turn = this.#turn.take("conversation", signal, this);
    yield* this.#parts(turn, signal, options);
  }

  /** Prefills the KV cache with the messages, so that the next reply begins sooner, for example after a long document.
   * The options are the options of the next reply. Adds no message. */
  async read(given = {}) {
    const { signal, ...options } = check(given, READ);
    const turn = this.#turn.take("conversation", signal, this);
    for await (const part of this.#parts(turn, signal, options, native.conversationRead)) void part; // there are none
  }

  async *#parts(turn, signal, options, begin = native.conversationReply) {
    const handle = nativeOf(this), reply = { handle, isDecoding: false };
    try {
      await begin(handle, { ...replyOptions(options), cancel: turn.cancel });
      turn.cleanUp = () => quietly(() => native.conversationAdd(handle, "[]"));
      this.#row = Math.min(options.logprobs ?? 0, this.model.info.vocabSize) + 1;
      while (turn.cleanUp && !turn.hasEnded) {
        const step = await stepsOf(this.model).step(reply);
        if (!step.more) turn.cleanUp = undefined;
        for (const [i, part] of step.parts.entries()) {
          if (turn.hasEnded) break;
          turn.isIdle = true;
          yield part;
          turn.isIdle = false;
          if (!step.more && i + 1 === step.parts.length) turn.error = undefined; // closed after the last part
        }
        if (step.error) throw located(step.error);
        if (step.more) signal?.throwIfAborted();
      }
      if (turn.error) throw turn.error;
    } catch (error) {
      if (turn.error) throw turn.error;
      if (!turn.hasEnded || error?.code !== "RZ_ERR_CANCELLED") throw reasonOf(signal, error);
    } finally {
      turn.leave();
    }
  }

  /** Adds a message of the user and yields the content of the reply. If the loop is left or aborted, the text so far
   * stays as a message; any other failure restores the messages. */
  async *say(text, given = {}) {
    const { signal, ...options } = check(given, REPLY);
    const turn = this.#turn.take("conversation", signal, this);
    const handle = nativeOf(this);
    let count;
    try {
      native.conversationAdd(handle, "[]");
      count = this.info.nMessages;
      native.conversationAddText(handle, "user", text);
    } catch (error) {
      turn.leave();
      throw error;
    }
    try {
      for await (const part of this.#parts(turn, signal, { keep: true, ...options })) {
        if (part.kind === "content" && part.text) yield part.text;
      }
    } catch (error) {
      if (!signal?.aborted) quietly(() => native.conversationRewind(handle, count));
      throw error;
    }
  }
}

/** The native handle of an empty session. */
function newSession(model, options) {
  const { cache, adapters, scales } = opened(options);
  const handle = native.cacheNew(handleOf(model, "model"), cache);
  if (adapters.length) native.cacheAdaptersSet(handle, adapters, scales);
  return handle;
}

/** The tokens and the KV cache of a text that is not a conversation. */
class Session extends Handle {
  #turn = new Turn();

  constructor(model, options = {}, handle, bytes) {
    super();
    const known = check(options, ["cache", "adapters"]);
    this.model = model;
    own(this, "session", handle ?? newSession(model, known), model, bytes ?? bytesOfCache(model, known.cache));
  }

  /** Reads the session that `save` has written. */
  static async load(model, bytes, options = {}) {
    const known = check(options, ["cache"]);
    return new Session(model, known, await native.cacheLoad(handleOf(model, "model"), opened(known).cache, bytes));
  }

  get length() {
    return native.cacheLen(nativeOf(this));
  }

  get capacity() {
    return native.cacheCapacity(nativeOf(this));
  }

  /** The tokens of the session. */
  get tokens() {
    return native.cacheTokens(nativeOf(this));
  }

  /** Keeps the first `length` tokens and removes the others. */
  truncate(length) {
    this.#turn.check("session");
    native.cacheTruncate(nativeOf(this), length);
  }

  fork() {
    this.#turn.check("session");
    return new Session(this.model, {}, native.cacheFork(nativeOf(this)), bytesOf(this));
  }

  async save() {
    this.#turn.check("session");
    return native.cacheSave(nativeOf(this));
  }

  /** Continues a text, tokens or a prompt, piece by piece. Leading tokens that the KV cache holds already are not
   * computed again. */
  async *generate(prompt, given = {}) {
    const { signal, ...options } = check(given, GENERATE);
    const turn = this.#turn.take("session", signal, this);
    const handle = nativeOf(this);
    try {
      const media = isA(prompt, "prompt") ? nativeOf(prompt) : undefined;
      if (typeof prompt === "string") prompt = this.model.tokenize(prompt);
      const tokens = media ? prompt.tokens : idsOf(prompt);
      let kept = media ? native.cacheMatchPrompt(handle, media) : native.cacheMatch(handle, tokens);
      // The last token of a prompt is always computed, because the answer starts from its logits; if it ends with rows
      // of a media item, all of these rows are computed, because they may attend to each other.
      if (kept === tokens.length) {
        kept = Math.max(kept - 1, 0);
        while (kept && tokens[kept] === MEDIA_TOKEN) kept--;
      }
      native.cacheTruncate(handle, kept);
      const given = media ? { prompt: media, promptFirst: kept } : { tokens: tokens.subarray(kept) };
      const job = await jobOf(handle, nativeOf(this.model), { ...replyOptions(options), ...given, cancel: turn.cancel });
      const stepper = { handle: job, isDecoding: false };
      turn.cleanUp = () => native.close(job);
      for (let more = true; more && !turn.hasEnded;) {
        const step = await jobStepped(stepper);
        more = step.more;
        if (step.text && !turn.hasEnded) {
          turn.isIdle = true;
          yield step.text;
          turn.isIdle = false;
        }
        if (more) signal?.throwIfAborted();
      }
      if (turn.error) throw turn.error;
    } catch (error) {
      if (turn.error) throw turn.error;
      if (!turn.hasEnded || error?.code !== "RZ_ERR_CANCELLED") throw reasonOf(signal, error);
    } finally {
      turn.leave();
    }
  }
}

module.exports = { Conversation, Session };
