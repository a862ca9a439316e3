// `Event`, `EventTarget`, `AbortSignal` and what belongs to them, made when a script first reads one of them, or is handed a signal.
// What it needs of the built-ins was taken by the prelude before the script ran; nothing else of them is used here.
(function (taken) {
  "use strict";
  const { $Error, $TypeError, $RangeError, apply, defineProperty, hidden, now, log, start, show } = taken;
  class DOMException extends $Error {
    #name;
    #code;
    constructor(message = "", options = undefined) {
      super(message);
      this.#name = typeof options === "string" ? options : options?.name ?? "Error";
      this.#code = { __proto__: null, InvalidCharacterError: 5, AbortError: 20, TimeoutError: 23, DataCloneError: 25 }[this.#name] ?? 0;
      if (options?.cause !== undefined) hidden(this, "cause", options.cause);
    }
    get name() {
      return this.#name;
    }
    get code() {
      return this.#code;
    }
  }
  class Event {
    #stopped = false;
    #prevented = false;
    constructor(type, options = {}) {
      this.type = `${type}`;
      this.bubbles = !!options?.bubbles;
      this.cancelable = !!options?.cancelable;
      this.target = null;
      this.currentTarget = null;
      this.timeStamp = now();
    }
    get defaultPrevented() {
      return this.#prevented;
    }
    preventDefault() {
      if (this.cancelable) this.#prevented = true;
    }
    stopPropagation() {}
    stopImmediatePropagation() {
      this.#stopped = true;
    }
    static stopped(event) {
      return #stopped in event && event.#stopped;
    }
  }
  const stopped = Event.stopped;
  delete Event.stopped;
  class EventTarget {
    #listeners = [];
    addEventListener(type, listener, options) {
      if (listener === null || listener === undefined) return;
      const all = this.#listeners;
      for (let i = 0; i < all.length; i++) if (all[i].type === type && all[i].listener === listener) return;
      if (all.length >= 1000) throw new $RangeError("1000 listeners are there already");
      const entry = { __proto__: null, type, listener, once: typeof options === "object" && !!options?.once };
      const signal = typeof options === "object" ? options?.signal : undefined;
      if (signal?.aborted) return;
      defineProperty(all, all.length, { __proto__: null, value: entry, writable: true, enumerable: true, configurable: true });
      if (signal) signal.addEventListener("abort", () => this.removeEventListener(type, listener), { once: true });
    }
    removeEventListener(type, listener) {
      const left = [];
      const all = this.#listeners;
      for (let i = 0; i < all.length; i++) if (all[i].type !== type || all[i].listener !== listener) left[left.length] = all[i];
      this.#listeners = left;
    }
    dispatchEvent(event) {
      event.target = event.currentTarget = this;
      const own = this[`on${event.type}`];
      if (typeof own === "function") report(() => apply(own, this, [event]));
      const all = this.#listeners;
      for (let i = 0; i < all.length && !stopped(event); i++) {
        const { type, listener, once } = all[i];
        if (type !== event.type) continue;
        if (once) this.removeEventListener(type, listener);
        report(() => (typeof listener === "function" ? apply(listener, this, [event]) : listener.handleEvent(event)));
      }
      return !event.defaultPrevented;
    }
  }
  const report = (run) => {
    try {
      run();
    } catch (error) {
      log(3, `error in a listener: ${show(error)}`);
    }
  };
  const door = {};
  const abortOf = { __proto__: null };
  class AbortSignal extends EventTarget {
    #aborted = false;
    #reason = undefined;
    onabort = null;
    constructor(key) {
      if (key !== door) throw new $TypeError("Illegal constructor");
      super();
    }
    get aborted() {
      return this.#aborted;
    }
    get reason() {
      return this.#reason;
    }
    throwIfAborted() {
      if (this.#aborted) throw this.#reason;
    }
    static {
      abortOf.abort = (signal, reason) => {
        if (signal.#aborted) return;
        signal.#aborted = true;
        signal.#reason = reason === undefined ? new DOMException("This operation was aborted", "AbortError") : reason;
        signal.dispatchEvent(new Event("abort"));
      };
    }
    static abort(reason) {
      const signal = new AbortSignal(door);
      abortOf.abort(signal, reason);
      return signal;
    }
    static timeout(ms) {
      const signal = new AbortSignal(door);
      const late = () => abortOf.abort(signal, new DOMException("The operation was aborted due to timeout", "TimeoutError"));
      start(late, ms, [], false);
      return signal;
    }
    static any(signals) {
      const signal = new AbortSignal(door);
      for (const one of signals) {
        if (one.aborted) {
          abortOf.abort(signal, one.reason);
          break;
        }
        one.addEventListener("abort", () => abortOf.abort(signal, one.reason), { once: true });
      }
      return signal;
    }
  }
  const { abort } = abortOf;
  class AbortController {
    #signal = new AbortSignal(door);
    get signal() {
      return this.#signal;
    }
    abort(reason) {
      abort(this.#signal, reason);
    }
  }
  return {
    __proto__: null,
    classes: { __proto__: null, DOMException, Event, EventTarget, AbortSignal, AbortController },
    signal: () => new AbortSignal(door),
    abort,
  };
});
