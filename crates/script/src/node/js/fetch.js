// `fetch` and what goes with it.
const { binary, view, toBytes, toText, wellFormed } = require("encoding");
const { Blob, FormData, bytesOf, multipart } = require("blob");
const { URL, URLSearchParams } = require("url");
const { ReadableStream, streamOf } = require("webstreams");
const fault = (message) => new TypeError(message);

const nameOf = (name) => {
  name = `${name}`;
  if (!/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(name)) throw fault(`Invalid header name: ${name}`);
  return name.toLowerCase();
};
const valueOf = (value) => {
  value = `${value}`.replace(/^[\t\r\n ]+|[\t\r\n ]+$/g, "");
  if (/[\0\r\n]/.test(value) || /[^\0-\xff]/.test(value)) throw fault("Invalid header value");
  return value;
};
class Headers {
  #list = [];
  constructor(from = undefined) {
    if (from === undefined || from === null) return;
    if (typeof from !== "object") throw fault("Headers are made of a list, an object or other headers");
    const pairs = typeof from[Symbol.iterator] === "function" ? from : Object.entries(from);
    for (const pair of pairs) {
      const [name, value, more] = [...pair];
      if (value === undefined && more === undefined && [...pair].length !== 2) throw fault("Each header has a name and a value");
      this.append(name, value);
    }
  }
  append(name, value) {
    this.#list.push([nameOf(name), valueOf(value)]);
  }
  delete(name) {
    name = nameOf(name);
    this.#list = this.#list.filter(([other]) => other !== name);
  }
  get(name) {
    name = nameOf(name);
    const found = this.#list.filter(([other]) => other === name).map(([, value]) => value);
    return found.length === 0 ? null : found.join(", ");
  }
  getSetCookie() {
    return this.#list.filter(([name]) => name === "set-cookie").map(([, value]) => value);
  }
  has(name) {
    name = nameOf(name);
    return this.#list.some(([other]) => other === name);
  }
  set(name, value) {
    this.delete(name);
    this.append(name, value);
  }
  forEach(fn, self) {
    for (const [name, value] of this) Reflect.apply(fn, self, [value, name, this]);
  }
  *entries() {
    const names = [...new Set(this.#list.map(([name]) => name))].sort();
    for (const name of names) {
      if (name === "set-cookie") for (const value of this.getSetCookie()) yield [name, value];
      else yield [name, this.get(name)];
    }
  }
  *keys() {
    for (const [name] of this) yield name;
  }
  *values() {
    for (const [, value] of this) yield value;
  }
  [Symbol.iterator]() {
    return this.entries();
  }
  get [Symbol.toStringTag]() {
    return "Headers";
  }
  [Symbol.for("nodejs.util.inspect.custom")](depth, options, inspect) {
    return `Headers ${inspect(Object.fromEntries(this), options)}`;
  }
}

// A body as bytes, or as what gives them, and the type that it has by itself.
const extract = (body) => {
  if (body === undefined || body === null) return { bytes: null, type: null };
  if (typeof body === "string") return { bytes: toBytes(wellFormed(body), "utf8"), type: "text/plain;charset=UTF-8" };
  if (body instanceof URLSearchParams) return { bytes: toBytes(body.toString(), "utf8"), type: "application/x-www-form-urlencoded;charset=UTF-8" };
  if (body instanceof FormData) return multipart(body);
  if (body instanceof Blob) return { bytes: bytesOf(body), type: body.type || null };
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return { bytes: view(body).slice(), type: null };
  if (body instanceof ReadableStream || typeof body[Symbol.asyncIterator] === "function") return { bytes: null, stream: body, type: null };
  return { bytes: toBytes(`${body}`, "utf8"), type: "text/plain;charset=UTF-8" };
};
const gathered = async (stream) => {
  const pieces = [];
  for await (const piece of stream) pieces.push(typeof piece === "string" ? toBytes(piece, "utf8") : view(piece));
  return bytesOf(new Blob(pieces));
};
let bodyOf, bodyFrom;
class Body {
  #bytes = null;
  #stream = null;
  #shown = null;
  #used = false;
  static {
    bodyOf = async (body) => {
      if (body.#stream !== null) return gathered(body.#stream);
      return body.#bytes;
    };
    bodyFrom = (body, { bytes, stream }, of) => {
      if (of !== undefined) [body.#bytes, body.#stream] = [of.#bytes, of.#stream];
      else [body.#bytes, body.#stream] = [bytes ?? null, stream ?? null];
    };
  }
  get body() {
    if (this.#bytes === null && this.#stream === null) return null;
    if (this.#shown === null) {
      const source = this.#stream ?? [this.#bytes];
      const all = this;
      this.#shown = ReadableStream.from((async function* () {
        all.#used = true;
        for await (const chunk of source) if (chunk.length > 0) yield chunk;
      })());
    }
    return this.#shown;
  }
  get bodyUsed() {
    return this.#used;
  }
  async #take() {
    if (this.#used || this.#shown?.locked) throw fault("Body is unusable: Body has already been read");
    this.#used = this.#bytes !== null || this.#stream !== null;
    return (await bodyOf(this)) ?? new Uint8Array(0);
  }
  async text() {
    const text = toText(await this.#take(), "utf8");
    return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  }
  async json() {
    return JSON.parse(await this.text());
  }
  async arrayBuffer() {
    const bytes = await this.#take();
    return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  }
  async bytes() {
    return (await this.#take()).slice();
  }
  async blob() {
    return new Blob([await this.#take()], { type: this.headers.get("content-type") ?? "" });
  }
  async formData() {
    const type = this.headers.get("content-type") ?? "";
    if (!type.startsWith("application/x-www-form-urlencoded")) throw fault("a body of this type is not read as a form");
    const form = new FormData();
    for (const [name, value] of new URLSearchParams(await this.text())) form.append(name, value);
    return form;
  }
}

class Request extends Body {
  constructor(input, init = {}) {
    super();
    const from = input instanceof Request ? input : undefined;
    let url;
    try {
      url = new URL(from === undefined ? input : from.url);
    } catch (error) {
      throw Object.assign(fault(`Failed to parse URL from ${require("inspect").inspect(input).slice(0, 60)}`), { cause: error });
    }
    if (url.username !== "" || url.password !== "") throw fault("Request cannot be constructed from a URL that includes credentials");
    init ??= {};
    const method = `${init.method ?? from?.method ?? "GET"}`;
    if (!/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(method) || /^(connect|trace|track)$/i.test(method)) throw fault(`'${method}' is not a valid HTTP method.`);
    const set = (name, value) => Object.defineProperty(this, name, { __proto__: null, value, enumerable: true });
    set("url", url.href);
    set("method", /^(delete|get|head|options|post|put)$/i.test(method) ? method.toUpperCase() : method);
    set("headers", new Headers(init.headers ?? from?.headers));
    set("redirect", init.redirect ?? from?.redirect ?? "follow");
    set("signal", init.signal ?? from?.signal ?? new AbortController().signal);
    const body = init.body === undefined || init.body === null ? undefined : extract(init.body);
    if ((body !== undefined || (from?.body ?? null) !== null) && /^(GET|HEAD)$/.test(this.method)) throw fault("Request with GET/HEAD method cannot have body.");
    if (body !== undefined) {
      bodyFrom(this, body);
      if (body.type && !this.headers.has("content-type")) this.headers.set("content-type", body.type);
    } else if (from !== undefined) bodyFrom(this, {}, from);
  }
  clone() {
    return new Request(this);
  }
  get [Symbol.toStringTag]() {
    return "Request";
  }
}

const without = [101, 204, 205, 304];
class Response extends Body {
  constructor(body = null, init = {}) {
    super();
    const { status = 200, statusText = "", headers } = init ?? {};
    if (!(Number.isInteger(status) && status >= 200 && status <= 599)) throw new RangeError('init["status"] must be in the range of 200 to 599, inclusive.');
    const made = extract(body);
    if (body !== null && body !== undefined && without.includes(status)) throw fault(`Response with null body status cannot have body`);
    finish(this, { status, statusText: `${statusText}`, headers: new Headers(headers), url: "", redirected: false, type: "default" });
    bodyFrom(this, made);
    if (made.type && !this.headers.has("content-type")) this.headers.set("content-type", made.type);
  }
  static json(data, init = {}) {
    const headers = new Headers(init?.headers);
    if (!headers.has("content-type")) headers.set("content-type", "application/json");
    return new Response(JSON.stringify(data), { ...init, headers });
  }
  static error() {
    const response = new Response();
    return finish(response, { status: 0, statusText: "", type: "error" });
  }
  static redirect(url, status = 302) {
    return new Response(null, { status, headers: { location: new URL(url).href } });
  }
  get ok() {
    return this.status >= 200 && this.status < 300;
  }
  clone() {
    if (this.bodyUsed) throw fault("Response.clone: Body has already been consumed.");
    const copy = new Response();
    finish(copy, { status: this.status, statusText: this.statusText, headers: new Headers(this.headers), url: this.url, redirected: this.redirected, type: this.type });
    bodyFrom(copy, {}, this);
    return copy;
  }
  get [Symbol.toStringTag]() {
    return "Response";
  }
}
const finish = (response, fields) => {
  for (const name of Object.keys(fields)) Object.defineProperty(response, name, { __proto__: null, value: fields[name], enumerable: true, configurable: true });
  return response;
};

async function fetch(input, init = undefined) {
  const request = new Request(input, init);
  const { signal } = request;
  if (signal.aborted) throw signal.reason;
  const bytes = (await bodyOf(request)) ?? new Uint8Array(0);
  if (/^data:/.test(request.url)) throw fault("fetch of data: addresses is not provided to scripts");
  if (!request.headers.has("accept")) request.headers.set("accept", "*/*");
  if (!request.headers.has("user-agent")) request.headers.set("user-agent", "node");
  const headers = [];
  for (const [name, value] of request.headers) headers.push(name, value);
  let begun = 0, stop;
  const stopped = new Promise((_, no) => {
    stop = () => {
      host.stop(begun);
      no(signal.reason);
    };
    signal.addEventListener("abort", stop, { once: true });
  });
  try {
    // What came is taken also if nobody waits for it any more, so that the host need not keep it.
    const answer = host.later((id) => {
      begun = id;
      host.startFetch(id, request.method, request.url, headers, binary(bytes), request.redirect);
    }).then((told) => [told, host.parcel(told.body)]);
    answer.catch(() => {});
    const [told, body] = await Promise.race([answer, stopped]);
    const response = new Response();
    finish(response, { status: told.status, statusText: told.statusText, headers: new Headers(told.headers), url: told.url, redirected: told.redirected, type: "basic" });
    if (request.method !== "HEAD" && !without.includes(told.status)) bodyFrom(response, { bytes: body });
    return response;
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    // As everywhere: what went wrong on the way is the cause of a TypeError. A denial says itself.
    const made = fault(error.code === "ERR_ACCESS_DENIED" ? error.message : `fetch failed: ${error.message}`);
    for (const name of ["code", "permission"]) if (error[name] !== undefined) Object.defineProperty(made, name, { __proto__: null, value: error[name], writable: true, configurable: true });
    Object.defineProperty(made, "cause", { __proto__: null, value: error, writable: true, configurable: true });
    throw made;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
return { fetch, Headers, Request, Response };
