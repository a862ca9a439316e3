// `node:readline`: lines of a stream that is given. There is no terminal to ask at.
const EventEmitter = require("events");
const refused = () => Object.assign(new Error("readline has no terminal to ask at: scripts have no standard input"), { code: "ENOTTY" });
class Interface extends EventEmitter {
  #input;
  terminal = false;
  line = "";
  constructor(input) {
    super();
    this.#input = input;
    let left = "";
    const decoder = new (require("string_decoder").StringDecoder)("utf8");
    input.on("data", (chunk) => {
      const lines = (left + (typeof chunk === "string" ? chunk : decoder.write(chunk))).split(/\r\n|\n|\r/);
      left = lines.pop();
      for (const line of lines) this.emit("line", line);
    });
    input.on("end", () => {
      if (left !== "") this.emit("line", left);
      this.close();
    });
  }
  close() {
    if (this.closed) return;
    this.closed = true;
    this.emit("close");
  }
  pause() {
    this.#input.pause?.();
    return this;
  }
  resume() {
    this.#input.resume?.();
    return this;
  }
  setPrompt() {}
  prompt() {
    throw refused();
  }
  question() {
    throw refused();
  }
  write() {
    throw refused();
  }
  async *[Symbol.asyncIterator]() {
    const lines = [];
    let wake;
    this.on("line", (line) => (lines.push(line), wake?.()));
    this.on("close", () => wake?.());
    for (;;) {
      while (lines.length > 0) yield lines.shift();
      if (this.closed) return;
      await new Promise((ok) => (wake = ok));
    }
  }
}
const createInterface = (options) => {
  const input = options?.input ?? options;
  if (input === undefined || input === process.stdin || typeof input.on !== "function") throw refused();
  return new Interface(input);
};
const question = async () => {
  throw refused();
};
return { Interface, createInterface, clearLine: () => true, clearScreenDown: () => true, cursorTo: () => true, moveCursor: () => true, emitKeypressEvents() {}, promises: { Interface, createInterface, question } };
