// `node:buffer`: bytes with Node's methods.
const { binary, view, toBytes, toText } = require("encoding");
const bad = (message, code = "ERR_INVALID_ARG_TYPE", Kind = TypeError) => {
  const error = new Kind(message);
  error.code = code;
  return error;
};
const names = { __proto__: null, utf8: "utf8", "utf-8": "utf8", hex: "hex", base64: "base64", base64url: "base64url", latin1: "latin1", binary: "latin1", ascii: "ascii", ucs2: "utf16le", "ucs-2": "utf16le", utf16le: "utf16le", "utf-16le": "utf16le" };
const encodingOf = (encoding) => {
  if (encoding === undefined || encoding === null || encoding === "") return "utf8";
  const name = names[encoding] ?? names[`${encoding}`.toLowerCase()];
  if (name === undefined) throw bad(`Unknown encoding: ${encoding}`, "ERR_UNKNOWN_ENCODING");
  return name;
};
const shown = (value) => {
  if (value === null || value === undefined) return `${value}`;
  if (typeof value === "function") return `function ${value.name}`;
  if (typeof value === "object") return value.constructor?.name ? `an instance of ${value.constructor.name}` : require("util").inspect(value, { depth: -1 });
  return `type ${typeof value} (${require("util").inspect(value)})`;
};
const most = 1 << 27;
const sized = (size) => {
  if (typeof size !== "number") throw bad(`The "size" argument must be of type number. Received ${shown(size)}`);
  if (!(size >= 0 && size <= most)) throw bad(`The value of "size" is out of range. It must be >= 0 && <= ${most}. Received ${size}`, "ERR_OUT_OF_RANGE", RangeError);
  return size;
};
const clamp = (value, length, or) => {
  if (value === undefined) return or;
  value = Math.trunc(Number(value)) || 0;
  return value < 0 ? 0 : value > length ? length : value;
};

class Buffer extends Uint8Array {
  static poolSize = 8192;
  static of(...items) {
    return Buffer.from(items);
  }
  static from(value, encoding, length) {
    if (typeof value === "string") return own(toBytes(value, encodingOf(encoding)));
    if (value instanceof ArrayBuffer) return new Buffer(value, encoding, length);
    if (ArrayBuffer.isView(value) || Array.isArray(value)) return filled(value);
    if (value !== null && typeof value === "object") {
      const primitive = value.valueOf?.();
      if (primitive !== value && primitive !== null && primitive !== undefined) return Buffer.from(primitive, encoding, length);
      if (value.type === "Buffer" && Array.isArray(value.data)) return filled(value.data);
      if (typeof value.length === "number") return filled(value);
      if (typeof value[Symbol.toPrimitive] === "function") return Buffer.from(value[Symbol.toPrimitive]("string"), encoding);
    }
    throw bad(`The first argument must be of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object. Received ${shown(value)}`);
  }
  static alloc(size, fill, encoding) {
    const made = new Buffer(sized(size));
    return fill === undefined || fill === 0 ? made : made.fill(fill, encoding);
  }
  static allocUnsafe(size) {
    return new Buffer(sized(size));
  }
  static allocUnsafeSlow(size) {
    return new Buffer(sized(size));
  }
  static concat(list, length) {
    if (!Array.isArray(list)) throw bad(`The "list" argument must be an instance of Array. Received ${shown(list)}`);
    let total = 0;
    for (let i = 0; i < list.length; i++) {
      if (!(list[i] instanceof Uint8Array)) throw bad(`The "list[${i}]" argument must be an instance of Buffer or Uint8Array. Received ${shown(list[i])}`);
      total += list[i].length;
    }
    const made = Buffer.alloc(length ?? total);
    let at = 0;
    for (const item of list) {
      if (at >= made.length) break;
      made.set(at + item.length > made.length ? item.subarray(0, made.length - at) : item, at);
      at += item.length;
    }
    return made;
  }
  static isBuffer(value) {
    return value instanceof Buffer;
  }
  static isEncoding(name) {
    return typeof name === "string" && name !== "" && names[name.toLowerCase()] !== undefined;
  }
  static byteLength(value, encoding) {
    if (typeof value !== "string") {
      if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return value.byteLength;
      throw bad(`The "string" argument must be of type string or an instance of Buffer or ArrayBuffer. Received ${shown(value)}`);
    }
    const name = names[`${encoding}`.toLowerCase()] ?? "utf8";
    if (name === "latin1" || name === "ascii") return value.length;
    if (name === "utf16le") return value.length * 2;
    if (name === "hex") return value.length >>> 1;
    if (name === "base64" || name === "base64url") {
      let bytes = value.length;
      if (value.charCodeAt(bytes - 1) === 61) bytes--;
      if (bytes > 1 && value.charCodeAt(bytes - 1) === 61) bytes--;
      return (bytes * 3) >>> 2;
    }
    return toBytes(value, name).length;
  }
  static compare(a, b) {
    if (!(a instanceof Uint8Array)) throw bad(`The "buf1" argument must be an instance of Buffer or Uint8Array. Received ${shown(a)}`);
    if (!(b instanceof Uint8Array)) throw bad(`The "buf2" argument must be an instance of Buffer or Uint8Array. Received ${shown(b)}`);
    for (let i = 0; i < a.length && i < b.length; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
    return a.length === b.length ? 0 : a.length < b.length ? -1 : 1;
  }
  get parent() {
    return this.buffer;
  }
  get offset() {
    return this.byteOffset;
  }
  toString(encoding, start, end) {
    start = clamp(start, this.length, 0);
    end = clamp(end, this.length, this.length);
    return end <= start ? "" : toText(Uint8Array.prototype.subarray.call(this, start, end), encodingOf(encoding));
  }
  toLocaleString(encoding, start, end) {
    return this.toString(encoding, start, end);
  }
  toJSON() {
    return { type: "Buffer", data: Array.from(this) };
  }
  equals(other) {
    if (!(other instanceof Uint8Array)) throw bad(`The "otherBuffer" argument must be an instance of Buffer or Uint8Array. Received ${shown(other)}`);
    return Buffer.compare(this, other) === 0;
  }
  compare(other, from = 0, to = other.length, mine = 0, end = this.length) {
    return Buffer.compare(this.subarray(mine, end), Uint8Array.prototype.subarray.call(other, from, to));
  }
  slice(start, end) {
    return this.subarray(start, end);
  }
  subarray(start = 0, end = this.length) {
    const place = (value) => ((value = Math.trunc(Number(value)) || 0), value < 0 ? Math.max(this.length + value, 0) : Math.min(value, this.length));
    const from = place(start);
    return new Buffer(this.buffer, this.byteOffset + from, Math.max(place(end) - from, 0));
  }
  copy(target, at = 0, start = 0, end = this.length) {
    const piece = Uint8Array.prototype.subarray.call(this, start, Math.min(end, start + Math.max(target.length - at, 0)));
    if (at < target.length) target.set(piece, at);
    return at < target.length ? piece.length : 0;
  }
  write(text, at = 0, length, encoding) {
    if (typeof text !== "string") throw bad(`The "string" argument must be of type string. Received ${shown(text)}`);
    if (typeof at === "string") [encoding, at, length] = [at, 0, undefined];
    else if (typeof length === "string") [encoding, length] = [length, undefined];
    const kind = encodingOf(encoding);
    let bytes = toBytes(text, kind);
    const room = Math.min(this.length - at, length ?? Infinity);
    if (bytes.length > room) {
      let end = room;
      if (kind === "utf8") while (end > 0 && (bytes[end] & 0xc0) === 0x80) end--;
      if (kind === "utf16le") end -= end % 2;
      bytes = bytes.subarray(0, end);
    }
    this.set(bytes, at);
    return bytes.length;
  }
  fill(value, start, end, encoding) {
    if (typeof start === "string") [encoding, start, end] = [start, undefined, undefined];
    else if (typeof end === "string") [encoding, end] = [end, undefined];
    const from = start ?? 0, to = end ?? this.length;
    if (typeof value === "string") value = value === "" ? 0 : toBytes(value, encodingOf(encoding));
    if (!(value instanceof Uint8Array)) {
      Uint8Array.prototype.fill.call(this, Number(value) & 255, from, to);
      return this;
    }
    if (value.length === 0) throw bad("The argument 'value' is invalid", "ERR_INVALID_ARG_VALUE");
    for (let i = from; i < to; i++) this[i] = value[(i - from) % value.length];
    return this;
  }
  indexOf(value, from = 0, encoding) {
    return find(this, value, from, encoding, 1);
  }
  lastIndexOf(value, from = Infinity, encoding) {
    return find(this, value, from, encoding, -1);
  }
  includes(value, from, encoding) {
    return this.indexOf(value, from, encoding) !== -1;
  }
  swap16() {
    return swapped(this, 2);
  }
  swap32() {
    return swapped(this, 4);
  }
  swap64() {
    return swapped(this, 8);
  }
  [Symbol.for("nodejs.util.inspect.custom")]() {
    let text = "";
    for (let i = 0; i < this.length && i < 50; i++) text += ` ${this[i].toString(16).padStart(2, "0")}`;
    if (this.length > 50) text += ` ... ${this.length - 50} more byte${this.length > 51 ? "s" : ""}`;
    return `<${this.constructor.name}${text === "" ? " " : text}>`;
  }
}
const own = (bytes) => new Buffer(bytes.buffer, bytes.byteOffset, bytes.length);
const filled = (items) => {
  const made = new Buffer(sized(items.length));
  for (let i = 0; i < made.length; i++) made[i] = items[i];
  return made;
};
const swapped = (bytes, width) => {
  if (bytes.length % width) throw bad(`Buffer size must be a multiple of ${width * 8}-bits`, "ERR_INVALID_BUFFER_SIZE", RangeError);
  for (let i = 0; i < bytes.length; i += width) Uint8Array.prototype.subarray.call(bytes, i, i + width).reverse();
  return bytes;
};
const find = (bytes, value, from, encoding, step) => {
  if (typeof from === "string") [encoding, from] = [from, step > 0 ? 0 : Infinity];
  const wanted = typeof value === "number" ? [value & 255] : typeof value === "string" ? toBytes(value, encodingOf(encoding)) : value;
  if (wanted === null || typeof wanted !== "object") throw bad(`The "value" argument must be one of type number or string or an instance of Buffer or Uint8Array. Received ${shown(value)}`);
  const last = bytes.length - wanted.length;
  from = Number(from);
  if (Number.isNaN(from)) from = step > 0 ? 0 : last;
  let at = Math.trunc(from < 0 ? bytes.length + from : from);
  if (wanted.length === 0) return Math.max(0, Math.min(at, bytes.length));
  at = step > 0 ? Math.max(at, 0) : Math.min(at, last);
  next: for (; at >= 0 && at <= last; at += step) {
    for (let i = 0; i < wanted.length; i++) if (bytes[at + i] !== wanted[i]) continue next;
    return at;
  }
  return -1;
};

// Numbers in bytes. Each kind reads and writes through a `DataView`, at a place that has to be inside.
const place = (bytes, at, width) => {
  if (typeof at !== "number") throw bad(`The "offset" argument must be of type number. Received ${shown(at)}`);
  if (!Number.isInteger(at)) throw bad(`The value of "offset" is out of range. It must be an integer. Received ${at}`, "ERR_OUT_OF_RANGE", RangeError);
  if (bytes.length < width) throw bad("Attempt to access memory outside buffer bounds", "ERR_BUFFER_OUT_OF_BOUNDS", RangeError);
  if (at < 0 || at + width > bytes.length) throw bad(`The value of "offset" is out of range. It must be >= 0 and <= ${bytes.length - width}. Received ${at}`, "ERR_OUT_OF_RANGE", RangeError);
  return new DataView(bytes.buffer, bytes.byteOffset + at, width);
};
const method = (name, fn) => Object.defineProperty(Buffer.prototype, name, { __proto__: null, value: fn, writable: true, configurable: true });
const kinds = [["Int8", 1, "Int8"], ["UInt8", 1, "Uint8"], ["Int16", 2, "Int16"], ["UInt16", 2, "Uint16"], ["Int32", 4, "Int32"], ["UInt32", 4, "Uint32"], ["Float", 4, "Float32"], ["Double", 8, "Float64"], ["BigInt64", 8, "BigInt64"], ["BigUInt64", 8, "BigUint64"]];
for (const [name, width, kind] of kinds) {
  const floats = name === "Float" || name === "Double", big = name.startsWith("Big");
  const unsigned = name.includes("UInt"), bits = big ? 64 : width * 8;
  const low = big ? (unsigned ? 0n : -(2n ** 63n)) : unsigned ? 0 : -(2 ** (bits - 1));
  const high = big ? (unsigned ? 2n ** 64n - 1n : 2n ** 63n - 1n) : unsigned ? 2 ** bits - 1 : 2 ** (bits - 1) - 1;
  for (const end of width === 1 ? [""] : ["LE", "BE"]) {
    const read = function (at = 0) {
      return place(this, at, width)[`get${kind}`](0, end === "LE");
    };
    const write = function (value, at = 0) {
      if (!big) value = Number(value);
      if (!floats && (value < low || value > high)) throw bad(`The value of "value" is out of range. It must be >= ${low} and <= ${high}. Received ${value}`, "ERR_OUT_OF_RANGE", RangeError);
      place(this, at, width)[`set${kind}`](0, value, end === "LE");
      return at + width;
    };
    for (const alias of unsigned ? [name, name.replace("UInt", "Uint")] : [name]) {
      method(`read${alias}${end}`, read);
      method(`write${alias}${end}`, write);
    }
  }
}
for (const signed of [true, false])
  for (const end of ["LE", "BE"]) {
    const name = signed ? "Int" : "UInt";
    method(`read${name}${end}`, function (at, width) {
      place(this, at, width);
      let value = 0;
      for (let i = 0; i < width; i++) value = value * 256 + this[at + (end === "BE" ? i : width - 1 - i)];
      return signed && value >= 2 ** (width * 8 - 1) ? value - 2 ** (width * 8) : value;
    });
    method(`write${name}${end}`, function (value, at, width) {
      place(this, at, width);
      if (value < 0) value += 2 ** (width * 8);
      for (let i = 0; i < width; i++) {
        this[at + (end === "LE" ? i : width - 1 - i)] = value % 256;
        value = Math.floor(value / 256);
      }
      return at + width;
    });
  }

// What was a function before there were classes can be called without `new`.
const callable = new Proxy(Buffer, {
  __proto__: null,
  apply: (_, __, [value, encoding, length]) => (typeof value === "number" ? Buffer.alloc(value) : Buffer.from(value, encoding, length)),
  construct: (target, args, as) => (typeof args[0] === "string" || Array.isArray(args[0]) ? Buffer.from(...args) : Reflect.construct(target, args, as === callable ? Buffer : as)),
});
method("constructor", callable);
const { atob, btoa } = require("encoding");
return {
  Buffer: callable, SlowBuffer: callable, kMaxLength: most, kStringMaxLength: (1 << 29) - 24, INSPECT_MAX_BYTES: 50,
  constants: { MAX_LENGTH: most, MAX_STRING_LENGTH: (1 << 29) - 24 }, atob, btoa, binary, view,
  isAscii: (bytes) => view(bytes).every((byte) => byte < 128),
  isUtf8(bytes) {
    try {
      new TextDecoder("utf-8", { fatal: true }).decode(view(bytes));
      return true;
    } catch {
      return false;
    }
  },
  get Blob() {
    return require("blob").Blob;
  },
  get File() {
    return require("blob").File;
  },
};
