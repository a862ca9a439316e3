// `node:stream`: streams whose parts wait for each other, without watermarks in bytes: a writer that is not done
// holds back whoever writes to it.
const EventEmitter = require("events");
const { Buffer } = require("buffer");
const fault = (message, code, Kind = Error) => Object.assign(new Kind(message), { code });
const setup = (stream, options) => {
  for (const name of ["read", "write", "writev", "final", "destroy", "transform", "flush", "construct"]) if (typeof options?.[name] === "function") stream[`_${name}`] = options[name];
};

class Stream extends EventEmitter {
  destroyed = false;
  errored = null;
  destroy(error) {
    if (this.destroyed) return this;
    this.destroyed = true;
    const close = (failure) => {
      const said = failure ?? error;
      this.errored = said ?? null;
      queueMicrotask(() => {
        if (said) this.emit("error", said);
        this.emit("close");
      });
    };
    if (typeof this._destroy === "function") this._destroy(error ?? null, close);
    else close();
    return this;
  }
  pipe(target, options) {
    this.on("data", (chunk) => {
      if (target.write(chunk) === false) {
        this.pause?.();
        target.once("drain", () => this.resume?.());
      }
    });
    if (options?.end !== false) this.once("end", () => target.end());
    target.emit("pipe", this);
    return target;
  }
}

class Readable extends Stream {
  readable = true;
  readableEnded = false;
  #chunks = [];
  #flowing = null;
  #ended = false;
  #told = false;
  #asking = false;
  #decoder = null;
  #objects;
  #scheduled = false;
  constructor(options = {}) {
    super();
    this.#objects = !!(options.objectMode ?? options.readableObjectMode);
    setup(this, options);
    if (options.encoding) this.setEncoding(options.encoding);
    options.signal?.addEventListener("abort", () => this.destroy(fault("The operation was aborted", "ABORT_ERR")), { once: true });
  }
  static from(items, options) {
    const all = typeof items === "string" || items instanceof Uint8Array ? [items][Symbol.iterator]() : items[Symbol.asyncIterator]?.() ?? items[Symbol.iterator]();
    return new Readable({
      objectMode: true,
      ...options,
      async read() {
        try {
          const { value, done } = await all.next();
          this.push(done ? null : await value);
        } catch (error) {
          this.destroy(error);
        }
      },
    });
  }
  get readableFlowing() {
    return this.#flowing;
  }
  get readableLength() {
    return this.#chunks.length;
  }
  setEncoding(encoding) {
    this.#decoder = new (require("string_decoder").StringDecoder)(encoding);
    return this;
  }
  push(chunk, encoding) {
    this.#asking = false;
    if (chunk === null) this.#ended = true;
    else {
      if (!this.#objects && typeof chunk === "string") chunk = this.#decoder ? chunk : Buffer.from(chunk, encoding);
      if (!this.#objects && this.#decoder) chunk = this.#decoder.write(chunk);
      if (this.#objects || chunk.length > 0) this.#chunks.push(chunk);
    }
    if (this.#ended && this.#decoder) {
      const rest = this.#decoder.end();
      if (rest !== "") this.#chunks.push(rest);
    }
    this.#schedule();
    return this.#chunks.length < 16;
  }
  unshift(chunk) {
    this.#chunks.unshift(chunk);
  }
  #schedule() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#flow();
    });
  }
  #ask() {
    if (this.#asking || this.#ended || this.destroyed) return;
    this.#asking = true;
    if (typeof this._read !== "function") return;
    try {
      this._read(16384);
    } catch (error) {
      this.destroy(error);
    }
  }
  #flow() {
    if (this.destroyed) return;
    if (this.#flowing) while (this.#chunks.length > 0 && this.#flowing && !this.destroyed) this.emit("data", this.#chunks.shift());
    else if (this.#chunks.length > 0 || this.#ended) this.emit("readable");
    if (this.#chunks.length > 0) return;
    if (!this.#ended) return void (this.#flowing !== false && (this.#flowing || this.listenerCount("readable") > 0) && this.#ask());
    if (this.#told || (this.#flowing === null && this.listenerCount("readable") === 0)) return;
    this.#told = true;
    this.readable = false;
    this.readableEnded = true;
    this.emit("end");
    if (!(this instanceof Duplex) || this.writableFinished) this.destroy();
  }
  read() {
    if (this.#chunks.length === 0) {
      this.#ask();
      this.#schedule();
      return null;
    }
    const all = this.#objects ? this.#chunks.shift() : typeof this.#chunks[0] === "string" ? this.#chunks.join("") : Buffer.concat(this.#chunks);
    if (!this.#objects) this.#chunks = [];
    this.#schedule();
    return all;
  }
  resume() {
    this.#flowing = true;
    this.#schedule();
    return this;
  }
  pause() {
    this.#flowing = false;
    return this;
  }
  isPaused() {
    return this.#flowing === false;
  }
  on(name, listener) {
    super.on(name, listener);
    if (name === "data" && this.#flowing !== false) this.resume();
    if (name === "readable") this.#schedule();
    return this;
  }
  async *[Symbol.asyncIterator]() {
    let wake, failure;
    const tell = () => wake?.();
    const fail = (error) => {
      failure = error;
      wake?.();
    };
    super.on("readable", tell);
    super.on("error", fail);
    super.on("close", tell);
    try {
      for (;;) {
        if (failure) throw failure;
        if (this.#chunks.length > 0) {
          yield this.#chunks.shift();
          continue;
        }
        if (this.#ended || this.destroyed) return;
        const waiting = new Promise((ok) => (wake = ok));
        this.#ask();
        this.#schedule();
        await waiting;
      }
    } finally {
      this.destroy();
    }
  }
  async toArray() {
    const all = [];
    for await (const chunk of this) all.push(chunk);
    return all;
  }
}
Readable.prototype.addListener = Readable.prototype.on;

const writing = (Base) => class extends Base {
  writable = true;
  writableEnded = false;
  writableFinished = false;
  #waiting = [];
  #busy = false;
  #asked = false;
  #raw;
  constructor(options = {}) {
    super(options);
    this.#raw = !!(options.objectMode ?? options.writableObjectMode) || options.decodeStrings === false;
    setup(this, options);
  }
  write(chunk, encoding, done) {
    if (typeof encoding === "function") [encoding, done] = [undefined, encoding];
    if (this.writableEnded) {
      const error = fault("write after end", "ERR_STREAM_WRITE_AFTER_END");
      queueMicrotask(() => done?.(error));
      this.destroy(error);
      return false;
    }
    if (chunk === null) throw fault("May not write null values to stream", "ERR_STREAM_NULL_VALUES", TypeError);
    if (!this.#raw && typeof chunk !== "string" && !(chunk instanceof Uint8Array)) throw fault(`The "chunk" argument must be of type string or an instance of Buffer or Uint8Array.`, "ERR_INVALID_ARG_TYPE", TypeError);
    this.#waiting.push([!this.#raw && typeof chunk === "string" ? Buffer.from(chunk, encoding) : chunk, encoding ?? "utf8", done]);
    this.#next();
    const room = this.#waiting.length < 16;
    this.#asked ||= !room;
    return room;
  }
  #next() {
    if (this.#busy || this.destroyed) return;
    const item = this.#waiting.shift();
    if (item === undefined) {
      if (this.#asked) {
        this.#asked = false;
        queueMicrotask(() => this.emit("drain"));
      }
      if (this.writableEnded && !this.writableFinished) this.#finish();
      return;
    }
    this.#busy = true;
    const [chunk, encoding, done] = item;
    const after = (error) => {
      this.#busy = false;
      done?.(error ?? null);
      if (error) this.destroy(error);
      else queueMicrotask(() => this.#next());
    };
    try {
      if (typeof this._write !== "function") throw fault("The _write() method is not implemented", "ERR_METHOD_NOT_IMPLEMENTED");
      this._write(chunk, encoding, after);
    } catch (error) {
      after(error);
    }
  }
  #finish() {
    this.#busy = true;
    const after = (error) => {
      if (error) return void this.destroy(error);
      this.writableFinished = true;
      this.writable = false;
      queueMicrotask(() => {
        this.emit("finish");
        if (!(this instanceof Readable) || this.readableEnded) this.destroy();
      });
    };
    if (typeof this._final === "function") this._final(after);
    else after();
  }
  end(chunk, encoding, done) {
    if (typeof chunk === "function") [chunk, done] = [undefined, chunk];
    if (typeof encoding === "function") [encoding, done] = [undefined, encoding];
    if (chunk !== undefined && chunk !== null) this.write(chunk, encoding);
    if (typeof done === "function") this.once("finish", done);
    this.writableEnded = true;
    this.#next();
    return this;
  }
  setDefaultEncoding() {
    return this;
  }
  cork() {}
  uncork() {}
};
const Writable = writing(Stream);
class Duplex extends writing(Readable) {
  static from(items) {
    return Readable.from(items);
  }
}
class Transform extends Duplex {
  _write(chunk, encoding, done) {
    this._transform(chunk, encoding, (error, made) => {
      if (!error && made !== undefined && made !== null) this.push(made);
      done(error);
    });
  }
  _read() {}
  _final(done) {
    const end = (error, made) => {
      if (error) return done(error);
      if (made !== undefined && made !== null) this.push(made);
      this.push(null);
      done();
    };
    if (typeof this._flush === "function") this._flush(end);
    else end();
  }
}
class PassThrough extends Transform {
  _transform(chunk, _, done) {
    done(null, chunk);
  }
}

function finished(stream, options, back = options) {
  let over = false;
  const end = (error) => {
    if (over) return;
    over = true;
    back(error);
  };
  const reads = stream instanceof Readable, writes = typeof stream.write === "function";
  let left = (reads ? 1 : 0) + (writes ? 1 : 0);
  const one = () => --left <= 0 && end();
  if (reads) stream.readableEnded ? one() : stream.once("end", one);
  if (writes) stream.writableFinished ? one() : stream.once("finish", one);
  stream.once("error", end);
  stream.once("close", () => end(left > 0 ? fault("Premature close", "ERR_STREAM_PREMATURE_CLOSE") : undefined));
  return () => (over = true);
}
function pipeline(...streams) {
  const back = typeof streams.at(-1) === "function" && streams.length > 1 && streams.at(-1).length <= 2 ? streams.pop() : () => {};
  if (Array.isArray(streams[0])) streams = streams[0];
  let over = false;
  const end = (error) => {
    if (over) return;
    over = true;
    if (error) for (const stream of streams) stream.destroy?.(error === stream.errored ? undefined : error);
    back(error);
  };
  streams = streams.map((stream, i) => (i === 0 && !(stream instanceof Stream) ? Readable.from(typeof stream === "function" ? stream() : stream) : stream));
  for (const stream of streams) stream.on("error", end);
  for (let i = 1; i < streams.length; i++) streams[i - 1].pipe(streams[i]);
  finished(streams.at(-1), (error) => end(error));
  return streams.at(-1);
}
const promises = {
  pipeline: (...streams) => new Promise((ok, no) => {
    const options = streams.at(-1);
    if (options !== null && typeof options === "object" && !(options instanceof Stream) && !options[Symbol.asyncIterator] && !options[Symbol.iterator]) streams.pop();
    pipeline(...streams, (error) => (error ? no(error) : ok()));
  }),
  finished: (stream) => new Promise((ok, no) => finished(stream, (error) => (error ? no(error) : ok()))),
};
return Object.assign(Stream, {
  Stream, Readable, Writable, Duplex, Transform, PassThrough, finished, pipeline, promises,
  addAbortSignal: (signal, stream) => (signal.addEventListener("abort", () => stream.destroy(fault("The operation was aborted", "ABORT_ERR")), { once: true }), stream),
  getDefaultHighWaterMark: () => 16,
  isReadable: (stream) => (stream?.readable === undefined ? null : stream.readable && !stream.destroyed && !stream.readableEnded),
  isWritable: (stream) => (stream?.writable === undefined ? null : stream.writable && !stream.destroyed && !stream.writableEnded),
  isErrored: (stream) => stream?.errored !== undefined && stream.errored !== null,
  isDestroyed: (stream) => stream?.destroyed ?? null,
});
