// `node:url`: addresses as the URL standard reads them; the host's parser does the reading.
const { toBytes, toText, wellFormed } = require("encoding");
const fault = (message, code, fields = {}) => Object.assign(new TypeError(message), { code, ...fields });

const decodeForm = (text) => {
  text = text.replaceAll("+", " ");
  if (!text.includes("%")) return text;
  const bytes = [];
  for (const byte of toBytes(text, "utf8")) bytes.push(byte);
  const out = [];
  const digit = (byte) => (byte >= 48 && byte <= 57 ? byte - 48 : (byte | 32) >= 97 && (byte | 32) <= 102 ? (byte | 32) - 87 : -1);
  for (let i = 0; i < bytes.length; i++) {
    const high = digit(bytes[i + 1] ?? 0), low = digit(bytes[i + 2] ?? 0);
    if (bytes[i] === 37 && high >= 0 && low >= 0) {
      out.push(high * 16 + low);
      i += 2;
    } else out.push(bytes[i]);
  }
  return toText(new Uint8Array(out), "utf8");
};
const encodeForm = (text) => {
  let out = "";
  for (const byte of toBytes(text, "utf8")) {
    const char = String.fromCharCode(byte);
    out += byte === 32 ? "+" : /[A-Za-z0-9*\-._]/.test(char) ? char : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return out;
};
const needs = (count, args) => {
  if (args < count) throw fault(count === 2 ? 'The "name" and "value" arguments must be specified' : 'The "name" argument must be specified', "ERR_MISSING_ARGS");
};
let listOf, tie, renew;
class URLSearchParams {
  #list = [];
  #changed = null;
  constructor(from = "") {
    if (from === null || from === undefined) from = "";
    if (typeof from === "object" || typeof from === "function") {
      const walk = from[Symbol.iterator];
      if (walk !== undefined && walk !== null) {
        if (typeof walk !== "function") throw fault("Query pairs must be iterable", "ERR_ARG_NOT_ITERABLE");
        for (const pair of from) {
          if (pair === null || typeof pair !== "object" || typeof pair[Symbol.iterator] !== "function") throw fault("Each query pair must be an iterable [name, value] tuple", "ERR_INVALID_TUPLE");
          const [...both] = pair;
          if (both.length !== 2) throw fault("Each query pair must be an iterable [name, value] tuple", "ERR_INVALID_TUPLE");
          this.#list.push([wellFormed(`${both[0]}`), wellFormed(`${both[1]}`)]);
        }
      } else {
        for (const key of Reflect.ownKeys(from)) {
          const described = Object.getOwnPropertyDescriptor(from, key);
          if (described?.enumerable) {
            const name = wellFormed(`${key}`), value = wellFormed(`${from[key]}`);
            const at = this.#list.findIndex(([other]) => other === name);
            if (at < 0) this.#list.push([name, value]);
            else this.#list[at][1] = value;
          }
        }
      }
    } else this.#read(`${from}`.replace(/^\?/, ""));
  }
  #read(text) {
    this.#list = [];
    for (const pair of wellFormed(text).split("&")) {
      if (pair === "") continue;
      const at = pair.indexOf("=");
      this.#list.push(at < 0 ? [decodeForm(pair), ""] : [decodeForm(pair.slice(0, at)), decodeForm(pair.slice(at + 1))]);
    }
  }
  static {
    listOf = (params) => params.#list;
    tie = (params, changed) => (params.#changed = changed);
    renew = (params, text) => params.#read(text);
  }
  get size() {
    return this.#list.length;
  }
  append(name, value) {
    needs(2, arguments.length);
    this.#list.push([wellFormed(`${name}`), wellFormed(`${value}`)]);
    this.#changed?.();
  }
  delete(name, value) {
    needs(1, arguments.length);
    name = wellFormed(`${name}`);
    this.#list = this.#list.filter(([key, item]) => key !== name || (value !== undefined && item !== wellFormed(`${value}`)));
    this.#changed?.();
  }
  get(name) {
    needs(1, arguments.length);
    name = wellFormed(`${name}`);
    return this.#list.find(([key]) => key === name)?.[1] ?? null;
  }
  getAll(name) {
    needs(1, arguments.length);
    name = wellFormed(`${name}`);
    return this.#list.filter(([key]) => key === name).map(([, value]) => value);
  }
  has(name, value) {
    needs(1, arguments.length);
    name = wellFormed(`${name}`);
    return this.#list.some(([key, item]) => key === name && (value === undefined || item === wellFormed(`${value}`)));
  }
  set(name, value) {
    needs(2, arguments.length);
    name = wellFormed(`${name}`);
    value = wellFormed(`${value}`);
    const at = this.#list.findIndex(([key]) => key === name);
    if (at < 0) this.#list.push([name, value]);
    else {
      this.#list[at] = [name, value];
      this.#list = this.#list.filter(([key], i) => i <= at || key !== name);
    }
    this.#changed?.();
  }
  sort() {
    this.#list.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.#changed?.();
  }
  toString() {
    return this.#list.map(([name, value]) => `${encodeForm(name)}=${encodeForm(value)}`).join("&");
  }
  forEach(fn, self) {
    if (typeof fn !== "function") throw fault(`The "callback" argument must be of type function. Received ${fn === undefined ? "undefined" : typeof fn}`, "ERR_INVALID_ARG_TYPE");
    for (const [name, value] of this) Reflect.apply(fn, self, [value, name, this]);
  }
  *entries() {
    for (let i = 0; i < this.#list.length; i++) yield [...this.#list[i]];
  }
  *keys() {
    for (let i = 0; i < this.#list.length; i++) yield this.#list[i][0];
  }
  *values() {
    for (let i = 0; i < this.#list.length; i++) yield this.#list[i][1];
  }
  [Symbol.iterator]() {
    return this.entries();
  }
  get [Symbol.toStringTag]() {
    return "URLSearchParams";
  }
  [Symbol.for("nodejs.util.inspect.custom")](_, options, inspect) {
    const pairs = this.#list.map(([name, value]) => `${inspect(name)} => ${inspect(value)}`);
    return pairs.length === 0 ? "URLSearchParams {}" : `URLSearchParams { ${pairs.join(", ")} }`;
  }
}

const parts = ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];
class URL {
  #parts;
  #params;
  constructor(input, base = undefined) {
    if (arguments.length === 0) throw fault('The "url" argument must be specified', "ERR_MISSING_ARGS");
    input = wellFormed(`${input}`);
    if (base !== undefined) base = wellFormed(`${base}`);
    this.#parts = host.urlParse(input, base ?? null);
    if (this.#parts == null) throw fault("Invalid URL", "ERR_INVALID_URL", base === undefined ? { input } : { input, base });
  }
  static canParse(input, base) {
    return host.urlParse(wellFormed(`${input}`), base === undefined ? null : wellFormed(`${base}`)) != null;
  }
  static parse(input, base) {
    try {
      return new URL(input, base);
    } catch {
      return null;
    }
  }
  static createObjectURL() {
    throw fault("URL.createObjectURL is not provided", "ERR_METHOD_NOT_IMPLEMENTED");
  }
  static revokeObjectURL() {}
  static {
    for (let i = 0; i < parts.length; i++) {
      const name = parts[i];
      const set = name === "origin" ? undefined : function (value) {
        value = wellFormed(`${value}`);
        const next = host.urlSet(this.#parts[0], name, value);
        if (next == null) {
          if (name === "href") throw fault("Invalid URL", "ERR_INVALID_URL", { input: value });
          return;
        }
        this.#parts = next;
        if (this.#params !== undefined && (name === "href" || name === "search")) renew(this.#params, next[9].replace(/^\?/, ""));
      };
      Object.defineProperty(URL.prototype, name, { __proto__: null, get: URL.#reader(i), set, configurable: true, enumerable: true });
    }
  }
  static #reader(at) {
    return function () {
      return this.#parts[at];
    };
  }
  get searchParams() {
    if (this.#params === undefined) {
      this.#params = new URLSearchParams(this.#parts[9]);
      tie(this.#params, () => {
        const text = this.#params.toString();
        this.#parts = host.urlSet(this.#parts[0], "search", text) ?? this.#parts;
      });
    }
    return this.#params;
  }
  toString() {
    return this.#parts[0];
  }
  toJSON() {
    return this.#parts[0];
  }
  get [Symbol.toStringTag]() {
    return "URL";
  }
  [Symbol.for("nodejs.util.inspect.custom")](depth, options, inspect) {
    if (typeof depth === "number" && depth < 0) return this.href;
    const shown = {};
    for (const name of [...parts.slice(0, 10), "searchParams", "hash"]) shown[name] = this[name];
    return `URL ${inspect(shown, options)}`;
  }
}
Object.defineProperty(URL.prototype, "searchParams", { __proto__: null, enumerable: true });

const nameOf = (value) => (value === null || value === undefined ? `${value}` : typeof value === "object" ? `an instance of ${value.constructor?.name ?? "Object"}` : `type ${typeof value} (${require("inspect").inspect(value)})`);
function fileURLToPath(url) {
  if (typeof url === "string") url = new URL(url);
  else if (url === null || typeof url !== "object" || typeof url.href !== "string" || typeof url.protocol !== "string") throw fault(`The "path" argument must be of type string or an instance of URL. Received ${nameOf(url)}`, "ERR_INVALID_ARG_TYPE");
  if (url.protocol !== "file:") throw fault("The URL must be of scheme file", "ERR_INVALID_URL_SCHEME");
  if (url.hostname !== "") throw fault("File URL host must be \"localhost\" or empty on linux", "ERR_INVALID_FILE_URL_HOST");
  if (/%2f/i.test(url.pathname)) throw fault("File URL path must not include encoded / characters", "ERR_INVALID_FILE_URL_PATH");
  return decodeURIComponent(url.pathname);
}
function pathToFileURL(path) {
  if (typeof path !== "string") throw fault(`The "path" argument must be of type string. Received ${nameOf(path)}`, "ERR_INVALID_ARG_TYPE");
  let resolved = require("path").resolve(path);
  if (path.endsWith("/") && !resolved.endsWith("/")) resolved += "/";
  const url = new URL("file://");
  url.pathname = resolved.replace(/[%\\\n\r\t?#]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`);
  return url;
}
const urlToHttpOptions = (url) => ({
  protocol: url.protocol, hostname: url.hostname.replace(/^\[(.*)\]$/, "$1"), hash: url.hash, search: url.search, pathname: url.pathname,
  path: `${url.pathname}${url.search}`, href: url.href, ...(url.port === "" ? {} : { port: Number(url.port) }),
  ...(url.username || url.password ? { auth: `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}` } : {}),
});

// What was there before `URL`: taken apart as text, for addresses of the usual form.
class Url {
  protocol = null;
  slashes = null;
  auth = null;
  host = null;
  port = null;
  hostname = null;
  hash = null;
  search = null;
  query = null;
  pathname = null;
  path = null;
  href = "";
}
function parse(text, query = false) {
  if (text instanceof Url) return text;
  if (typeof text !== "string") throw fault(`The "url" argument must be of type string. Received ${nameOf(text)}`, "ERR_INVALID_ARG_TYPE");
  const found = /^([a-zA-Z][a-zA-Z0-9+.-]*:)?(\/\/)?(?:([^/?#]*)@)?([^/?#]*)([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(text.trim());
  const url = new Url();
  let [, protocol, slashes, auth, authority, path, search, hash] = found;
  if (!slashes) {
    path = `${auth === undefined ? "" : `${auth}@`}${authority}${path}`;
    auth = authority = undefined;
  }
  if (protocol !== undefined) url.protocol = protocol.toLowerCase();
  if (slashes) {
    url.slashes = true;
    url.auth = auth === undefined ? null : decodeURIComponent(auth);
    url.port = /:(\d+)$/.exec(authority)?.[1] ?? null;
    url.hostname = authority.replace(/:\d*$/, "").toLowerCase();
    url.host = url.hostname + (url.port === null ? "" : `:${url.port}`);
  }
  url.hash = hash ?? null;
  url.search = search ?? (query ? "" : null);
  url.query = query ? require("querystring").parse((search ?? "").slice(1)) : search === undefined ? null : search.slice(1);
  url.pathname = path || (slashes && /^(https?|ftp|file|wss?):$/.test(url.protocol ?? "") ? "/" : null);
  if (url.pathname !== null || search !== undefined) url.path = `${url.pathname ?? ""}${search ?? ""}`;
  url.href = format(url);
  return url;
}
function format(url) {
  if (typeof url === "string") url = parse(url);
  if (url instanceof URL) return url.href;
  const auth = url.auth ? `${encodeURIComponent(url.auth).replace(/%3A/i, ":")}@` : "";
  const protocol = url.protocol ? (url.protocol.endsWith(":") ? url.protocol : `${url.protocol}:`) : "";
  const where = url.host ? auth + url.host : url.hostname ? auth + url.hostname + (url.port ? `:${url.port}` : "") : "";
  const asked = url.search ?? (url.query !== null && typeof url.query === "object" && Object.keys(url.query).length ? `?${require("querystring").stringify(url.query)}` : "");
  const slashes = url.slashes || (/^(https?|ftp|file|wss?):?$/.test(protocol) && where !== "") ? "//" : "";
  let path = url.pathname ?? "";
  if (slashes && path !== "" && !path.startsWith("/")) path = `/${path}`;
  const hash = url.hash ? (url.hash.startsWith("#") ? url.hash : `#${url.hash}`) : "";
  return protocol + (slashes || where ? slashes || "//" : "") + where + path.replace(/[?#]/g, encodeURIComponent) + (asked && !asked.startsWith("?") ? `?${asked}` : asked).replaceAll("#", "%23") + hash;
}
function resolve(from, to) {
  const base = new URL(from, "resolve://");
  const url = new URL(to, base);
  if (url.protocol !== "resolve:") return url.href;
  return from.startsWith("/") || to.startsWith("/") ? `${url.pathname}${url.search}${url.hash}` : `${url.pathname.slice(1)}${url.search}${url.hash}`;
}
return { URL, URLSearchParams, Url, parse, format, resolve, fileURLToPath, pathToFileURL, urlToHttpOptions, domainToASCII: (name) => host.domain(`${name}`, false), domainToUnicode: (name) => host.domain(`${name}`, true) };
