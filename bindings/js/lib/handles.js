// Objects that own handles of the library, their closing, and the cancellation of calls.
"use strict";

const { invalid, native, wrong } = require("./errors.js");
const { functionOf } = require("./arguments.js");

/** The record of an object: its native handle, its kind, the object that it was made from, and functions that end
 * running calls. */
const records = new WeakMap();

/** Gives an object a native handle. `owner`: the object that it was made from; closing the owner closes both. `bytes`:
 * memory that the handle keeps, for the garbage collector. */
function own(object, kind, handle, owner, bytes = 0) {
  records.set(object, { handle, kind, owner, bytes, isClosed: false, ends: new Set() });
  if (bytes) native.weigh(handle, bytes);
  return object;
}

const bytesOf = (object) => records.get(object).bytes;

/** An object of a class, made without its constructor. */
const made = (type, kind, ...rest) => own(Object.create(type.prototype), kind, ...rest);

const isA = (object, kind) => records.get(object)?.kind === kind;

/** The native handle of an object, which must be of this kind, and open. */
function handleOf(object, kind, name = kind) {
  if (!isA(object, kind)) throw wrong(object, name, `${/^[aeiou]/.test(kind) ? "an" : "a"} ${kind[0].toUpperCase()}${kind.slice(1)}`);
  return nativeOf(object);
}

/** The native handle of an object that is open. */
function nativeOf(object) {
  const record = records.get(object);
  if (!record) throw wrong(object, "this", "an object of realizar");
  const error = closedBy(record);
  if (error) throw error;
  return record.handle;
}

/** The error for an object that is closed, or whose owner is; undefined for an open object. */
function closedBy({ isClosed, kind, owner }) {
  if (isClosed) return invalid(`the ${kind} is closed`, nativeOf);
  const record = owner && records.get(owner);
  return record && closedBy(record) ? invalid(`the ${record.kind} of the ${kind} is closed`, nativeOf) : undefined;
}

/** Calls `end` with an error if the object or one of its owners is closed. Returns a function that revokes this. */
function whileOpen(object, end) {
  const told = () => end(closedBy(records.get(object)));
  const chain = [];
  for (let record = records.get(object); record; record = record.owner && records.get(record.owner)) chain.push(record);
  for (const { ends } of chain) ends.add(told);
  return () => chain.forEach(({ ends }) => ends.delete(told));
}

class Handle {
  /** Frees the object. Running calls that use the object are rejected ("... is closed"). Later calls of the object, and
   * of objects made from it, such as the conversations of a model, fail in the same way. Closing twice is fine. */
  close() {
    const record = records.get(this);
    if (!record || record.isClosed) return;
    record.isClosed = true;
    for (const end of [...record.ends]) end();
    native.close(record.handle);
  }

  /** True after `close` of the object, or of an object that it was made from. */
  get closed() {
    const record = records.get(this);
    return !record || closedBy(record) !== undefined;
  }
}
if (Symbol.dispose) {
  Object.defineProperty(Handle.prototype, Symbol.dispose, {
    value() {
      this.close();
    },
    configurable: true,
    writable: true,
  });
}

// The process waits for its threads at exit, so end all running calls.
process.once("exit", () => native.fireAll());

/** A cancel that fires if the signal does or if the object is closed, and a function that releases the cancel.
 * `closed`: the error for the closed object. */
function newFlag(signal, object) {
  if (signal !== undefined && signal !== null && !(signal instanceof AbortSignal)) throw wrong(signal, "signal", "an AbortSignal");
  signal?.throwIfAborted();
  const cancel = native.cancelNew();
  const fire = () => native.cancelFire(cancel);
  signal?.addEventListener("abort", fire, { once: true });
  const flag = { cancel, closed: undefined, release: undefined };
  const forget = object && whileOpen(object, (error) => {
    flag.closed = error;
    fire();
  });
  flag.release = () => {
    signal?.removeEventListener("abort", fire);
    forget?.();
    native.close(cancel);
  };
  return flag;
}

/** Runs `work` with a cancel that fires if the signal does or if the object is closed. If that ends the work, throws
 * the reason of the signal, or the error for the closed object. */
async function cancellable(signal, object, work) {
  const flag = newFlag(signal, object);
  try {
    return await work(flag.cancel);
  } catch (error) {
    throw error?.code === "RZ_ERR_CANCELLED" && flag.closed ? flag.closed : reasonOf(signal, error);
  } finally {
    flag.release();
  }
}

/** Like `cancellable`, for work that makes an object. Calls `progress` several times per second; an exception in
 * `progress` ends the work. */
async function watched({ signal, progress }, object, work) {
  functionOf(progress, "progress");
  return cancellable(signal, object, async (cancel) => {
    let failed;
    const tell = () => {
      try {
        const [done, total] = native.progress(cancel);
        if (total) progress(done, total);
      } catch (error) {
        failed ??= { error };
        native.cancelFire(cancel);
      }
    };
    const timer = progress && setInterval(tell, 50);
    try {
      const object = await work(cancel);
      if (progress && !failed) tell();
      if (failed) {
        object.close();
        throw failed.error;
      }
      return object;
    } catch (error) {
      throw failed ? failed.error : error;
    } finally {
      clearInterval(timer);
    }
  });
}

function reasonOf(signal, error) {
  return signal?.aborted && error?.code === "RZ_ERR_CANCELLED" ? signal.reason : error;
}

module.exports = { Handle, bytesOf, cancellable, handleOf, isA, made, nativeOf, newFlag, own, reasonOf, watched, whileOpen };
