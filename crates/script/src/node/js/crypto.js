// `node:crypto`: digests, authentication codes and randomness. Keys and ciphers are not provided.
const { Buffer } = require("buffer");
const { binary, view } = require("encoding");
const fault = (message, code, Kind = TypeError) => Object.assign(new Kind(message), { code });
const bytesOf = (data, encoding, name = "data") => {
  if (typeof data === "string") return Buffer.from(data, encoding === "buffer" ? undefined : encoding);
  if (ArrayBuffer.isView(data) || data instanceof ArrayBuffer) return view(data);
  if (data instanceof KeyObject) return data.bytes;
  throw fault(`The "${name}" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received ${require("inspect").inspect(data)}`, "ERR_INVALID_ARG_TYPE");
};
const wrapped = (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
const named = (algorithm) => {
  if (typeof algorithm !== "string") throw fault(`The "algorithm" argument must be of type string. Received ${require("inspect").inspect(algorithm)}`, "ERR_INVALID_ARG_TYPE");
  return algorithm.toLowerCase().replace(/^(rsa-)?sha-?(1|256|384|512)$/, "sha$2");
};
const known = ["md5", "sha1", "sha256", "sha384", "sha512"];
class KeyObject {
  constructor(bytes) {
    Object.defineProperty(this, "bytes", { __proto__: null, value: bytes });
    this.type = "secret";
  }
  export() {
    return Buffer.from(this.bytes);
  }
}
class Digest {
  #pieces;
  #finish;
  #ended = false;
  constructor(finish, pieces = []) {
    this.#finish = finish;
    this.#pieces = pieces;
  }
  update(data, encoding) {
    if (this.#ended) throw fault("Digest already called", "ERR_CRYPTO_HASH_FINALIZED", Error);
    this.#pieces.push(binary(bytesOf(data, encoding)));
    return this;
  }
  digest(encoding) {
    if (this.#ended) throw fault("Digest already called", "ERR_CRYPTO_HASH_FINALIZED", Error);
    this.#ended = true;
    const made = wrapped(this.#finish(this.#pieces.join("")));
    return encoding === undefined || encoding === "buffer" ? made : made.toString(encoding);
  }
  copy() {
    return new this.constructor(this.#finish, [...this.#pieces]);
  }
  write(data) {
    this.update(data);
    return true;
  }
  end(data) {
    if (data !== undefined) this.update(data);
  }
}
class Hash extends Digest {}
class Hmac extends Digest {}
const createHash = (algorithm) => {
  const name = named(algorithm);
  if (!known.includes(name)) throw new Error("Digest method not supported");
  return new Hash((text) => host.digest(name, text));
};
const createHmac = (algorithm, key) => {
  const name = named(algorithm);
  const secret = binary(bytesOf(key, undefined, "key"));
  if (!known.includes(name)) throw fault(`Invalid digest: ${algorithm}`, "ERR_CRYPTO_INVALID_DIGEST");
  if (name !== "md5") return new Hmac((text) => host.hmac(name, secret, text));
  // What is no longer offered elsewhere is made of its parts.
  const short = secret.length > 64 ? binary(host.digest("md5", secret)) : secret;
  const pad = (byte) => Array.from({ length: 64 }, (_, i) => String.fromCharCode((short.charCodeAt(i) || 0) ^ byte)).join("");
  return new Hmac((text) => host.digest("md5", pad(0x5c) + binary(host.digest("md5", pad(0x36) + text))));
};
const sized = (size) => {
  if (typeof size !== "number") throw fault(`The "size" argument must be of type number. Received ${require("inspect").inspect(size)}`, "ERR_INVALID_ARG_TYPE");
  if (!(Number.isInteger(size) && size >= 0 && size <= 2147483647)) throw fault(`The value of "size" is out of range. It must be >= 0 && <= 2147483647. Received ${size}`, "ERR_OUT_OF_RANGE", RangeError);
  return size;
};
const randomBytes = (size, back) => {
  const made = wrapped(host.random(sized(size)));
  if (back === undefined) return made;
  queueMicrotask(() => back(null, made));
  return undefined;
};
const randomInt = (low, high, back) => {
  if (high === undefined || typeof high === "function") [low, high, back] = [0, low, high];
  if (!(Number.isSafeInteger(low) && Number.isSafeInteger(high) && high > low && high - low <= 2 ** 48)) throw fault(`The value of "max" is out of range. It must be greater than the value of "min" (${low}). Received ${high}`, "ERR_OUT_OF_RANGE", RangeError);
  const range = high - low, most = 2 ** 48 - (2 ** 48 % range);
  let value;
  do value = wrapped(host.random(6)).readUIntBE(0, 6);
  while (value >= most);
  if (back === undefined) return low + (value % range);
  queueMicrotask(() => back(null, low + (value % range)));
  return undefined;
};
const getRandomValues = (into) => {
  if (!ArrayBuffer.isView(into) || into instanceof Float32Array || into instanceof Float64Array || into instanceof DataView) throw new DOMException("The data argument must be an integer-type TypedArray", "TypeMismatchError");
  if (into.byteLength > 65536) throw new DOMException(`The requested length exceeds 65,536 bytes`, "QuotaExceededError");
  view(into).set(host.random(into.byteLength));
  return into;
};
const timingSafeEqual = (a, b) => {
  const [one, other] = [bytesOf(a, undefined, "buf1"), bytesOf(b, undefined, "buf2")];
  if (one.length !== other.length) throw fault("Input buffers must have the same byte length", "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH", RangeError);
  let differ = 0;
  for (let i = 0; i < one.length; i++) differ |= one[i] ^ other[i];
  return differ === 0;
};
const { refusing, refusingLater } = require("absent");
const missing = (name) => refusing(`crypto.${name}`);
const subtle = {
  async digest(algorithm, data) {
    const name = named(typeof algorithm === "string" ? algorithm : algorithm?.name ?? "");
    if (!known.includes(name) || name === "md5") throw new DOMException("Unrecognized algorithm name", "NotSupportedError");
    const made = host.digest(name, binary(view(data)));
    return made.buffer.slice(made.byteOffset, made.byteOffset + made.length);
  },
};
for (const name of ["encrypt", "decrypt", "sign", "verify", "generateKey", "importKey", "exportKey", "deriveBits", "deriveKey", "wrapKey", "unwrapKey"]) subtle[name] = refusingLater(`crypto.subtle.${name}`);
const randomUUID = () => host.uuid();
const randomFillSync = (into, offset = 0, size = into.byteLength - offset) => (view(into).subarray(offset, offset + size).set(host.random(size)), into);
const randomFill = (into, ...rest) => {
  const back = rest.pop();
  if (typeof back !== "function") throw fault('The "callback" argument must be of type function', "ERR_INVALID_ARG_TYPE");
  const made = randomFillSync(into, ...rest);
  queueMicrotask(() => back(null, made));
};
// RFC 5869: the key is drawn together, and then drawn out.
const hkdfSync = (algorithm, key, salt, info, length) => {
  const name = named(algorithm);
  if (!known.includes(name)) throw fault(`Invalid digest: ${algorithm}`, "ERR_CRYPTO_INVALID_DIGEST");
  const size = createHash(name).digest().length;
  if (!(Number.isInteger(length) && length >= 0)) throw fault(`The value of "length" is out of range. Received ${length}`, "ERR_OUT_OF_RANGE", RangeError);
  if (length > 255 * size) throw fault("Invalid key length", "ERR_CRYPTO_INVALID_KEYLEN", RangeError);
  const given = bytesOf(salt, undefined, "salt");
  const drawn = createHmac(name, given.length > 0 ? given : Buffer.alloc(size)).update(bytesOf(key, undefined, "ikm")).digest();
  const blocks = [];
  for (let last = Buffer.alloc(0); blocks.length * size < length; blocks.push(last)) {
    last = createHmac(name, drawn).update(last).update(bytesOf(info, undefined, "info")).update(Buffer.from([blocks.length + 1])).digest();
  }
  const made = Buffer.concat(blocks);
  return made.buffer.slice(made.byteOffset, made.byteOffset + length);
};
const hkdf = (algorithm, key, salt, info, length, back) => {
  const made = hkdfSync(algorithm, key, salt, info, length);
  queueMicrotask(() => back(null, made));
};
const crypto = {
  createHash, createHmac, randomBytes, pseudoRandomBytes: randomBytes, randomInt, randomUUID, getRandomValues, timingSafeEqual, subtle,
  randomFill, randomFillSync, hkdf, hkdfSync, Hash, Hmac, KeyObject, getCurves: () => [], getFips: () => 0, getCipherInfo: () => undefined,
  hash: (algorithm, data, encoding = "hex") => createHash(algorithm).update(data).digest(encoding),
  createSecretKey: (key, encoding) => new KeyObject(Buffer.from(bytesOf(key, encoding, "key"))),
  getHashes: () => [...known], getCiphers: () => [], constants: {}, webcrypto: { subtle, getRandomValues, randomUUID },
};
for (const name of ["createCipheriv", "createDecipheriv", "createSign", "createVerify", "createPrivateKey", "createPublicKey", "createDiffieHellman", "createECDH", "generateKeyPair", "generateKeyPairSync", "generateKeySync", "pbkdf2", "pbkdf2Sync", "scrypt", "scryptSync", "sign", "verify", "publicEncrypt", "privateDecrypt"]) crypto[name] = missing(name);
return crypto;
