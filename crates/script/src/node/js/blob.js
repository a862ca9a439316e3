// `Blob`, `File` and `FormData`.
const { toBytes, toText, view, wellFormed } = require("encoding");
const joined = (pieces) => {
  const parts = [];
  let size = 0;
  for (const piece of pieces) {
    const bytes = piece instanceof Blob ? bytesOf(piece) : piece instanceof ArrayBuffer || ArrayBuffer.isView(piece) ? view(piece) : toBytes(`${piece}`, "utf8");
    parts.push(bytes);
    size += bytes.length;
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
};
let bytesOf;
class Blob {
  #bytes;
  #type;
  constructor(pieces = [], options = {}) {
    if (pieces === null || typeof pieces !== "object" || typeof pieces[Symbol.iterator] !== "function") throw Object.assign(new TypeError('The "sources" argument must be an iterable'), { code: "ERR_INVALID_ARG_TYPE" });
    this.#bytes = joined(pieces);
    const type = `${options?.type ?? ""}`;
    this.#type = /[^\x20-\x7e]/.test(type) ? "" : type.toLowerCase();
  }
  static {
    bytesOf = (blob) => blob.#bytes;
  }
  get size() {
    return this.#bytes.length;
  }
  get type() {
    return this.#type;
  }
  slice(start = 0, end = this.size, type = "") {
    return new Blob([this.#bytes.slice(start, end)], { type });
  }
  async arrayBuffer() {
    return this.#bytes.slice().buffer;
  }
  async bytes() {
    return this.#bytes.slice();
  }
  async text() {
    return toText(this.#bytes, "utf8");
  }
  stream() {
    return require("webstreams").streamOf([this.#bytes.slice()]);
  }
  get [Symbol.toStringTag]() {
    return "Blob";
  }
}
class File extends Blob {
  #name;
  #at;
  constructor(pieces, name, options = {}) {
    if (arguments.length < 2) throw Object.assign(new TypeError('The "sources" and "fileName" arguments must be specified'), { code: "ERR_MISSING_ARGS" });
    super(pieces, options);
    this.#name = wellFormed(`${name}`);
    this.#at = options?.lastModified ?? Date.now();
  }
  get name() {
    return this.#name;
  }
  get lastModified() {
    return this.#at;
  }
  get webkitRelativePath() {
    return "";
  }
  get [Symbol.toStringTag]() {
    return "File";
  }
}

const entry = (name, value, file) => {
  name = wellFormed(`${name}`);
  if (!(value instanceof Blob)) return [name, wellFormed(`${value}`)];
  if (value instanceof File && file === undefined) return [name, value];
  return [name, new File([value], file ?? "blob", { type: value.type })];
};
class FormData {
  #list = [];
  append(name, value, file) {
    this.#list.push(entry(name, value, file));
  }
  set(name, value, file) {
    const made = entry(name, value, file);
    const at = this.#list.findIndex(([other]) => other === made[0]);
    if (at < 0) this.#list.push(made);
    else {
      this.#list[at] = made;
      this.#list = this.#list.filter(([other], i) => i <= at || other !== made[0]);
    }
  }
  delete(name) {
    this.#list = this.#list.filter(([other]) => other !== `${name}`);
  }
  get(name) {
    return this.#list.find(([other]) => other === `${name}`)?.[1] ?? null;
  }
  getAll(name) {
    return this.#list.filter(([other]) => other === `${name}`).map(([, value]) => value);
  }
  has(name) {
    return this.#list.some(([other]) => other === `${name}`);
  }
  forEach(fn, self) {
    for (const [name, value] of this) Reflect.apply(fn, self, [value, name, this]);
  }
  *entries() {
    for (const [name, value] of this.#list) yield [name, value];
  }
  *keys() {
    for (const [name] of this.#list) yield name;
  }
  *values() {
    for (const [, value] of this.#list) yield value;
  }
  [Symbol.iterator]() {
    return this.entries();
  }
  get [Symbol.toStringTag]() {
    return "FormData";
  }
}
// A form as the body of a request.
const escaped = (name) => name.replace(/\r\n|\r|\n/g, "%0D%0A").replaceAll('"', "%22");
const multipart = (form) => {
  const mark = `----form-${host.uuid()}`;
  const pieces = [];
  for (const [name, value] of form) {
    pieces.push(`--${mark}\r\nContent-Disposition: form-data; name="${escaped(name)}"`);
    if (value instanceof Blob) pieces.push(`; filename="${escaped(value.name)}"\r\nContent-Type: ${value.type || "application/octet-stream"}\r\n\r\n`, value, "\r\n");
    else pieces.push(`\r\n\r\n${value}\r\n`);
  }
  pieces.push(`--${mark}--\r\n`);
  return { bytes: joined(pieces), type: `multipart/form-data; boundary=${mark}` };
};
return { Blob, File, FormData, bytesOf: (blob) => bytesOf(blob), multipart };
