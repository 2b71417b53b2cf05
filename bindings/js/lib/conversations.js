// Conversations and sessions: loops over what is generated, one at a time for each, together for a model.
"use strict";

const known = require("../options.js");
const { CONVERSATION, GENERATE, READ, REPLY, check, idsOf } = require("./arguments.js");
const { failed, located, native, wrong } = require("./errors.js");
const { Handle, handleOf, isA, made, nativeOf, newFlag, own, reasonOf, whileOpen } = require("./handles.js");
const { adaptersOf, opened } = require("./loading.js");
const { MEDIA_TOKEN, Media } = require("./media.js");
const { grammarOf, membersOf, messagesOf, numbered } = require("./messages.js");

/** Microseconds of a slice of a prompt. Decode steps generate one token each. */
const SLICE = 5_000;

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
    grammar: grammarOf(grammar),
  };
}

/** Lets one loop at a time use an object. */
class Turn {
  #current;

  /** Rejects calls while a loop uses the object. */
  check(what) {
    if (this.#current) throw failed("RZ_ERR_BUSY", `the ${what} is in use by another call`);
  }

  /** Begins the use by a loop, which ends with `leave`. `isIdle`: the body of the loop is running. `cleanUp` gives up
   * an unfinished reply or closes the job. */
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

  /** Ends the loop, if there is one: at once, or after the slice that it waits for. The loop throws `error`, if there
   * is one. */
  end(error) {
    const turn = this.#current;
    if (!turn) return;
    turn.hasEnded = true;
    turn.error = error;
    if (turn.isIdle) turn.leave();
    else native.fire(turn.cancel);
  }
}

/** Makes a call and ignores its failure, because the object may be closed. */
function quietly(call) {
  try {
    call();
  } catch {}
}

/** Steps the replies of one model: one thread makes the requested steps as a batch. */
class Steps {
  #waiting = [];
  #isRunning = false;

  /** Steps a reply. Resolves to {more, parts, error}. */
  step(handle) {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ handle, resolve, reject });
      if (!this.#isRunning) void this.#run();
    });
  }

  async #run() {
    this.#isRunning = true;
    while (this.#waiting.length) {
      // Loops that are ready ask for their next step by then.
      await new Promise(setImmediate);
      // All of them, because a prompt that was paused goes on only with those that took part in it.
      const taken = this.#waiting.splice(0);
      try {
        const made = await native.step(
          taken.map((one) => one.handle),
          SLICE,
        );
        taken.forEach((one, i) => one.resolve(made[i]));
      } catch (error) {
        // Where one is closed the others go on.
        const alone = async ({ handle }) =>
          taken.length === 1 ? Promise.reject(error) : (await native.step([handle], SLICE))[0];
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

  /** `handle`: the native object of a conversation that exists already. */
  constructor(model, given = {}, handle) {
    super();
    const { system, messages, tools, toolChoice, parallelToolCalls, variables, ...options } = check(given, CONVERSATION);
    this.model = model;
    if (handle) return void own(this, "conversation", handle, model);
    const pointer = handleOf(model, "model");
    if (system !== undefined && system !== null && typeof system !== "string") throw wrong(system, "system", "a string");
    const first = typeof system === "string" ? [{ role: "system", content: system }] : [];
    const begun = [...first, ...messagesOf(messages ?? [])];
    const { json, media } = numbered(begun);
    const rest = { messages: media.length ? [] : begun, ...membersOf({ tools, toolChoice, parallelToolCalls, variables }) };
    own(this, "conversation", native.conversation(pointer, { ...opened(model, options), json: numbered(rest).json }), model);
    if (media.length) native.add(nativeOf(this), json, media); // media come with messages that are added
  }

  /** Reads the conversation that `save` has written. */
  static async load(model, bytes, options = {}) {
    const known = check(options, ["cache", "store"]);
    const handle = await native.restoreConversation(handleOf(model, "model"), bytes, opened(model, known));
    return new Conversation(model, {}, handle);
  }

  /** Appends a text of a role, a message, or a list of them, whose content may have parts with media: {type: "image",
   * media}. Computes nothing. */
  add(messages, role = "user") {
    this.#turn.check("conversation");
    if (typeof messages === "string") return native.addText(nativeOf(this), role, messages);
    if (!Array.isArray(messages) && (typeof messages !== "object" || messages === null))
      throw wrong(messages, "messages", "a string, a message or an array of messages");
    const { json, media } = numbered(Array.isArray(messages) ? messagesOf(messages) : messages);
    native.add(nativeOf(this), json, media);
  }

  /** The media of the messages, by the numbers in their parts. */
  get media() {
    return Array.from({ length: this.info.nMedia }, (_, i) => made(Media, "media", native.mediaOf(nativeOf(this), i)));
  }

  /** The messages from number `first` on. An unfinished reply is not among them. */
  messages(first = 0) {
    return JSON.parse(native.messages(nativeOf(this), first));
  }

  /** Removes the messages after the first `count`. */
  rewind(count) {
    this.#turn.check("conversation");
    native.rewind(nativeOf(this), count);
  }

  /** Frees the KV cache and keeps the messages. The next reply computes the KV cache again. */
  release() {
    this.#turn.check("conversation");
    native.release(nativeOf(this));
  }

  /** Sets the context length in tokens; 0: the model's, at most 8192. The next reply computes the KV cache
   * again. */
  setCapacity(tokens) {
    this.#turn.check("conversation");
    native.setCapacity(nativeOf(this), tokens);
  }

  /** Sets what later replies do if messages exceed the context: "fail" or "forget". */
  setOverflow(overflow) {
    this.#turn.check("conversation");
    native.setOverflow(nativeOf(this), overflow);
  }

  /** Sets the LoRA adapters of later replies. The next reply computes the KV cache again. */
  setAdapters(adapters) {
    this.#turn.check("conversation");
    native.setAdapters(nativeOf(this), adaptersOf(adapters));
  }

  /** Sets the store of later replies; null: none. */
  setStore(store) {
    this.#turn.check("conversation");
    native.setStore(nativeOf(this), store === undefined || store === null ? undefined : handleOf(store, "store"));
  }

  /** A second conversation with the same messages, which shares their KV cache (copy-on-write). */
  fork() {
    this.#turn.check("conversation");
    return new Conversation(this.model, {}, native.fork(nativeOf(this)));
  }

  /** A Uint8Array of the conversation and its KV cache. */
  async save() {
    this.#turn.check("conversation");
    return native.save(nativeOf(this));
  }

  get info() {
    return native.info(nativeOf(this));
  }

  /** The tokens of the content since the last call with their log probabilities, of a reply with `logprobs`. */
  logprobs() {
    const { tokens, logprobs } = native.logprobs(nativeOf(this));
    const entries = Array.from(tokens, (token, i) => ({ token, logprob: logprobs[i] }));
    const rows = [];
    for (let at = 0; at < entries.length; at += this.#row) {
      rows.push({ ...entries[at], likeliest: entries.slice(at + 1, at + this.#row) });
    }
    return rows;
  }

  /** Ends the loop over a reply, as if the loop had been left. */
  stop() {
    this.#turn.end();
  }

  /** Replies to the messages, part by part. Leaving the loop early gives the reply up; with `keep` the text so far
   * becomes a message. */
  async *reply(given = {}) {
    const { signal, ...options } = check(given, REPLY);
    const turn = this.#turn.take("conversation", signal, this);
    yield* this.#parts(turn, signal, options);
  }

  /** Reads the messages into the KV cache, so that the next reply begins sooner: a long document, the world of a game.
   * The options are the options of the next reply. Adds no message. */
  async read(given = {}) {
    const { signal, ...options } = check(given, READ);
    const turn = this.#turn.take("conversation", signal, this);
    for await (const part of this.#parts(turn, signal, options, native.read)) void part; // there are none
  }

  async *#parts(turn, signal, options, begin = native.reply) {
    const handle = nativeOf(this);
    try {
      await begin(handle, replyOptions(options), turn.cancel);
      turn.cleanUp = () => quietly(() => native.add(handle, "[]"));
      this.#row = Math.min(options.logprobs ?? 0, this.model.info.vocabSize) + 1;
      while (turn.cleanUp && !turn.hasEnded) {
        const step = await stepsOf(this.model).step(handle);
        if (!step.more) turn.cleanUp = undefined;
        for (const [i, part] of step.parts.entries()) {
          if (turn.hasEnded) break;
          turn.isIdle = true;
          yield part;
          turn.isIdle = false;
          if (!step.more && i + 1 === step.parts.length) turn.error = undefined; // closed behind the last part
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
      native.add(handle, "[]");
      count = this.info.nMessages;
      native.addText(handle, "user", text);
    } catch (error) {
      turn.leave();
      throw error;
    }
    try {
      for await (const part of this.#parts(turn, signal, { keep: true, ...options })) {
        if (part.kind === "content" && part.text) yield part.text;
      }
    } catch (error) {
      if (!signal?.aborted) quietly(() => native.rewind(handle, count));
      throw error;
    }
  }
}

/** The tokens of a text with their KV cache, for texts that are no conversations. */
class Session extends Handle {
  #turn = new Turn();

  constructor(model, options = {}, handle) {
    super();
    const known = check(options, ["cache", "adapters"]);
    this.model = model;
    own(this, "session", handle ?? native.session(handleOf(model, "model"), opened(model, known)), model);
  }

  /** Reads the session that `save` has written. */
  static async load(model, bytes, options = {}) {
    const known = check(options, ["cache"]);
    return new Session(model, {}, await native.restoreSession(handleOf(model, "model"), bytes, opened(model, known)));
  }

  get length() {
    return native.info(nativeOf(this)).len;
  }

  get capacity() {
    return native.info(nativeOf(this)).capacity;
  }

  /** The tokens of the session. */
  get tokens() {
    return native.tokens(nativeOf(this));
  }

  /** Keeps the first `length` tokens and removes the others. */
  truncate(length) {
    this.#turn.check("session");
    native.truncate(nativeOf(this), length);
  }

  fork() {
    this.#turn.check("session");
    return new Session(this.model, {}, native.fork(nativeOf(this)));
  }

  async save() {
    this.#turn.check("session");
    return native.save(nativeOf(this));
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
      let kept = media ? native.matchPrompt(handle, media) : native.match(handle, tokens);
      // The last token of a prompt is always computed, because the answer starts from its logits; rows at its end are
      // as a whole, because they may see each other.
      if (kept === tokens.length) {
        kept = Math.max(kept - 1, 0);
        while (kept && tokens[kept] === MEDIA_TOKEN) kept--;
      }
      native.truncate(handle, kept);
      const job = await native.job(
        handle,
        nativeOf(this.model),
        media ? undefined : tokens.subarray(kept),
        { ...replyOptions(options), prompt: media, promptFirst: media ? kept : 0 },
        turn.cancel,
      );
      turn.cleanUp = () => native.close(job);
      for (let more = true; more && !turn.hasEnded;) {
        const step = await native.jobStep(job, SLICE);
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
