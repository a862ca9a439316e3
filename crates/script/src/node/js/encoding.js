// Text and bytes: `TextEncoder`, `TextDecoder`, base64, and copies of structured data.
const { encode, decode } = host;
const chars = String.fromCharCode, apply = Reflect.apply;
const wellFormed = Function.prototype.call.bind(String.prototype.toWellFormed);
const codeAt = Function.prototype.call.bind(String.prototype.charCodeAt);
const part = Function.prototype.call.bind(Object.getPrototypeOf(Uint8Array).prototype.subarray);
// Bytes cross to the host as a text with one character for each byte.
const binary = (bytes) => {
  let text = "";
  for (let at = 0; at < bytes.length; at += 4096) text += apply(chars, undefined, part(bytes, at, at + 4096));
  return text;
};
const view = (source) => {
  if (source instanceof Uint8Array) return source;
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  return new Uint8Array(source);
};
// One byte or two for each unit of a text, whether the units make characters or not.
const fromUnits = (text, width) => {
  const bytes = new Uint8Array(text.length * width);
  for (let i = 0; i < text.length; i++) {
    const unit = codeAt(text, i);
    bytes[i * width] = unit;
    if (width === 2) bytes[i * 2 + 1] = unit >> 8;
  }
  return bytes;
};
const toBytes = (text, encoding) => {
  text = `${text}`;
  if (encoding === "utf16le") return fromUnits(text, 2);
  return encoding === "latin1" || encoding === "ascii" ? fromUnits(text, 1) : encode(wellFormed(text), encoding);
};
const units = (bytes) => {
  let text = "";
  for (let at = 0; at + 1 < bytes.length; at += 2) text += chars(bytes[at] | (bytes[at + 1] << 8));
  return text;
};
const toText = (bytes, encoding) => (encoding === "utf16le" ? units(bytes) : decode(binary(bytes), encoding, false));

class TextEncoder {
  get encoding() {
    return "utf-8";
  }
  encode(text = "") {
    return toBytes(text, "utf8");
  }
  encodeInto(text, into) {
    let read = 0, written = 0;
    for (const char of wellFormed(`${text}`)) {
      const bytes = toBytes(char, "utf8");
      if (written + bytes.length > into.length) break;
      into.set(bytes, written);
      read += char.length;
      written += bytes.length;
    }
    return { read, written };
  }
}

const labels = { __proto__: null, "utf-8": "utf8", utf8: "utf8", "unicode-1-1-utf-8": "utf8", "utf-16le": "utf16le", "utf-16": "utf16le", ascii: "latin1", "us-ascii": "latin1", latin1: "latin1", "iso-8859-1": "latin1", "windows-1252": "latin1" };
const named = { __proto__: null, utf8: "utf-8", utf16le: "utf-16le", latin1: "windows-1252" };
// How many bytes at the end of `bytes` begin a character that is not complete.
const unfinished = (bytes, kind) => {
  if (kind === "utf16le") return bytes.length % 2;
  if (kind !== "utf8") return 0;
  for (let back = 1; back <= 3 && back <= bytes.length; back++) {
    const byte = bytes[bytes.length - back];
    if ((byte & 0xc0) === 0x80) continue;
    const wants = byte >= 0xf0 && byte <= 0xf4 ? 4 : byte >= 0xe0 ? (byte < 0xf0 ? 3 : 1) : byte >= 0xc2 ? 2 : 1;
    return wants > back ? back : 0;
  }
  return 0;
};
class TextDecoder {
  #kind;
  #fatal;
  #keepMark;
  #begun = false;
  #left = new Uint8Array(0);
  constructor(label = "utf-8", options = {}) {
    this.#kind = labels[`${label}`.trim().toLowerCase()];
    if (this.#kind === undefined) {
      const error = new RangeError(`The "${label}" encoding is not supported`);
      error.code = "ERR_ENCODING_NOT_SUPPORTED";
      throw error;
    }
    this.#fatal = !!options?.fatal;
    this.#keepMark = !!options?.ignoreBOM;
  }
  get encoding() {
    return named[this.#kind];
  }
  get fatal() {
    return this.#fatal;
  }
  get ignoreBOM() {
    return this.#keepMark;
  }
  decode(source, options = {}) {
    let bytes = source === undefined ? new Uint8Array(0) : view(source);
    if (this.#left.length > 0) {
      const joined = new Uint8Array(this.#left.length + bytes.length);
      joined.set(this.#left);
      joined.set(bytes, this.#left.length);
      bytes = joined;
    }
    const keep = options?.stream ? unfinished(bytes, this.#kind) : 0;
    this.#left = bytes.slice(bytes.length - keep);
    let text;
    try {
      text = decode(binary(bytes.subarray(0, bytes.length - keep)), this.#kind, this.#fatal);
    } catch {
      this.#left = new Uint8Array(0);
      this.#begun = false;
      const error = new TypeError(`The encoded data was not valid for encoding ${this.encoding}`);
      error.code = "ERR_ENCODING_INVALID_ENCODED_DATA";
      throw error;
    }
    if (!this.#begun && !this.#keepMark && text.charCodeAt(0) === 0xfeff && this.#kind !== "latin1") text = text.slice(1);
    this.#begun = options?.stream ? this.#begun || text !== "" : false;
    return text;
  }
}

const wrong = (message) => new DOMException(message, "InvalidCharacterError");
const btoa = (text) => {
  text = `${text}`;
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 255) throw wrong("Invalid character");
  return decode(text, "base64", false);
};
const atob = (text) => {
  text = `${text}`.replace(/[\t\n\f\r ]/g, "");
  if (text.length % 4 === 0) text = text.replace(/==?$/, "");
  if (text.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(text)) throw wrong("The string to be decoded is not correctly encoded.");
  return binary(encode(text, "base64"));
};

const typed = Object.getPrototypeOf(Uint8Array);
const errors = { __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
const clone = (value, seen, depth) => {
  if (typeof value === "function" || typeof value === "symbol") throw new DOMException(`${String(value)} could not be cloned.`, "DataCloneError");
  if (value === null || typeof value !== "object") return value;
  if (seen.has(value)) return seen.get(value);
  if (depth > 1000) throw new DOMException("the value is nested too deeply to be cloned", "DataCloneError");
  const made = (copy) => (seen.set(value, copy), copy);
  const next = (inner) => clone(inner, seen, depth + 1);
  if (Array.isArray(value)) {
    const copy = made(new Array(value.length));
    for (const key of Object.keys(value)) copy[key] = next(value[key]);
    return copy;
  }
  if (value instanceof Date) return made(new Date(value.getTime()));
  if (value instanceof RegExp) return made(new RegExp(value.source, value.flags));
  if (value instanceof Boolean || value instanceof Number || value instanceof String) return made(Object(value.valueOf()));
  if (value instanceof ArrayBuffer) return made(value.slice(0));
  if (value instanceof DataView) return made(new DataView(next(value.buffer), value.byteOffset, value.byteLength));
  if (value instanceof typed) return made(new globalThis[value[Symbol.toStringTag]](next(value.buffer), value.byteOffset, value.length));
  if (value instanceof Map) {
    const copy = made(new Map());
    for (const [key, inner] of [...value]) copy.set(next(key), next(inner));
    return copy;
  }
  if (value instanceof Set) {
    const copy = made(new Set());
    for (const inner of [...value]) copy.add(next(inner));
    return copy;
  }
  if (value instanceof Error) {
    const copy = made(new (errors[value.name] ?? Error)(value.message));
    Object.defineProperty(copy, "stack", { __proto__: null, value: `${value.stack}`, writable: true, configurable: true });
    if ("cause" in value) Object.defineProperty(copy, "cause", { __proto__: null, value: next(value.cause), writable: true, configurable: true });
    return copy;
  }
  if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet || value instanceof WeakRef) throw new DOMException(`${Object.prototype.toString.call(value)} could not be cloned.`, "DataCloneError");
  const copy = made({});
  for (const key of Object.keys(value)) Object.defineProperty(copy, key, { __proto__: null, value: next(value[key]), writable: true, enumerable: true, configurable: true });
  return copy;
};
const structuredClone = (value) => clone(value, new Map(), 0);

return { TextEncoder, TextDecoder, atob, btoa, structuredClone, binary, view, toBytes, toText, wellFormed };
