// Runs a plugin under Node: the same `api`, from the same modules, over a pipe to its host.
//
// The host speaks JSON-RPC 2.0, a message a line, as with any program of a plugin; beside answers and `log`, this one asks: for modules
// (`resolve`, `load`), which the host reads, holds against what was looked at and strips of types, and for what `api` needs (`call`,
// `request`). What is asked at once is waited for on the pipe itself, since `register` and `require` wait for nothing else.
//
// Answers of the plugin are read as data, by the descriptors of their properties. The host believes nothing of what is said here: it
// checks what is registered, and reads each answer as an outcome of its point.
//
// INVARIANT (a plugin changes its own world only): what runs after the plugin's code has begun uses no method, iterator or inherited field
// that the plugin could have replaced since. Lists have indices, tables have no prototype, and what is said is encoded here.
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
  const { dirname } = require("node:path");
  const { apply, ownKeys } = Reflect;
  const { getOwnPropertyDescriptor, getPrototypeOf, setPrototypeOf, defineProperty, hasOwn } = Object;
  const { isArray } = Array;
  const { isFinite } = Number;
  const { parse, stringify } = JSON;
  const { byteLength } = Buffer;
  const { readSync, writeSync, existsSync } = fs;
  const { inspect, format } = util;
  const { isProxy, isPromise } = util.types;
  const { SourceTextModule, SyntheticModule, compileFunction } = vm;
  const $Error = Error, $TypeError = TypeError, $RangeError = RangeError, $SyntaxError = SyntaxError, $Promise = Promise;
  const $String = String, $Number = Number, $URL = URL, $Uint8Array = Uint8Array, $ArrayBuffer = ArrayBuffer, $AbortController = AbortController;
  const exit = process.exit.bind(process);
  const soon = setImmediate;
  const now = performance.now.bind(performance);
  const memoryUsage = process.memoryUsage.bind(process);
  // A method as a function whose first argument is what it is called on.
  const uncurried = (method) => Function.prototype.call.bind(method);
  const getterOf = (home, name) => uncurried(getOwnPropertyDescriptor(home, name).get);
  const slice = uncurried(String.prototype.slice), startsWith = uncurried(String.prototype.startsWith), trim = uncurried(String.prototype.trim);
  const isWhole = uncurried(String.prototype.isWellFormed);
  const indexOf = uncurried(Uint8Array.prototype.indexOf), setBytes = uncurried(Uint8Array.prototype.set);
  const copyWithin = uncurried(Uint8Array.prototype.copyWithin);
  const lengthOf = getterOf(getPrototypeOf(Uint8Array.prototype), "length");
  const decode = uncurried(TextDecoder.prototype.decode), bytesOf = uncurried(TextEncoder.prototype.encode);
  const abort = uncurried(AbortController.prototype.abort), signalOf = getterOf(AbortController.prototype, "signal");
  const decoder = new TextDecoder(), encoder = new TextEncoder();
  const { wait } = Atomics;
  const homeOfModules = getPrototypeOf(SourceTextModule.prototype);
  const linkModule = uncurried(homeOfModules.link), evaluateModule = uncurried(homeOfModules.evaluate);
  const statusOf = getterOf(homeOfModules, "status"), namespaceOf = getterOf(homeOfModules, "namespace"), identifierOf = getterOf(homeOfModules, "identifier");
  const setExport = uncurried(SyntheticModule.prototype.setExport);
  const table = () => ({ __proto__: null });
  const list = () => setPrototypeOf([], null);
  const has = (items, wanted) => {
    for (let i = 0; i < items.length; i++) if (items[i] === wanted) return true;
    return false;
  };
  // A field of something that was read from the pipe, which inherits nothing.
  const field = (object, name) => (object !== null && typeof object === "object" && hasOwn(object, name) ? object[name] : undefined);

  // ---- The pipe ---------------------------------------------------------------------------------------------------
  const stderr = process.stderr;
  const pause = new Int32Array(new SharedArrayBuffer(4));
  const write = (text) => {
    const bytes = bytesOf(encoder, text);
    const length = lengthOf(bytes);
    for (let at = 0; at < length; ) {
      try {
        at += writeSync(1, bytes, at, length - at);
      } catch (error) {
        if (error.code !== "EAGAIN") exit(0);
        wait(pause, 0, 0, 0.2);
      }
    }
  };
  // The JSON of what was made here or read as JSON, without `toJSON` of anybody.
  const encode = (value) => {
    if (typeof value !== "object" || value === null) return stringify(value === undefined ? null : value);
    let text = "";
    if (isArray(value)) {
      for (let i = 0; i < value.length; i++) text += `${i === 0 ? "" : ","}${encode(value[i])}`;
      return `[${text}]`;
    }
    const keys = ownKeys(value);
    for (let i = 0; i < keys.length; i++) {
      if (value[keys[i]] !== undefined) text += `${text === "" ? "" : ","}${stringify(keys[i])}:${encode(value[keys[i]])}`;
    }
    return `{${text}}`;
  };
  const say = (message) => write(`${encode({ __proto__: null, jsonrpc: "2.0", ...message })}\n`);
  // What was read and is no whole line yet, in front of a buffer that grows.
  let room = 64 * 1024, held = new $Uint8Array(new $ArrayBuffer(room)), used = 0;
  // Messages that wait for their turn. One that was taken out of turn leaves a gap.
  const whole = table();
  let first = 0, next = 0;
  const feed = (chunk, length) => {
    if (used + length > room) {
      while (used + length > room) room *= 2;
      const larger = new $Uint8Array(new $ArrayBuffer(room));
      setBytes(larger, held);
      held = larger;
    }
    for (let i = 0; i < length; i++) held[used + i] = chunk[i];
    let seen = used, from = 0;
    used += length;
    for (let end; (end = indexOf(held, 10, seen)) >= 0 && end < used; seen = from = end + 1) {
      const bytes = new $Uint8Array(new $ArrayBuffer(end - from));
      for (let i = from; i < end; i++) bytes[i - from] = held[i];
      const line = decode(decoder, bytes);
      if (trim(line) !== "") whole[next++] = parse(line);
    }
    copyWithin(held, 0, from, used);
    used -= from;
  };
  const block = new $Uint8Array(new $ArrayBuffer(64 * 1024));
  const readNow = () => {
    for (;;) {
      try {
        const read = readSync(0, block, 0, 64 * 1024, null);
        if (read === 0) exit(0);
        return feed(block, read);
      } catch (error) {
        if (error.code !== "EAGAIN") exit(0);
        wait(pause, 0, 0, 0.2);
      }
    }
  };
  const asked = table();
  let asks = 0;
  const failed = (told) => {
    const error = new $Error(field(told, "message"));
    const more = field(told, "data"), properties = field(more, "properties");
    const hidden = (name, value) =>
      defineProperty(error, name, { __proto__: null, value, enumerable: false, configurable: true, writable: true });
    if (field(more, "code") !== undefined) hidden("code", more.code);
    for (let i = 0; properties !== undefined && i < properties.length; i++) hidden(properties[i][0], properties[i][1]);
    return error;
  };
  const data = (value) => {
    const text = stringify(value === undefined ? null : value);
    if (text === undefined) throw new $TypeError("only data can be handed to the host");
    return parse(text);
  };
  // Waits for the answer on the pipe. What else comes meanwhile has its turn afterwards.
  const askNow = (method, params) => {
    const id = `q${(asks += 1)}`;
    say({ id, method, params });
    for (let at = first; ; at++) {
      while (at >= next) readNow();
      const answer = whole[at];
      if (answer === undefined || field(answer, "method") !== undefined || field(answer, "id") !== id) continue;
      delete whole[at];
      if (next > first + 1) soon(drain);
      if (field(answer, "error") !== undefined) throw failed(answer.error);
      return field(answer, "result");
    }
  };
  const askLater = (method, params) =>
    new $Promise((ok, no) => {
      const id = `q${(asks += 1)}`;
      asked[id] = { __proto__: null, ok, no };
      say({ id, method, params });
    });
  const drain = () => {
    while (first < next) {
      const message = whole[first];
      delete whole[first++];
      if (message !== undefined) take(message);
    }
  };

  // ---- Functions of the plugin that the host knows by a number ------------------------------------------------------
  const kept = table();
  const labels = list();
  let lastKept = 0, keptNow = 0;
  let most = { functions: 4096, depth: 64, bytes: 1 << 20 };
  const keep = (fn, label) => {
    if (typeof fn !== "function") throw new $TypeError("only a function can be kept");
    if (keptNow >= most.functions) throw new $RangeError(`${most.functions} functions are kept already`);
    kept[(lastKept += 1)] = fn;
    keptNow += 1;
    if (label !== undefined) labels[labels.length] = [lastKept, slice($String(label), 0, 512)];
    return lastKept;
  };
  const show = (value) => (typeof value === "string" ? value : inspect(value));
  const LEVELS = ["debug", "info", "warn", "error"];
  const MOST_LINES = 200;
  const lines = { since: 0, said: 0 };
  const log = (level, text) => {
    const time = now();
    if (time - lines.since >= 1000) {
      lines.since = time;
      lines.said = 0;
    }
    lines.said += 1;
    if (lines.said > MOST_LINES + 1) return;
    const message = lines.said > MOST_LINES ? `more than ${MOST_LINES} lines in a second; the rest is left out` : slice($String(text), 0, 8192);
    say({ method: "log", params: { level: LEVELS[level] ?? "info", message } });
  };

  // ---- What is data ---------------------------------------------------------------------------------------------------
  class Malformed {
    constructor(at, reason) {
      this.at = slice(`answer${at}`, 0, 256);
      this.reason = reason;
    }
  }
  const builtIn = [
    Error, Map, Set, WeakMap, WeakSet, WeakRef, Date, RegExp, Promise, ArrayBuffer, DataView, getPrototypeOf(Uint8Array), Number, String,
    Boolean, Symbol, BigInt, FinalizationRegistry, AbortSignal, EventTarget, Event,
  ].map((made) => made.prototype);
  const plainHome = getPrototypeOf({});
  // What is inherited beyond methods would be lost without a word.
  const hasMethodsOnly = (prototype) => {
    const names = ownKeys(prototype);
    for (let i = 0; i < names.length; i++) {
      const { value } = { __proto__: null, ...getOwnPropertyDescriptor(prototype, names[i]) };
      if (typeof value !== "function" || names[i] === "toJSON") return false;
    }
    return true;
  };
  const isPlain = (value) => {
    let above = value;
    for (let steps = 0; steps < 16; steps++) {
      if (isProxy(above)) return false;
      above = getPrototypeOf(above);
      if (above === null) return true;
      if (has(builtIn, above)) return false;
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
  const plainOf = (value, at, above, places, functions) => {
    switch (typeof value) {
      case "string":
        if (!isWhole(value)) throw new Malformed(at, "is no text that Unicode knows (a lone surrogate)");
        return value;
      case "boolean":
        return value;
      case "number":
        if (!isFinite(value)) throw new Malformed(at, "is no number that JSON has");
        return value;
      case "function":
        throw new Malformed(at, isProxy(value) ? "is a proxy; answer with plain data" : "is a function; answer with plain data");
      case "object":
        break;
      default:
        throw new Malformed(at, `is a ${typeof value}; answer with plain data`);
    }
    if (value === null) return null;
    if (isProxy(value)) throw new Malformed(at, "is a proxy; answer with plain data");
    if (isPromise(value)) throw new Malformed(at, "is a promise; await it before you answer");
    if (above.length >= most.depth) throw new Malformed(at, `is deeper than ${most.depth} levels`);
    if (has(above, value)) throw new Malformed(at, "contains itself");
    const below = list();
    for (let i = 0; i < above.length; i++) below[i] = above[i];
    below[above.length] = value;
    if (isArray(value)) {
      const items = list();
      const length = own(value, "length", at);
      for (let index = 0; index < length; index++) {
        const item = own(value, `${index}`, `${at}[${index}]`);
        if (item === undefined) throw new Malformed(`${at}[${index}]`, "is missing (a hole, or undefined)");
        items[index] = plainOf(item, `${at}[${index}]`, below, places, functions);
      }
      return items;
    }
    if (!isPlain(value)) {
      throw new Malformed(at, "is an object of a class that is more than its own fields (a Map, a Date, one with getters or `toJSON`); answer with plain data");
    }
    const fields = table();
    const keys = ownKeys(value);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      if (typeof key !== "string" || !getOwnPropertyDescriptor(value, key).enumerable) continue;
      if (!isWhole(key)) throw new Malformed(at, "has a name that Unicode does not know (a lone surrogate)");
      const found = own(value, key, `${at}.${key}`);
      const place = slice(`${at}.${key}`, 1);
      if (typeof found === "function" && has(places, place)) functions[functions.length] = [place, keep(found)];
      else if (found !== undefined) fields[key] = plainOf(found, `${at}.${key}`, below, places, functions);
    }
    return fields;
  };
  const answerOf = (value, places) => {
    if (value === undefined || value === null) return { none: true };
    const functions = list();
    const json = plainOf(value, "", list(), places, functions);
    if (byteLength(encode(json)) > most.bytes) throw new Malformed("", `is larger than ${most.bytes} bytes`);
    return { json, functions };
  };

  // ---- What was thrown ------------------------------------------------------------------------------------------------
  const files = table();
  const textOf = (object, name) => {
    try {
      const value = object[name];
      return typeof value === "string" ? value : undefined;
    } catch {
      return undefined;
    }
  };
  // What reads stacks uses what the plugin may have replaced: `told` does without it then.
  const placeIn = (stack) => {
    for (const line of stack.split("\n")) {
      const found = /^\s*at (?:.*\()?(.+?):(\d+):(\d+)\)?$/.exec(line);
      if (found === null) continue;
      const name = names[found[1]] ?? found[1];
      if (name in files) return { file: name, line: $Number(found[2]), column: $Number(found[3]) };
    }
    return undefined;
  };
  // The place of a syntax error: the host's parser says it of ES modules, and otherwise the stack begins with it.
  const wrong = new WeakMap();
  const setWrong = uncurried(WeakMap.prototype.set);
  const syntaxIn = (error, stack) => {
    if (wrong.has(error)) return wrong.get(error);
    const [first, , carets] = stack.split("\n");
    const found = /^(.+):(\d+)$/.exec(first ?? "");
    const name = found === null ? undefined : (names[found[1]] ?? found[1]);
    if (name === undefined || !(name in files)) return undefined;
    return { file: name, line: $Number(found[2]), column: (carets ?? "").indexOf("^") + 1 || 1 };
  };
  const told = (error) => {
    if (error instanceof Malformed) return { error: { kind: "malformed", path: error.at, reason: error.reason } };
    if (typeof error === "string") return { error: { kind: "thrown", message: slice(`threw the text ${stringify(error)}`, 0, 2048), stack: "" } };
    if ((typeof error !== "object" && typeof error !== "function") || error === null) {
      return { error: { kind: "thrown", message: `threw a value that is no error (${error === null ? "null" : typeof error})`, stack: "" } };
    }
    const name = textOf(error, "name") ?? "Error";
    const text = textOf(error, "message") ?? "";
    const stack = textOf(error, "stack") ?? "";
    const code = textOf(error, "code");
    const message = slice(text === "" ? name : `${name}: ${text}`, 0, 2048);
    const thrown = { kind: "thrown", message, code: code && slice(code, 0, 64), stack: slice(stack, 0, 4096) };
    try {
      if (error instanceof $SyntaxError) {
        const place = syntaxIn(error, stack);
        if (place !== undefined) return { error: { kind: "syntax", message: slice(text, 0, 2048), place } };
      }
      thrown.place = placeIn(stack);
    } catch {
      // The place is for people; without it the error is what it is.
    }
    return { error: thrown };
  };

  // ---- Modules --------------------------------------------------------------------------------------------------------
  const texts = table();
  const names = table();
  const esm = table();
  const required = table();
  const namespacesByText = table();
  const resolve = (importer, specifier, isRequired) => {
    let wanted = specifier;
    for (let turn = 0; turn < 2; turn++) {
      if (isBuiltin(wanted)) return startsWith(wanted, "node:") ? wanted : `node:${wanted}`;
      const found = askNow("resolve", { importer, specifier: wanted, require: isRequired });
      if (field(found, "name") !== undefined) return found.name;
      wanted = found.other;
    }
    throw new $Error(`cannot load \`${specifier}\`, imported by ${importer}: maps lead from name to name`);
  };
  const load = (name) => {
    const known = texts[name];
    if (known !== undefined) return known;
    const loaded = setPrototypeOf(askNow("load", { name }), null);
    texts[name] = loaded;
    if (loaded.file !== undefined) {
      files[name] = loaded.file;
      names[loaded.file] = name;
    }
    return loaded;
  };
  const createRequire = (from) => {
    const file = from instanceof $URL || startsWith($String(from), "file:") ? fileURLToPath(from) : $String(from);
    return requireOf(askNow("importer", { file }).name);
  };
  const ourModule = Object.assign(Object.create(NodeModule), { createRequire });
  const builtin = (name) => (name === "node:module" ? ourModule : require(name));
  const host = {
    call: (name, value) => askNow("call", { name, value: data(value) }),
    request: async (name, value) => askLater("request", { name, value: data(value) }),
    keep, log, show, createRequire,
    part: (name) => namespaceOf(moduleOf(name)),
  };
  const OF_FUNCTIONS = ["length", "name", "prototype", "arguments", "caller"];
  const exported = (value) => {
    if (value === null || (typeof value !== "object" && typeof value !== "function")) return [];
    const found = [];
    const keys = ownKeys(value);
    for (let i = 0; i < keys.length && found.length < 2000; i++) {
      const key = keys[i];
      if (typeof key !== "string" || key === "default") continue;
      if (typeof value === "function" && has(OF_FUNCTIONS, key)) continue;
      found[found.length] = key;
    }
    return found;
  };
  const around = (name, value, keys) => {
    const all = [];
    for (let i = 0; i < keys.length; i++) all[i] = keys[i];
    all[keys.length] = "default";
    const made = new SyntheticModule(all, () => {
      for (let i = 0; i < keys.length; i++) setExport(made, keys[i], value[keys[i]]);
      setExport(made, "default", value);
    }, { __proto__: null, identifier: name });
    return made;
  };
  // What a script may have put into `node:module` since is nothing that others import.
  const ofModule = exported(NodeModule);
  if (!has(ofModule, "createRequire")) ofModule[ofModule.length] = "createRequire";
  const moduleOf = (name) => {
    const known = esm[name];
    if (known !== undefined) return known;
    let made;
    if (isBuiltin(name)) {
      const value = builtin(name);
      made = around(name, value, name === "node:module" ? ofModule : exported(value));
    } else {
      const { kind, text } = load(name);
      if (kind === "script" || kind === "json") {
        const value = requireNamed(name);
        made = around(name, value, kind === "json" ? [] : exported(value));
      } else made = source(name, text, kind === "ours");
    }
    esm[name] = made;
    return made;
  };
  const source = (name, text, isOurs) => {
    try {
      return compiled(name, text, isOurs);
    } catch (error) {
      const at = name in files ? askNow("syntax", { name }) : null;
      if (at !== null) setWrong(wrong, error, { file: name, line: at[0], column: at[1] });
      throw error;
    }
  };
  const compiled = (name, text, isOurs) => {
    const file = files[name];
    return new SourceTextModule(text, {
      __proto__: null,
      identifier: name,
      initializeImportMeta(meta) {
        if (isOurs) return void (meta.host = host);
        meta.url = pathToFileURL(file).href;
        meta.filename = file;
        meta.dirname = dirname(file);
        meta.resolve = (specifier) => {
          const found = resolve(name, $String(specifier), false);
          return found in files || !isBuiltin(found) ? pathToFileURL(load(found).file ?? found).href : found;
        };
      },
      importModuleDynamically: (specifier) => imported(name, specifier),
    });
  };
  const link = (specifier, referrer) => moduleOf(resolve(identifierOf(referrer), specifier, false));
  let linking;
  const ready = async (made) => {
    const before = linking;
    linking = (async () => {
      try {
        await before;
      } catch {
        // Whoever linked that was told.
      }
      if (statusOf(made) === "unlinked") await linkModule(made, link);
    })();
    await linking;
    await evaluateModule(made);
    return made;
  };
  const imported = (name, specifier) => {
    const text = $String(specifier);
    return ready(moduleOf(resolve(name, startsWith(text, "file:") ? fileURLToPath(text) : text, false)));
  };
  const requireNamed = (name) => {
    if (isBuiltin(name)) return builtin(name);
    const known = required[name];
    if (known !== undefined) return known.exports;
    const { kind, text } = load(name);
    const file = files[name] ?? name;
    const module = { exports: {}, id: name, filename: file, loaded: false, children: [], paths: [], require: undefined };
    if (kind === "json") module.exports = parse(text);
    else if (kind === "script") {
      const run = compileFunction(text, ["exports", "require", "module", "__filename", "__dirname"], {
        __proto__: null, filename: name, importModuleDynamically: (specifier) => imported(name, specifier),
      });
      required[name] = module;
      module.require = requireOf(name);
      try {
        apply(run, module.exports, [module.exports, module.require, module, file, dirname(file)]);
      } catch (error) {
        delete required[name];
        throw error;
      }
    } else {
      const made = esm[name];
      const namespace = made !== undefined && statusOf(made) === "evaluated" ? namespaceOf(made) : namespacesByText[text];
      if (namespace === undefined) {
        const error = new $Error(`cannot require "${name}": it is an ES module that is not loaded yet; import it`);
        error.code = "ERR_REQUIRE_ESM";
        throw error;
      }
      module.exports = "module.exports" in namespace ? namespace["module.exports"] : namespace;
    }
    module.loaded = true;
    required[name] = module;
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
  const under = table();
  const begin = async ({ boot, parts, sdk, environment, limits }) => {
    most = limits;
    for (const name of Object.keys(process.env)) if (!environment.keeps.includes(name)) delete process.env[name];
    for (const [name, value] of Object.entries(environment.variables)) process.env[name] = value;
    // What CommonJS requires of ours has to be there at once.
    for (const [at, text] of sdk.entries()) {
      const known = source(`backstop:sdk/${at}`, text, true);
      await ready(known);
      namespacesByText[text] = known.namespace;
    }
    // What `api` asks for while it waits for nothing.
    for (const name of parts) await ready(moduleOf(name));
    await ready(source("backstop:boot", boot, true));
    return { kept: labels };
  };
  const call = async ({ function: number, arguments: given, keep: places }, signal) => {
    const fn = kept[number];
    if (fn === undefined) return { error: { kind: "none" } };
    const all = list();
    for (let i = 0; i < given.length; i++) all[i] = hasOwn(given[i], "json") ? given[i].json : signal;
    return answerOf(await apply(fn, undefined, all), places);
  };
  const work = {
    __proto__: null,
    initialize: (params) => begin(params),
    call: (params, signal) => call(params, signal),
    heap: async () => ({ bytes: memoryUsage().heapUsed }),
    shutdown: async () => null,
  };
  const serve = async ({ id, method, params }) => {
    const done = work[method];
    if (done === undefined) return say({ id, error: { code: -32601, message: `there is no \`${method}\`` } });
    const aborter = new $AbortController();
    under[id] = aborter;
    let result;
    try {
      result = await done(params, signalOf(aborter));
    } catch (error) {
      result = told(error);
    }
    // Who is not waited for any more has been answered for.
    if (!(id in under)) return;
    delete under[id];
    say({ id, result: result ?? null });
  };
  const take = (message) => {
    const method = field(message, "method");
    if (method === "$/cancel") {
      const { id } = message.params;
      const aborter = under[id];
      if (aborter === undefined) return;
      delete under[id];
      say({ id, result: { none: true } });
      abort(aborter);
    } else if (method === "release") {
      if (message.params.function in kept) keptNow -= 1;
      delete kept[message.params.function];
    } else if (method !== undefined) {
      void serve(message);
    } else {
      const waits = asked[message.id];
      delete asked[message.id];
      if (field(message, "error") !== undefined) waits?.no(failed(message.error));
      else waits?.ok(field(message, "result"));
    }
  };

  // ---- The process ------------------------------------------------------------------------------------------------------
  // What may not be looked at is not there, as in later versions of Node and in the runtime of the host.
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
    console[name] = (...parts) => log(level, apply(format, undefined, parts));
  }
  process.on("unhandledRejection", (reason) => log(2, `a promise was rejected, and nobody handled it: ${textOf(reason ?? {}, "message") ?? show(reason)}`));
  process.on("uncaughtException", (error) => {
    log(3, `an error that nobody caught ends the process: ${textOf(error ?? {}, "stack") ?? show(error)}`);
    exit(1);
  });
  const input = new net.Socket({ fd: 0, readable: true, writable: false });
  input.on("data", (chunk) => {
    feed(chunk, lengthOf(chunk));
    drain();
  });
  for (const end of ["end", "close", "error"]) input.on(end, () => exit(0));
  feed(rest, rest.length);
  soon(drain);
}
