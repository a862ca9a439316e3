// What every script finds in its globals, and the tables behind it: kept functions, requests, timers, log.
// It runs before the script, takes what it needs of the built-ins into its own closure, and hands the worker
// the functions that drive the script. Nothing here uses a method that a script could have replaced since.
(function (native) {
  "use strict";
  const { parse, stringify } = JSON;
  const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf } = Object;
  const { apply, ownKeys } = Reflect;
  const { isArray } = Array;
  const $Error = Error, $TypeError = TypeError, $RangeError = RangeError, $Promise = Promise, $Function = Function;
  const $String = String, $Number = Number;
  const hidden = (target, name, value) =>
    defineProperty(target, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });

  // A function that formats stacks would be handed the functions on them, ours among them.
  defineProperty($Error, "prepareStackTrace", { __proto__: null, get: () => undefined, set: () => {}, enumerable: false, configurable: false });

  // ---- Kept functions -------------------------------------------------------------------------------------
  const kept = { __proto__: null };
  let nextKept = 1, keptNow = 0;
  const keep = (fn, label) => {
    if (typeof fn !== "function") throw new $TypeError("only a function can be kept");
    if (keptNow >= native.mostFunctions) throw new $RangeError(`${native.mostFunctions} functions are kept already`);
    if (label !== undefined) native.kept(nextKept, $String(label));
    keptNow++;
    kept[nextKept] = fn;
    return nextKept++;
  };
  const release = (id) => {
    if (id in kept) {
      delete kept[id];
      keptNow--;
    }
  };
  const awaited = (result) => {
    if (result === undefined || result === null || (typeof result !== "object" && typeof result !== "function")) return result;
    if (native.isPromise(result)) return result;
    const then = result.then;
    if (typeof then !== "function") return result;
    return new $Promise((ok, no) => apply(then, result, [ok, no]));
  };
  const invoke = (id, ...args) => awaited(apply(kept[id], undefined, args));
  const invokeFunction = (fn, ...args) => awaited(apply(fn, undefined, args));

  // ---- Requests to the host -------------------------------------------------------------------------------
  const requests = { __proto__: null };
  let nextRequest = 1, requestsNow = 0;
  const makeError = (text) => {
    const told = parse(text);
    const error = new $Error(told.message);
    hidden(error, "code", told.code);
    for (let i = 0; i < told.properties.length; i++) hidden(error, told.properties[i][0], told.properties[i][1]);
    return error;
  };
  // `start(id)` begins something that the host ends by settling `id`.
  const later = (start) => {
    if (requestsNow >= native.mostPending) throw new $RangeError(`${native.mostPending} requests are under way already`);
    const id = nextRequest++;
    return new $Promise((ok, no) => {
      requests[id] = { __proto__: null, ok, no };
      requestsNow++;
      try {
        start(id);
      } catch (error) {
        delete requests[id];
        requestsNow--;
        no(error);
      }
    });
  };
  const settle = (id, ok, text) => {
    const request = requests[id];
    if (request === undefined) return;
    delete requests[id];
    requestsNow--;
    if (ok) request.ok(parse(text));
    else request.no(makeError(text));
  };
  const asText = (value) => {
    const text = stringify(value === undefined ? null : value);
    if (text === undefined) throw new $TypeError("only data can be handed to the host");
    return text;
  };
  const call = (name, value) => {
    const answer = native.call(name, asText(value));
    if (answer.failed) throw makeError(answer.text);
    return parse(answer.text);
  };
  const request = (name, value) => {
    const text = asText(value);
    return later((id) => native.request(id, name, text));
  };

  // ---- Timers ---------------------------------------------------------------------------------------------
  const timers = { __proto__: null };
  let nextTimer = 1, timersNow = 0;
  class Timeout {
    #id;
    constructor(id) {
      this.#id = id;
    }
    static idOf(value) {
      return typeof value === "object" && value !== null && #id in value ? value.#id : value;
    }
    ref() {
      return this;
    }
    unref() {
      return this;
    }
    hasRef() {
      return true;
    }
    close() {
      clear(this);
      return this;
    }
    refresh() {
      const timer = timers[this.#id];
      if (timer !== undefined) native.timer(this.#id, timer.delay);
      return this;
    }
    [Symbol.toPrimitive]() {
      return this.#id;
    }
  }
  const idOf = Timeout.idOf;
  delete Timeout.idOf;
  const start = (fn, delay, args, again) => {
    if (typeof fn !== "function") throw new $TypeError("a timer needs a function");
    if (timersNow >= native.mostTimers) throw new $RangeError(`${native.mostTimers} timers are set already`);
    delay = $Number(delay);
    delay = delay >= 1 ? (delay > 2147483647 ? 1 : delay) : 1;
    const id = nextTimer++;
    native.timer(id, delay);
    timers[id] = { __proto__: null, fn, args, delay, again };
    timersNow++;
    return new Timeout(id);
  };
  const clear = (timer) => {
    const id = idOf(timer);
    if ((typeof id === "number" || typeof id === "string") && timers[id] !== undefined) {
      native.clearTimer($Number(id));
      delete timers[id];
      timersNow--;
    }
  };
  const fire = (id) => {
    const timer = timers[id];
    if (timer === undefined) return;
    if (timer.again) native.timer(id, timer.delay);
    else {
      delete timers[id];
      timersNow--;
    }
    apply(timer.fn, undefined, timer.args);
  };
  const settled = $Promise.resolve();
  const then = $Promise.prototype.then;
  hidden(globalThis, "setTimeout", function setTimeout(fn, delay, ...args) {
    return start(fn, delay, args, false);
  });
  hidden(globalThis, "setInterval", function setInterval(fn, delay, ...args) {
    return start(fn, delay, args, true);
  });
  hidden(globalThis, "setImmediate", function setImmediate(fn, ...args) {
    return start(fn, 0, args, false);
  });
  hidden(globalThis, "clearTimeout", function clearTimeout(timer) {
    clear(timer);
  });
  hidden(globalThis, "clearInterval", function clearInterval(timer) {
    clear(timer);
  });
  hidden(globalThis, "clearImmediate", function clearImmediate(timer) {
    clear(timer);
  });
  hidden(globalThis, "queueMicrotask", function queueMicrotask(fn) {
    if (typeof fn !== "function") throw new $TypeError("queueMicrotask needs a function");
    apply(then, settled, [() => void fn()]);
  });

  // ---- Parts that are made when they are first used --------------------------------------------------------
  const taken = {
    __proto__: null, $Error, $TypeError, $RangeError, $String, apply, ownKeys, isArray, defineProperty, getOwnPropertyDescriptor, stringify, hidden, start,
    now: native.now, log: native.log, isProxy: native.isProxy, show: (value) => show(value),
  };
  const parts = { __proto__: null };
  const part = (name) => {
    if (parts[name] === undefined) parts[name] = native.part(name)(taken);
    return parts[name];
  };
  const lazily = (name, read) =>
    defineProperty(globalThis, name, {
      __proto__: null,
      get() {
        const value = read();
        hidden(globalThis, name, value);
        return value;
      },
      set: (value) => void hidden(globalThis, name, value),
      enumerable: false,
      configurable: true,
    });
  lazily("DOMException", () => part("events").classes.DOMException);
  lazily("Event", () => part("events").classes.Event);
  lazily("EventTarget", () => part("events").classes.EventTarget);
  lazily("AbortSignal", () => part("events").classes.AbortSignal);
  lazily("AbortController", () => part("events").classes.AbortController);
  lazily("console", () => part("console").console);
  const show = (value) => part("console").show(value);
  const signals = { __proto__: null };
  const signal = (callId) => (signals[callId] = part("events").signal());
  // The caller does not wait any more, or has its answer.
  const over = (callId, cancelled) => {
    const mine = signals[callId];
    if (mine === undefined) return;
    delete signals[callId];
    if (cancelled) part("events").abort(mine, undefined);
  };

  // ---- Built-ins that never look at the clock --------------------------------------------------------------
  // They go over a length in native code without asking whether the time is up. So they refuse lengths that no
  // array of a script with a bounded heap needs. A length that may change between two looks (a getter, a proxy)
  // is looked at once: the built-in gets a copy, made here, where the clock is looked at.
  const most = 1 << 24;
  const tooLong = (name) => {
    throw new $RangeError(`${name} of a length over ${most} is not run here`);
  };
  const isObject = (value) => value !== null && (typeof value === "object" || typeof value === "function");
  const put = (into, item) =>
    defineProperty(into, into.length, { __proto__: null, value: item, writable: true, enumerable: true, configurable: true });
  // Whether its length stays what it is while native code runs.
  const isSteady = (value) => {
    if (native.isProxy(value)) return false;
    if (isArray(value) || ArrayBuffer.isView(value)) return true;
    for (let above = value, steps = 0; above !== null; above = getPrototypeOf(above), steps++) {
      if (steps > 16 || native.isProxy(above)) return false;
      const length = getOwnPropertyDescriptor(above, "length");
      if (length !== undefined) return "value" in length && !isObject(length.value);
    }
    return true;
  };
  const check = (value, name) => {
    if (isObject(value) && $Number(value.length) > most) tooLong(name);
  };
  const copied = (value, name) => {
    const length = $Number(value.length);
    if (length > most) tooLong(name);
    const copy = [];
    for (let i = 0; i < length; i++) {
      if (i in value) put(copy, value[i]);
      else copy.length = i + 1;
    }
    return copy;
  };
  // Runs a built-in on a copy, and writes back what it did to it.
  const onCopy = (original, target, given, name, changes) => {
    const copy = copied(target, name);
    const result = apply(original, copy, given);
    if (!changes) return result;
    for (let i = 0; i < copy.length; i++) {
      if (i in copy) target[i] = copy[i];
      else delete target[i];
    }
    target.length = copy.length;
    return result === copy ? target : result;
  };
  const replace = (target, name, guarded) => {
    const length = target[name].length;
    defineProperty(guarded, "length", { __proto__: null, value: length, configurable: true });
    hidden(target, name, guarded);
  };
  const guard = (target, name, changes) => {
    const original = target[name];
    if (typeof original !== "function") return;
    const guarded = {
      [name](...given) {
        if (isObject(this)) {
          if (!isSteady(this)) return onCopy(original, this, given, name, changes);
          check(this, name);
        }
        return apply(original, this, given);
      },
    }[name];
    replace(target, name, guarded);
  };
  const list = Array.prototype;
  const reading = ["join", "toLocaleString", "slice", "toSorted", "toReversed", "toSpliced", "with", "indexOf", "lastIndexOf", "includes"];
  const changing = ["sort", "reverse", "copyWithin", "splice", "shift", "unshift", "fill"];
  for (let i = 0; i < reading.length; i++) guard(list, reading[i], false);
  for (let i = 0; i < changing.length; i++) guard(list, changing[i], true);
  // Functions that go over what they are given.
  const guardGiven = (target, name, first, count) => {
    const original = target[name];
    const guarded = {
      [name](...given) {
        for (let i = first; i < given.length && i < first + count; i++) {
          if (!isObject(given[i])) continue;
          check(given[i], name);
          if (isArray(given[i]) && native.isProxy(given[i])) given[i] = copied(given[i], name);
        }
        return apply(original, this, given);
      },
    }[name];
    replace(target, name, guarded);
  };
  guard(list, "concat", false);
  guardGiven(list, "concat", 0, 1e9);
  guardGiven(Array, "from", 0, 1);
  guardGiven(JSON, "stringify", 1, 1);
  const { raw } = $String;
  hidden($String, "raw", function (strings, ...values) {
    const { raw: parts } = strings;
    return apply(raw, this, [{ raw: copied(parts, "raw") }, ...values]);
  });
  const { drop } = Iterator.prototype;
  hidden(Iterator.prototype, "drop", function (count) {
    const number = $Number(count);
    if (number > most) tooLong("drop");
    return apply(drop, this, [number]);
  });
  // Searching for a long text in a long text takes the product of both.
  const guardSearch = (name) => {
    const original = $String.prototype[name];
    const guarded = {
      [name](what, ...rest) {
        if (isObject(what)) return apply(original, this, [what, ...rest]);
        const text = this === undefined || this === null ? this : `${this}`;
        const wanted = `${what}`;
        if (typeof text === "string" && text.length * wanted.length > 0x80000000)
          throw new $RangeError(`${name} of a text of ${wanted.length} in one of ${text.length} is not run here`);
        return apply(original, text, [what, ...rest]);
      },
    }[name];
    replace($String.prototype, name, guarded);
  };
  const searching = ["indexOf", "lastIndexOf", "includes", "split", "replace", "replaceAll"];
  for (let i = 0; i < searching.length; i++) guardSearch(searching[i]);
  // Flattening goes over the arrays inside of an array as well, so it is written out, and polls.
  const flatten = (into, value, depth) => {
    const length = $Number(value.length);
    for (let i = 0; i < length; i++) {
      if (!(i in value)) continue;
      const item = value[i];
      if (depth > 0 && isArray(item)) flatten(into, item, depth - 1);
      else put(into, item);
    }
    return into;
  };
  hidden(list, "flat", function flat(depth = 1) {
    return flatten([], this, $Number(depth) || 0);
  });
  hidden(list, "flatMap", function flatMap(fn, self) {
    if (typeof fn !== "function") throw new $TypeError("flatMap needs a function");
    const into = [];
    const length = $Number(this.length);
    for (let i = 0; i < length; i++) {
      if (!(i in this)) continue;
      const item = apply(fn, self, [this[i], i, this]);
      if (isArray(item)) flatten(into, item, 0);
      else put(into, item);
    }
    return into;
  });
  delete globalThis.SharedArrayBuffer;
  delete globalThis.Atomics;

  // ---- Events whose parts are parsed when they are read ------------------------------------------------------
  const unread = { __proto__: null };
  const shape = (...names) => {
    let takes = "", fields = "", values = "";
    for (let i = 0; i < names.length; i++) {
      const name = stringify(names[i]);
      takes += `${i ? "," : ""}t${i}`;
      values += `let v${i}=U;`;
      fields += `get ${name}(){return v${i}===U?v${i}=P(t${i}):v${i}},set ${name}(v){v${i}=v},`;
    }
    return new $Function("P", "U", `"use strict";return (${takes})=>{${values}return {${fields}}}`)(parse, unread);
  };

  // ---- What is data ----------------------------------------------------------------------------------------
  const builtIn = [
    $Error, Map, Set, WeakMap, WeakSet, WeakRef, Date, RegExp, $Promise, ArrayBuffer, DataView, getPrototypeOf(Uint8Array),
    $Number, $String, Boolean, Symbol, BigInt, Iterator, FinalizationRegistry, Timeout,
  ];
  const behaving = { __proto__: null, length: 0 };
  for (let i = 0; i < builtIn.length; i++) behaving[behaving.length++] = builtIn[i].prototype;
  // Whether a prototype that a script made adds nothing to be read: it has methods, and none that answers for the object.
  const hasMethodsOnly = (prototype) => {
    const names = ownKeys(prototype);
    for (let i = 0; i < names.length; i++) {
      const { value } = { __proto__: null, ...getOwnPropertyDescriptor(prototype, names[i]) };
      if (typeof value !== "function" || names[i] === "toJSON") return false;
    }
    return true;
  };
  // There are none before their part is there.
  const isEvent = (above) => {
    const { AbortSignal, EventTarget, Event } = parts.events.classes;
    return above === AbortSignal.prototype || above === EventTarget.prototype || above === Event.prototype;
  };
  const plainHome = getPrototypeOf({});
  // Whether an object is nothing but its own properties: none of its prototypes is one of a built-in class, or has
  // something that would be lost without a word (a getter, a value, `toJSON`).
  const isPlain = (value) => {
    let above = value;
    for (let steps = 0; steps < 16; steps++) {
      if (native.isProxy(above)) return false;
      above = getPrototypeOf(above);
      if (above === null) return true;
      for (let i = 0; i < behaving.length; i++) if (above === behaving[i]) return false;
      if (parts.events !== undefined && isEvent(above)) return false;
      if (above !== plainHome && !hasMethodsOnly(above)) return false;
    }
    return false;
  };

  return {
    isPlain, invoke, invokeFunction, keep, release, settle, fire, signal, over, shape,
    describe: getOwnPropertyDescriptor,
    parse,
    home: plainHome,
    internals: { __proto__: null, call, request, later, keep, release, makeError, show, log: native.log },
  };
});
