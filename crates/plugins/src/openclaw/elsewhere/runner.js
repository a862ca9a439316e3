// Runs a plugin under Node: the same `api`, from the same modules, over a pipe to its host.
//
// The host speaks JSON-RPC 2.0, a message a line, as with any program of a plugin; beside answers and `log`, this one asks: for modules
// (`resolve`, `load`), which the host reads, holds against what was looked at and strips of types, and for what `api` needs (`call`,
// `request`). What is asked at once is waited for on the pipe itself, since `register` and `require` wait for nothing else.
//
// Answers of the plugin are read as data, by the descriptors of their properties. The host believes nothing of what is said here: it
// checks what is registered, and reads each answer as an outcome of its point.
(require, process, rest) => {
  "use strict";
  const fs = require("node:fs");
  const net = require("node:net");
  const vm = require("node:vm");
  const util = require("node:util");
  const { isBuiltin } = require("node:module");
  const NodeModule = require("node:module");
  const { pathToFileURL, fileURLToPath } = require("node:url");
  const { PassThrough } = require("node:stream");
  const path = require("node:path");
  const { apply, ownKeys } = Reflect;
  const { getOwnPropertyDescriptor, getPrototypeOf, defineProperty, hasOwn } = Object;
  const exit = process.exit.bind(process);

  // ---- The pipe ---------------------------------------------------------------------------------------------------
  const stderr = process.stderr;
  const pause = new Int32Array(new SharedArrayBuffer(4));
  const write = (text) => {
    let rest = Buffer.from(text);
    while (rest.length > 0) {
      try {
        rest = rest.subarray(fs.writeSync(1, rest));
      } catch (error) {
        if (error.code !== "EAGAIN") exit(0);
        Atomics.wait(pause, 0, 0, 0.2);
      }
    }
  };
  const say = (message) => write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  let begun = [];
  const whole = [];
  const feed = (chunk) => {
    let from = 0;
    for (let end; (end = chunk.indexOf(10, from)) >= 0; from = end + 1) {
      begun.push(chunk.subarray(from, end));
      const line = Buffer.concat(begun).toString("utf8");
      begun = [];
      if (line.trim() !== "") whole.push(JSON.parse(line));
    }
    if (from < chunk.length) begun.push(Buffer.from(chunk.subarray(from)));
  };
  const block = Buffer.alloc(64 * 1024);
  const readNow = () => {
    for (;;) {
      try {
        const read = fs.readSync(0, block, 0, block.length, null);
        if (read === 0) exit(0);
        return feed(block.subarray(0, read));
      } catch (error) {
        if (error.code !== "EAGAIN") exit(0);
        Atomics.wait(pause, 0, 0, 0.2);
      }
    }
  };
  const asked = new Map();
  let asks = 0;
  const failed = ({ message, data }) => {
    const error = new Error(message);
    if (data?.code !== undefined) defineProperty(error, "code", { value: data.code, enumerable: false, configurable: true, writable: true });
    for (const [name, value] of data?.properties ?? []) defineProperty(error, name, { value, enumerable: false, configurable: true, writable: true });
    return error;
  };
  const data = (value) => {
    const text = JSON.stringify(value === undefined ? null : value);
    if (text === undefined) throw new TypeError("only data can be handed to the host");
    return JSON.parse(text);
  };
  // Waits for the answer on the pipe. What else comes meanwhile has its turn afterwards.
  const askNow = (method, params) => {
    const id = `q${(asks += 1)}`;
    say({ id, method, params });
    for (;;) {
      const at = whole.findIndex((message) => message.method === undefined && message.id === id);
      if (at >= 0) {
        const [answer] = whole.splice(at, 1);
        if (whole.length > 0) setImmediate(drain);
        if (answer.error !== undefined) throw failed(answer.error);
        return answer.result;
      }
      readNow();
    }
  };
  const askLater = (method, params) =>
    new Promise((ok, no) => {
      const id = `q${(asks += 1)}`;
      asked.set(id, { ok, no });
      say({ id, method, params });
    });
  const drain = () => {
    for (let message; (message = whole.shift()) !== undefined; ) take(message);
  };

  // ---- Functions of the plugin that the host knows by a number ------------------------------------------------------
  const kept = new Map();
  const labels = [];
  let lastKept = 0;
  let most = { functions: 4096, depth: 64, bytes: 1 << 20 };
  const keep = (fn, label) => {
    if (typeof fn !== "function") throw new TypeError("only a function can be kept");
    if (kept.size >= most.functions) throw new RangeError(`${most.functions} functions are kept already`);
    kept.set((lastKept += 1), fn);
    if (label !== undefined) labels.push([lastKept, String(label).slice(0, 512)]);
    return lastKept;
  };
  const show = (value) => (typeof value === "string" ? value : util.inspect(value));
  const LEVELS = ["debug", "info", "warn", "error"];
  const MOST_LINES = 200;
  const lines = { since: 0, said: 0 };
  const log = (level, text) => {
    const now = performance.now();
    if (now - lines.since >= 1000) Object.assign(lines, { since: now, said: 0 });
    lines.said += 1;
    if (lines.said > MOST_LINES + 1) return;
    const message = lines.said > MOST_LINES ? `more than ${MOST_LINES} lines in a second; the rest is left out` : String(text).slice(0, 8192);
    say({ method: "log", params: { level: LEVELS[level] ?? "info", message } });
  };

  // ---- What is data ---------------------------------------------------------------------------------------------------
  class Malformed {
    constructor(at, reason) {
      this.at = `answer${at}`.slice(0, 256);
      this.reason = reason;
    }
  }
  const builtIn = [
    Error, Map, Set, WeakMap, WeakSet, WeakRef, Date, RegExp, Promise, ArrayBuffer, DataView, getPrototypeOf(Uint8Array), Number, String,
    Boolean, Symbol, BigInt, FinalizationRegistry, AbortSignal, EventTarget, Event,
  ].map((made) => made.prototype);
  const plainHome = getPrototypeOf({});
  // What is inherited beyond methods would be lost without a word.
  const hasMethodsOnly = (prototype) =>
    ownKeys(prototype).every((name) => {
      const { value } = { __proto__: null, ...getOwnPropertyDescriptor(prototype, name) };
      return typeof value === "function" && name !== "toJSON";
    });
  const isPlain = (value) => {
    let above = value;
    for (let steps = 0; steps < 16; steps++) {
      if (util.types.isProxy(above)) return false;
      above = getPrototypeOf(above);
      if (above === null) return true;
      if (builtIn.includes(above)) return false;
      if (above !== plainHome && !hasMethodsOnly(above)) return false;
    }
    return false;
  };
  const own = (object, key, at) => {
    const described = getOwnPropertyDescriptor(object, key);
    if (described === undefined) return undefined;
    if (!hasOwn(described, "value")) throw new Malformed(at, "is a getter; answer with plain data");
    return described.value;
  };
  const isWhole = (text) => (text.isWellFormed ? text.isWellFormed() : !/\p{Surrogate}/u.test(text));
  const plainOf = (value, at, above, places, functions) => {
    switch (typeof value) {
      case "string":
        if (!isWhole(value)) throw new Malformed(at, "is no text that Unicode knows (a lone surrogate)");
        return value;
      case "boolean":
        return value;
      case "number":
        if (!Number.isFinite(value)) throw new Malformed(at, "is no number that JSON has");
        return value;
      case "function":
        throw new Malformed(at, util.types.isProxy(value) ? "is a proxy; answer with plain data" : "is a function; answer with plain data");
      case "object":
        break;
      default:
        throw new Malformed(at, `is a ${typeof value}; answer with plain data`);
    }
    if (value === null) return null;
    if (util.types.isProxy(value)) throw new Malformed(at, "is a proxy; answer with plain data");
    if (util.types.isPromise(value)) throw new Malformed(at, "is a promise; await it before you answer");
    if (above.length >= most.depth) throw new Malformed(at, `is deeper than ${most.depth} levels`);
    if (above.includes(value)) throw new Malformed(at, "contains itself");
    const below = [...above, value];
    if (Array.isArray(value)) {
      const list = [];
      const length = own(value, "length", at);
      for (let index = 0; index < length; index++) {
        const item = own(value, `${index}`, `${at}[${index}]`);
        if (item === undefined) throw new Malformed(`${at}[${index}]`, "is missing (a hole, or undefined)");
        list.push(plainOf(item, `${at}[${index}]`, below, places, functions));
      }
      return list;
    }
    if (!isPlain(value)) {
      throw new Malformed(at, "is an object of a class that is more than its own fields (a Map, a Date, one with getters or `toJSON`); answer with plain data");
    }
    const fields = Object.create(null);
    for (const key of ownKeys(value)) {
      if (typeof key !== "string" || !getOwnPropertyDescriptor(value, key).enumerable) continue;
      if (!isWhole(key)) throw new Malformed(at, "has a name that Unicode does not know (a lone surrogate)");
      const field = own(value, key, `${at}.${key}`);
      const place = `${at}.${key}`.slice(1);
      if (typeof field === "function" && places.includes(place)) functions.push([place, keep(field)]);
      else if (field !== undefined) fields[key] = plainOf(field, `${at}.${key}`, below, places, functions);
    }
    return fields;
  };
  const answerOf = (value, places) => {
    if (value === undefined || value === null) return { none: true };
    const functions = [];
    const json = plainOf(value, "", [], places, functions);
    if (Buffer.byteLength(JSON.stringify(json)) > most.bytes) throw new Malformed("", `is larger than ${most.bytes} bytes`);
    return { json, functions };
  };

  // ---- What was thrown ------------------------------------------------------------------------------------------------
  const files = new Map();
  const field = (object, name) => {
    try {
      const value = object[name];
      return typeof value === "string" ? value : undefined;
    } catch {
      return undefined;
    }
  };
  const placeIn = (stack) => {
    for (const line of stack.split("\n")) {
      const found = /^\s*at (?:.*\()?(.+?):(\d+):(\d+)\)?$/.exec(line);
      if (found === null) continue;
      const name = names.get(found[1]) ?? found[1];
      if (files.has(name)) return { file: name, line: Number(found[2]), column: Number(found[3]) };
    }
    return undefined;
  };
  // The place of a syntax error: the host's parser says it of ES modules, and otherwise the stack begins with it.
  const wrong = new WeakMap();
  const syntaxIn = (error, stack) => {
    if (wrong.has(error)) return wrong.get(error);
    const [first, , carets] = stack.split("\n");
    const found = /^(.+):(\d+)$/.exec(first ?? "");
    const name = found === null ? undefined : (names.get(found[1]) ?? found[1]);
    if (!files.has(name)) return undefined;
    return { file: name, line: Number(found[2]), column: Math.max((carets ?? "").indexOf("^"), 0) + 1 };
  };
  const told = (error) => {
    if (error instanceof Malformed) return { error: { kind: "malformed", path: error.at, reason: error.reason } };
    if (typeof error === "string") return { error: { kind: "thrown", message: `threw the text ${JSON.stringify(error)}`.slice(0, 2048), stack: "" } };
    if ((typeof error !== "object" && typeof error !== "function") || error === null) {
      return { error: { kind: "thrown", message: `threw a value that is no error (${error === null ? "null" : typeof error})`, stack: "" } };
    }
    const name = field(error, "name") ?? "Error";
    const text = field(error, "message") ?? "";
    const stack = field(error, "stack") ?? "";
    if (error instanceof SyntaxError) {
      const place = syntaxIn(error, stack);
      if (place !== undefined) return { error: { kind: "syntax", message: text.slice(0, 2048), place } };
    }
    const message = (text === "" ? name : `${name}: ${text}`).slice(0, 2048);
    return { error: { kind: "thrown", message, code: field(error, "code")?.slice(0, 64), stack: stack.slice(0, 4096), place: placeIn(stack) } };
  };

  // ---- Modules --------------------------------------------------------------------------------------------------------
  const texts = new Map();
  const names = new Map();
  const esm = new Map();
  const required = new Map();
  const namespacesByText = new Map();
  const resolve = (importer, specifier, isRequired) => {
    let wanted = specifier;
    for (let turn = 0; turn < 2; turn++) {
      if (isBuiltin(wanted)) return wanted.startsWith("node:") ? wanted : `node:${wanted}`;
      const found = askNow("resolve", { importer, specifier: wanted, require: isRequired });
      if (found.name !== undefined) return found.name;
      wanted = found.other;
    }
    throw new Error(`cannot load \`${specifier}\`, imported by ${importer}: maps lead from name to name`);
  };
  const load = (name) => {
    const known = texts.get(name);
    if (known !== undefined) return known;
    const loaded = askNow("load", { name });
    texts.set(name, loaded);
    if (loaded.file !== undefined) {
      files.set(name, loaded.file);
      names.set(loaded.file, name);
    }
    return loaded;
  };
  const createRequire = (from) => {
    const file = from instanceof URL || String(from).startsWith("file:") ? fileURLToPath(from) : String(from);
    return requireOf(askNow("importer", { file }).name);
  };
  const ourModule = Object.assign(Object.create(NodeModule), { createRequire });
  const builtin = (name) => (name === "node:module" ? ourModule : require(name));
  const host = {
    call: (name, value) => askNow("call", { name, value: data(value) }),
    request: async (name, value) => askLater("request", { name, value: data(value) }),
    keep, log, show, createRequire,
    part: (name) => moduleOf(name).namespace,
  };
  const exported = (value) => {
    if (value === null || (typeof value !== "object" && typeof value !== "function")) return [];
    const found = [];
    for (const key of ownKeys(value)) {
      if (typeof key !== "string" || key === "default" || found.length >= 2000) continue;
      if (typeof value === "function" && ["length", "name", "prototype", "arguments", "caller"].includes(key)) continue;
      found.push(key);
    }
    return found;
  };
  const around = (name, value, keys) =>
    new vm.SyntheticModule([...keys, "default"], function () {
      for (const key of keys) this.setExport(key, value[key]);
      this.setExport("default", value);
    }, { identifier: name });
  const moduleOf = (name) => {
    const known = esm.get(name);
    if (known !== undefined) return known;
    let made;
    if (isBuiltin(name)) {
      const value = builtin(name);
      made = around(name, value, name === "node:module" ? [...new Set([...exported(NodeModule), "createRequire"])] : exported(value));
    } else {
      const { kind, text } = load(name);
      if (kind === "script" || kind === "json") {
        const value = requireNamed(name);
        made = around(name, value, kind === "json" ? [] : exported(value));
      } else made = source(name, text, kind === "ours");
    }
    esm.set(name, made);
    return made;
  };
  const source = (name, text, isOurs) => {
    try {
      return compiled(name, text, isOurs);
    } catch (error) {
      const at = files.has(name) ? askNow("syntax", { name }) : null;
      if (at !== null) wrong.set(error, { file: name, line: at[0], column: at[1] });
      throw error;
    }
  };
  const compiled = (name, text, isOurs) => {
    const file = files.get(name);
    return new vm.SourceTextModule(text, {
      identifier: name,
      initializeImportMeta(meta) {
        if (isOurs) return void (meta.host = host);
        meta.url = pathToFileURL(file).href;
        meta.filename = file;
        meta.dirname = path.dirname(file);
        meta.resolve = (specifier) => {
          const found = resolve(name, String(specifier), false);
          return files.has(found) || !isBuiltin(found) ? pathToFileURL(load(found).file ?? found).href : found;
        };
      },
      importModuleDynamically: (specifier) => imported(name, specifier),
    });
  };
  const link = (specifier, referrer) => moduleOf(resolve(referrer.identifier, specifier, false));
  let linking = Promise.resolve();
  const ready = async (made) => {
    const before = linking;
    linking = (async () => {
      await before.catch(() => {});
      if (made.status === "unlinked") await made.link(link);
    })();
    await linking;
    await made.evaluate();
    return made;
  };
  const imported = (name, specifier) => {
    const asked = String(specifier).startsWith("file:") ? fileURLToPath(String(specifier)) : String(specifier);
    return ready(moduleOf(resolve(name, asked, false)));
  };
  const requireNamed = (name) => {
    if (isBuiltin(name)) return builtin(name);
    const known = required.get(name);
    if (known !== undefined) return known.exports;
    const { kind, text } = load(name);
    const file = files.get(name) ?? name;
    const module = { exports: {}, id: name, filename: file, loaded: false, children: [], paths: [], require: undefined };
    if (kind === "json") module.exports = JSON.parse(text);
    else if (kind === "script") {
      const run = vm.compileFunction(text, ["exports", "require", "module", "__filename", "__dirname"], {
        filename: name, importModuleDynamically: (specifier) => imported(name, specifier),
      });
      required.set(name, module);
      module.require = requireOf(name);
      try {
        apply(run, module.exports, [module.exports, module.require, module, file, path.dirname(file)]);
      } catch (error) {
        required.delete(name);
        throw error;
      }
    } else {
      const made = esm.get(name);
      const namespace = made?.status === "evaluated" ? made.namespace : namespacesByText.get(text);
      if (namespace === undefined) {
        const error = new Error(`cannot require "${name}": it is an ES module that is not loaded yet; import it`);
        error.code = "ERR_REQUIRE_ESM";
        throw error;
      }
      module.exports = "module.exports" in namespace ? namespace["module.exports"] : namespace;
    }
    module.loaded = true;
    required.set(name, module);
    return module.exports;
  };
  const requireOf = (importer) => {
    const require = (specifier) => requireNamed(resolve(importer, `${specifier}`, true));
    require.resolve = (specifier) => {
      const found = resolve(importer, `${specifier}`, true);
      return isBuiltin(found) ? found : (load(found).file ?? found);
    };
    require.cache = {};
    require.extensions = {};
    require.main = undefined;
    return require;
  };

  // ---- What the host asks -----------------------------------------------------------------------------------------------
  const under = new Map();
  const begin = async ({ boot, parts, sdk, environment, limits }) => {
    most = limits;
    for (const name of Object.keys(process.env)) if (!environment.keeps.includes(name)) delete process.env[name];
    for (const [name, value] of Object.entries(environment.variables)) process.env[name] = value;
    // What CommonJS requires of ours has to be there at once.
    for (const [at, text] of sdk.entries()) {
      const known = source(`backstop:sdk/${at}`, text, true);
      await ready(known);
      namespacesByText.set(text, known.namespace);
    }
    // What `api` asks for while it waits for nothing.
    for (const name of parts) await ready(moduleOf(name));
    await ready(source("backstop:boot", boot, true));
    return { kept: labels };
  };
  const call = async ({ function: number, arguments: given, keep: places }, signal) => {
    const fn = kept.get(number);
    if (fn === undefined) return { error: { kind: "none" } };
    const list = given.map((argument) => (hasOwn(argument, "json") ? argument.json : signal));
    return answerOf(await apply(fn, undefined, list), places);
  };
  const work = {
    initialize: (params) => begin(params),
    call: (params, signal) => call(params, signal),
    heap: async () => ({ bytes: process.memoryUsage().heapUsed }),
    shutdown: async () => null,
  };
  const serve = async ({ id, method, params }) => {
    const done = work[method];
    if (done === undefined) return say({ id, error: { code: -32601, message: `there is no \`${method}\`` } });
    const aborter = new AbortController();
    under.set(id, aborter);
    let result;
    try {
      result = await done(params, aborter.signal);
    } catch (error) {
      result = told(error);
    }
    // Who is not waited for any more has been answered for.
    if (under.delete(id)) say({ id, result: result ?? null });
  };
  const take = (message) => {
    if (message.method === "$/cancel") {
      const { id } = message.params;
      const aborter = under.get(id);
      if (under.delete(id)) {
        say({ id, result: { none: true } });
        aborter.abort();
      }
    } else if (message.method === "release") {
      kept.delete(message.params.function);
    } else if (message.method !== undefined) {
      void serve(message);
    } else {
      const waits = asked.get(message.id);
      asked.delete(message.id);
      if (message.error !== undefined) waits?.no(failed(message.error));
      else waits?.ok(message.result);
    }
  };

  // ---- The process ------------------------------------------------------------------------------------------------------
  // What may not be looked at is not there, as in later versions of Node and in the runtime of the host.
  const { existsSync } = fs;
  fs.existsSync = (file) => {
    try {
      return existsSync(file);
    } catch {
      return false;
    }
  };
  // Standard output is for the protocol; what a plugin prints is said to its host.
  defineProperty(process, "stdout", { value: stderr, configurable: true, enumerable: true, writable: true });
  defineProperty(process, "stdin", { value: new PassThrough().end(), configurable: true, enumerable: true, writable: true });
  for (const [name, level] of Object.entries({ debug: 0, trace: 0, log: 1, info: 1, warn: 2, error: 3 })) {
    console[name] = (...parts) => log(level, util.format(...parts));
  }
  process.on("unhandledRejection", (reason) => log(2, `a promise was rejected, and nobody handled it: ${field(reason ?? {}, "message") ?? show(reason)}`));
  process.on("uncaughtException", (error) => {
    log(3, `an error that nobody caught ends the process: ${field(error ?? {}, "stack") ?? show(error)}`);
    exit(1);
  });
  const input = new net.Socket({ fd: 0, readable: true, writable: false });
  input.on("data", (chunk) => {
    feed(chunk);
    drain();
  });
  for (const end of ["end", "close", "error"]) input.on(end, () => exit(0));
  feed(rest);
  setImmediate(drain);
}
