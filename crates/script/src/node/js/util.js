// `node:util`.
const { inspect, format, formatWithOptions } = require("inspect");
const types = require("util/types");
const { TextEncoder, TextDecoder } = require("encoding");
const isDeepStrictEqual = (a, b) => require("assert").same(a, b, true);
const wrong = (name, kind, value) => {
  const error = new TypeError(`The "${name}" argument must be of type ${kind}. Received ${value === null ? "null" : typeof value === "undefined" ? "undefined" : `type ${typeof value}`}`);
  error.code = "ERR_INVALID_ARG_TYPE";
  return error;
};

const custom = Symbol.for("nodejs.util.promisify.custom");
function promisify(original) {
  if (typeof original !== "function") throw wrong("original", "function", original);
  if (original[custom]) return original[custom];
  function promised(...args) {
    return new Promise((ok, no) => Reflect.apply(original, this, [...args, (error, ...values) => (error ? no(error) : ok(values[0]))]));
  }
  Object.setPrototypeOf(promised, Object.getPrototypeOf(original));
  return Object.defineProperties(promised, Object.getOwnPropertyDescriptors(original));
}
promisify.custom = custom;
function callbackify(original) {
  if (typeof original !== "function") throw wrong("original", "function", original);
  return function (...args) {
    const back = args.pop();
    if (typeof back !== "function") throw wrong("last argument", "function", back);
    Reflect.apply(original, this, args).then((value) => queueMicrotask(() => back(null, value)), (error) => queueMicrotask(() => back(error || new Error("Promise was rejected with a falsy value"))));
  };
}
function inherits(constructor, above) {
  if (typeof constructor !== "function") throw wrong("ctor", "function", constructor);
  if (typeof above !== "function") throw wrong("superCtor", "function", above);
  Object.defineProperty(constructor, "super_", { __proto__: null, value: above, writable: true, configurable: true });
  Object.setPrototypeOf(constructor.prototype, above.prototype);
}
function deprecate(fn, message, code) {
  let said = false;
  return function (...args) {
    if (!said) console.warn(`DeprecationWarning: ${code ? `[${code}] ` : ""}${message}`);
    said = true;
    return new.target ? Reflect.construct(fn, args, new.target) : Reflect.apply(fn, this, args);
  };
}
const debuglog = () => Object.assign(() => {}, { enabled: false });
const stripVTControlCharacters = (text) => `${text}`.replace(/[\u001B\u009B][[\]()#;?]*(?:(?:(?:(?:;[-a-zA-Z\d/#&.:=?%@~_]+)*|[a-zA-Z\d]+(?:;[-a-zA-Z\d/#&.:=?%@~_]*)*)?\u0007)|(?:(?:\d{1,4}(?:;\d{0,4})*)?[\dA-PR-TZcf-ntqry=><~]))/g, "");
const toUSVString = (text) => `${text}`.toWellFormed();
const aborted = (signal) => new Promise((ok) => (signal.aborted ? ok() : signal.addEventListener("abort", () => ok(), { once: true })));
const styleText = (_, text) => text;

function parseArgs({ args = [], options = {}, strict = true, allowPositionals = !strict } = {}) {
  const values = { __proto__: null }, positionals = [];
  const long = (flag) => (flag.length > 1 ? flag : Object.keys(options).find((name) => options[name].short === flag) ?? flag);
  const put = (name, value) => {
    const option = options[name];
    if (strict && option === undefined) throw Object.assign(new TypeError(`Unknown option '${name.length > 1 ? "--" : "-"}${name}'`), { code: "ERR_PARSE_ARGS_UNKNOWN_OPTION" });
    if (strict && option.type === "string" && typeof value !== "string") throw Object.assign(new TypeError(`Option '--${name} <value>' argument missing`), { code: "ERR_PARSE_ARGS_INVALID_OPTION_VALUE" });
    if (option?.multiple) (values[name] ??= []).push(value);
    else values[name] = value;
  };
  for (let i = 0; i < args.length; i++) {
    const arg = args[i];
    if (arg === "--") {
      positionals.push(...args.slice(i + 1));
      break;
    }
    const found = /^--([^=]+)(?:=(.*))?$/s.exec(arg) ?? /^-([^-=])(?:=?(.+))?$/s.exec(arg);
    if (found === null) positionals.push(arg);
    else {
      const name = long(found[1]);
      put(name, options[name]?.type === "string" ? found[2] ?? args[++i] : found[2] ?? true);
    }
  }
  if (!allowPositionals && positionals.length > 0) throw Object.assign(new TypeError(`Unexpected argument '${positionals[0]}'. This command does not take positional arguments`), { code: "ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL" });
  for (const name of Object.keys(options)) if (values[name] === undefined && options[name].default !== undefined) values[name] = options[name].default;
  return { values, positionals };
}

return {
  inspect, format, formatWithOptions, types, TextEncoder, TextDecoder, isDeepStrictEqual, promisify, callbackify, inherits, deprecate,
  _extend: (target, source) => (source !== null && typeof source === "object" ? Object.assign(target, source) : target),
  isBuffer: (value) => require("buffer").Buffer.isBuffer(value), log: (...args) => console.log(format(...args)),
  debuglog, debug: debuglog, stripVTControlCharacters, toUSVString, aborted, styleText, parseArgs,
  isArray: Array.isArray,
  isBoolean: (value) => typeof value === "boolean",
  isNull: (value) => value === null,
  isNullOrUndefined: (value) => value === null || value === undefined,
  isNumber: (value) => typeof value === "number",
  isString: (value) => typeof value === "string",
  isSymbol: (value) => typeof value === "symbol",
  isUndefined: (value) => value === undefined,
  isObject: (value) => value !== null && typeof value === "object",
  isFunction: (value) => typeof value === "function",
  isRegExp: types.isRegExp,
  isDate: types.isDate,
  isError: (value) => value instanceof Error,
  isPrimitive: (value) => value === null || (typeof value !== "object" && typeof value !== "function"),
};
