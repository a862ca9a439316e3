// `node:events`.
const wrong = (name, value) => {
  const error = new TypeError(`The "${name}" argument must be of type function. Received ${value === null ? "null" : value === undefined ? "undefined" : `type ${typeof value} (${require("inspect").inspect(value)})`}`);
  error.code = "ERR_INVALID_ARG_TYPE";
  return error;
};
const errorMonitor = Symbol("events.errorMonitor"), captureRejectionSymbol = Symbol.for("nodejs.rejection");
const tables = new WeakMap();
const tableOf = (emitter) => {
  if (!tables.has(emitter)) {
    tables.set(emitter, { all: new Map(), most: undefined });
    if (!Object.hasOwn(emitter, "_events")) Object.defineProperty(emitter, "_events", { __proto__: null, value: emitter._events, writable: true, configurable: true });
  }
  return tables.get(emitter);
};
const add = (emitter, name, listener, first, once) => {
  if (typeof listener !== "function") throw wrong("listener", listener);
  const { all } = tableOf(emitter);
  if (all.has("newListener")) emitter.emit("newListener", name, listener);
  const entry = { listener, once, fn: listener };
  if (once) {
    entry.fn = function (...args) {
      if (entry.done) return undefined;
      entry.done = true;
      drop(emitter, name, entry);
      return Reflect.apply(listener, emitter, args);
    };
    entry.fn.listener = listener;
  }
  const list = all.get(name) ?? [];
  // A list is replaced and never changed, so that one that is being told to is not disturbed.
  all.set(name, first ? [entry, ...list] : [...list, entry]);
  return emitter;
};
const drop = (emitter, name, entry) => {
  const { all } = tableOf(emitter);
  const list = all.get(name) ?? [];
  if (!list.includes(entry)) return;
  const left = list.filter((other) => other !== entry);
  if (left.length > 0) all.set(name, left);
  else all.delete(name);
  if (all.has("removeListener")) emitter.emit("removeListener", name, entry.listener);
};

function EventEmitter(options) {
  if (new.target === undefined && !(this instanceof EventEmitter)) return new EventEmitter(options);
  tableOf(this);
}
EventEmitter.prototype._events = undefined;
EventEmitter.prototype._eventsCount = 0;
EventEmitter.prototype._maxListeners = undefined;
const methods = {
  on(name, listener) {
    return add(this, name, listener, false, false);
  },
  prependListener(name, listener) {
    return add(this, name, listener, true, false);
  },
  once(name, listener) {
    return add(this, name, listener, false, true);
  },
  prependOnceListener(name, listener) {
    return add(this, name, listener, true, true);
  },
  off(name, listener) {
    if (typeof listener !== "function") throw wrong("listener", listener);
    const list = tableOf(this).all.get(name) ?? [];
    for (let i = list.length - 1; i >= 0; i--)
      if (list[i].listener === listener || list[i].fn === listener) {
        drop(this, name, list[i]);
        break;
      }
    return this;
  },
  removeAllListeners(name) {
    const { all } = tableOf(this);
    const names = arguments.length === 0 ? [...all.keys()].filter((one) => one !== "removeListener") : [name];
    for (const one of names) {
      if (all.has("removeListener") && one !== "removeListener") for (const entry of [...(all.get(one) ?? [])].reverse()) drop(this, one, entry);
      else all.delete(one);
    }
    if (arguments.length === 0) all.delete("removeListener");
    return this;
  },
  emit(name, ...args) {
    const { all } = tableOf(this);
    if (name === "error" && all.has(errorMonitor)) for (const entry of all.get(errorMonitor)) Reflect.apply(entry.fn, this, args);
    const list = all.get(name);
    if (list === undefined) {
      if (name !== "error") return false;
      if (args[0] instanceof Error) throw args[0];
      const error = new Error(`Unhandled error. (${typeof args[0] === "string" ? `'${args[0]}'` : require("inspect").inspect(args[0])})`);
      error.code = "ERR_UNHANDLED_ERROR";
      error.context = args[0];
      throw error;
    }
    for (const entry of list) Reflect.apply(entry.fn, this, args);
    return true;
  },
  listenerCount(name, listener) {
    const list = tableOf(this).all.get(name) ?? [];
    return listener === undefined ? list.length : list.filter((entry) => entry.listener === listener).length;
  },
  listeners(name) {
    return (tableOf(this).all.get(name) ?? []).map((entry) => entry.listener);
  },
  rawListeners(name) {
    return (tableOf(this).all.get(name) ?? []).map((entry) => entry.fn);
  },
  eventNames() {
    return [...tableOf(this).all.keys()];
  },
  setMaxListeners(most) {
    if (typeof most !== "number" || !(most >= 0)) {
      const error = new RangeError(`The value of "n" is out of range. It must be a non-negative number. Received ${require("inspect").inspect(most)}`);
      error.code = "ERR_OUT_OF_RANGE";
      throw error;
    }
    tableOf(this).most = most;
    return this;
  },
  getMaxListeners() {
    return tableOf(this).most ?? EventEmitter.defaultMaxListeners;
  },
};
methods.addListener = methods.on;
methods.removeListener = methods.off;
for (const name of Object.keys(methods)) EventEmitter.prototype[name] = methods[name];

const stopped = (signal) => {
  const error = new Error("The operation was aborted", { cause: signal.reason });
  error.name = "AbortError";
  error.code = "ABORT_ERR";
  return error;
};
function once(emitter, name, { signal } = {}) {
  return new Promise((ok, no) => {
    if (signal?.aborted) return no(stopped(signal));
    if (typeof emitter.addEventListener === "function" && typeof emitter.on !== "function") return emitter.addEventListener(name, (event) => ok([event]), { once: true });
    const done = (...args) => {
      emitter.removeListener("error", failed);
      ok(args);
    };
    const failed = (error) => {
      emitter.removeListener(name, done);
      no(error);
    };
    emitter.once(name, done);
    if (name !== "error") emitter.once("error", failed);
    signal?.addEventListener("abort", () => {
      emitter.removeListener(name, done);
      emitter.removeListener("error", failed);
      no(stopped(signal));
    }, { once: true });
  });
}
async function* on(emitter, name, { signal } = {}) {
  const waiting = [];
  let wake, failure;
  const tell = (...args) => {
    waiting.push(args);
    wake?.();
  };
  const fail = (error) => {
    failure = { error };
    wake?.();
  };
  const abort = () => fail(stopped(signal));
  if (signal?.aborted) throw stopped(signal);
  emitter.on(name, tell);
  if (name !== "error") emitter.on("error", fail);
  signal?.addEventListener("abort", abort, { once: true });
  try {
    for (;;) {
      while (waiting.length > 0) yield waiting.shift();
      if (failure !== undefined) throw failure.error;
      await new Promise((ok) => (wake = ok));
    }
  } finally {
    emitter.removeListener(name, tell);
    emitter.removeListener("error", fail);
    signal?.removeEventListener("abort", abort);
  }
}
return Object.assign(EventEmitter, {
  EventEmitter, once, on, errorMonitor, captureRejectionSymbol, defaultMaxListeners: 10, captureRejections: false, usingDomains: false,
  listenerCount: (emitter, name) => emitter.listenerCount(name),
  getEventListeners: (emitter, name) => emitter.listeners(name),
  setMaxListeners: (most, ...emitters) => emitters.forEach((emitter) => emitter.setMaxListeners?.(most)),
  getMaxListeners: (emitter) => emitter.getMaxListeners?.() ?? 10,
  EventEmitterAsyncResource: EventEmitter,
  addAbortListener(signal, listener) {
    const aborted = () => listener(new Event("abort"));
    if (signal.aborted) queueMicrotask(aborted);
    else signal.addEventListener("abort", listener, { once: true });
    return { [Symbol.dispose ?? Symbol.for("Symbol.dispose")]: () => signal.removeEventListener("abort", listener) };
  },
});
