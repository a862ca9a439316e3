// `node:stream/web`, as far as bodies need it: streams that are read from their beginning to their end.
class Reader {
  #stream;
  #next;
  constructor(stream, next) {
    this.#stream = stream;
    this.#next = next;
  }
  read() {
    return this.#next();
  }
  async cancel(reason) {
    await this.#stream.cancel(reason);
  }
  releaseLock() {
    unlock(this.#stream);
  }
}
let unlock, streamOf;
class ReadableStream {
  #pull;
  #cancel;
  #locked = false;
  #ended = false;
  constructor(source = {}) {
    const chunks = [];
    let closed = false, failure, wake, started;
    const tell = () => (wake?.(), (wake = undefined));
    const controller = {
      desiredSize: 1,
      enqueue: (chunk) => (chunks.push(chunk), tell()),
      close: () => ((closed = true), tell()),
      error: (error) => ((failure = { error }), tell()),
    };
    this.#pull = async () => {
      started ??= Promise.resolve(source.start?.(controller));
      await started;
      for (;;) {
        if (failure !== undefined) throw failure.error;
        if (chunks.length > 0) return { value: chunks.shift(), done: false };
        if (closed) return { value: undefined, done: true };
        const before = chunks.length;
        await source.pull?.(controller);
        if (chunks.length === before && !closed && failure === undefined) await new Promise((ok) => (wake = ok));
      }
    };
    this.#cancel = (reason) => source.cancel?.(reason);
  }
  static {
    unlock = (stream) => (stream.#locked = false);
  }
  get locked() {
    return this.#locked;
  }
  getReader() {
    if (this.#locked) throw Object.assign(new TypeError("Invalid state: ReadableStream is locked"), { code: "ERR_INVALID_STATE" });
    this.#locked = true;
    return new Reader(this, async () => {
      if (this.#ended) return { value: undefined, done: true };
      const found = await this.#pull();
      this.#ended = found.done;
      return found;
    });
  }
  async cancel(reason) {
    this.#ended = true;
    await this.#cancel(reason);
  }
  async *values() {
    const reader = this.getReader();
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        yield value;
      }
    } finally {
      if (!this.#ended) await this.cancel();
      reader.releaseLock();
    }
  }
  [Symbol.asyncIterator]() {
    return this.values();
  }
  static from(items) {
    const all = items[Symbol.asyncIterator]?.() ?? items[Symbol.iterator]();
    return new ReadableStream({
      async pull(controller) {
        const { value, done } = await all.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: (reason) => all.return?.(reason),
    });
  }
}
streamOf = (chunks) => ReadableStream.from(chunks.filter((chunk) => chunk.length > 0));
const missing = require("absent").refusing;
return { ReadableStream, WritableStream: missing("WritableStream"), TransformStream: missing("TransformStream"), streamOf };
