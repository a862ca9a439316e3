// `node:string_decoder`: text out of bytes that come in pieces.
const { Buffer } = require("buffer");
const { TextDecoder } = require("encoding");
class StringDecoder {
  #decoder = null;
  #left = Buffer.alloc(0);
  constructor(encoding) {
    if (encoding !== undefined && !Buffer.isEncoding(encoding)) throw Object.assign(new TypeError(`Unknown encoding: ${encoding}`), { code: "ERR_UNKNOWN_ENCODING" });
    const name = `${encoding ?? "utf8"}`.toLowerCase();
    this.encoding = name === "utf-8" ? "utf8" : /^(ucs-?2|utf-?16le)$/.test(name) ? "utf16le" : name === "binary" ? "latin1" : name;
    if (this.encoding === "utf8" || this.encoding === "utf16le") this.#decoder = new TextDecoder(this.encoding === "utf8" ? "utf-8" : "utf-16le", { ignoreBOM: true });
  }
  write(bytes) {
    if (typeof bytes === "string") return bytes;
    if (this.#decoder !== null) return this.#decoder.decode(bytes, { stream: true });
    const all = Buffer.concat([this.#left, bytes]);
    const whole = this.encoding.startsWith("base64") ? all.length - (all.length % 3) : all.length;
    this.#left = all.subarray(whole);
    return all.toString(this.encoding, 0, whole);
  }
  end(bytes) {
    const text = bytes === undefined ? "" : this.write(bytes);
    if (this.#decoder !== null) return text + this.#decoder.decode();
    const rest = this.#left.toString(this.encoding);
    this.#left = Buffer.alloc(0);
    return text + rest;
  }
}
return { StringDecoder };
