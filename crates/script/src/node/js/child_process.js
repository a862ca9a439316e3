// `node:child_process`: programs that were granted, by the embedding program. They run to their end and are
// ended when the script says so or nobody waits any more.
const EventEmitter = require("events");
const { Buffer } = require("buffer");
const { binary, view } = require("encoding");
const { Readable, Writable } = require("stream");
const fault = (message, code, Kind = TypeError) => Object.assign(new Kind(message), { code });
const wrapped = (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
const shells = ["/bin/sh"];

class ChildProcess extends EventEmitter {
  pid = undefined;
  exitCode = null;
  signalCode = null;
  killed = false;
  connected = false;
  #run;
  constructor(run) {
    super();
    this.#run = run;
  }
  kill(signal = "SIGTERM") {
    if (this.exitCode !== null || this.signalCode !== null) return false;
    this.killed = true;
    this.killedBy = typeof signal === "string" ? signal : "SIGTERM";
    host.stop(this.#run.id);
    return true;
  }
  ref() {}
  unref() {}
  disconnect() {}
}
const listed = (args) => {
  if (!Array.isArray(args)) throw fault('The "args" argument must be an instance of Array', "ERR_INVALID_ARG_TYPE");
  return args.map((arg) => `${arg}`);
};
const begin = (file, args, options, input) => {
  if (typeof file !== "string") throw fault(`The "file" argument must be of type string. Received ${require("inspect").inspect(file)}`, "ERR_INVALID_ARG_TYPE");
  const { cwd, env, timeout = 0 } = options;
  const run = { id: 0 };
  const environment = env === undefined || env === null ? null : Object.entries(env).filter(([, value]) => value !== undefined).map(([name, value]) => [name, `${value}`]).flat();
  const folder = cwd === undefined || cwd === null ? null : typeof cwd === "string" ? cwd : require("url").fileURLToPath(cwd);
  run.ended = host.later((id) => {
    run.id = id;
    host.startProgram(id, file, args, folder, environment, binary(input), timeout > 0 ? timeout : 0);
  });
  return run;
};
const outcome = ({ code, signal, stdout, stderr }) => ({ code, signal, stdout: wrapped(host.parcel(stdout)), stderr: wrapped(host.parcel(stderr)) });

function spawn(file, args = [], options = {}) {
  if (!Array.isArray(args)) [args, options] = [[], args ?? {}];
  args = listed(args);
  if (options.shell) [file, args] = [options.shell === true ? shells[0] : options.shell, ["-c", [file, ...args].join(" ")]];
  const run = { id: 0 };
  const child = new ChildProcess(run);
  child.spawnfile = file;
  child.spawnargs = [file, ...args];
  child.stdout = new Readable({ read() {} });
  child.stderr = new Readable({ read() {} });
  const pieces = [];
  let started = false;
  const start = () => {
    if (started) return;
    started = true;
    let begun;
    try {
      begun = begin(file, args, options, Buffer.concat(pieces));
    } catch (error) {
      return void queueMicrotask(() => child.emit("error", error));
    }
    run.id = begun.id;
    if (child.killed || options.signal?.aborted) child.kill();
    queueMicrotask(() => child.emit("spawn"));
    begun.ended.then((told) => {
      const { code, signal, stdout, stderr } = outcome(told);
      child.exitCode = code;
      child.signalCode = signal;
      if (stdout.length > 0) child.stdout.push(stdout);
      child.stdout.push(null);
      if (stderr.length > 0) child.stderr.push(stderr);
      child.stderr.push(null);
      child.emit("exit", code, signal);
      setTimeout(() => child.emit("close", code, signal));
    }, (error) => {
      child.stdout.push(null);
      child.stderr.push(null);
      if (child.killed) {
        child.signalCode = child.killedBy;
        child.emit("exit", null, child.killedBy);
        child.emit("close", null, child.killedBy);
      } else child.emit("error", Object.assign(error, { path: file, spawnargs: args, syscall: `spawn ${file}` }));
    });
  };
  // The program begins when its input is complete; one that is given none begins at once.
  child.stdin = new Writable({
    write: (chunk, _, done) => (pieces.push(chunk), done()),
    final: (done) => (start(), done()),
  });
  child.stdio = [child.stdin, child.stdout, child.stderr];
  const written = child.stdin.write;
  let writes = false;
  child.stdin.write = (...all) => ((writes = true), Reflect.apply(written, child.stdin, all));
  setTimeout(() => writes || start());
  options.signal?.addEventListener("abort", () => child.kill(), { once: true });
  return child;
}
function execFile(file, args, options, back) {
  if (typeof args === "function") [args, options, back] = [[], {}, args];
  else if (!Array.isArray(args)) [args, options, back] = [[], args ?? {}, options];
  if (typeof options === "function") [options, back] = [{}, options];
  options ??= {};
  const { encoding = "utf8", maxBuffer = 1024 * 1024, input } = options;
  const show = (bytes) => (encoding === "buffer" || encoding === null ? bytes : bytes.toString(encoding));
  const child = new ChildProcess({ id: 0 });
  const given = input === undefined ? Buffer.alloc(0) : typeof input === "string" ? Buffer.from(input) : view(input);
  const run = begin(file, listed(args), options, given);
  child.kill = (signal = "SIGTERM") => ((child.killed = true), (child.killedBy = signal), host.stop(run.id), true);
  if (options.signal?.aborted) child.kill();
  options.signal?.addEventListener("abort", () => child.kill(), { once: true });
  const command = [file, ...args].join(" ");
  run.ended.then((told) => {
    const { code, signal, stdout, stderr } = outcome(told);
    child.exitCode = code;
    let error = null;
    if (stdout.length > maxBuffer || stderr.length > maxBuffer) error = fault(`${stdout.length > maxBuffer ? "stdout" : "stderr"} maxBuffer length exceeded`, "ERR_CHILD_PROCESS_STDIO_MAXBUFFER", RangeError);
    else if (code !== 0) error = Object.assign(new Error(`Command failed: ${command}\n${stderr}`), { code: code ?? undefined, killed: false, signal, cmd: command });
    const [out, err] = [show(stdout.subarray(0, maxBuffer)), show(stderr.subarray(0, maxBuffer))];
    if (error !== null) Object.assign(error, { stdout: out, stderr: err });
    back?.(error, out, err);
    child.emit("exit", code, signal);
    child.emit("close", code, signal);
  }, (error) => {
    if (child.killed) error = Object.assign(new Error(`Command failed: ${command}`), { killed: true, code: null, signal: child.killedBy, cmd: command });
    else Object.assign(error, { path: file, spawnargs: args, syscall: `spawn ${file}`, cmd: command });
    back?.(error, show(Buffer.alloc(0)), show(Buffer.alloc(0)));
    child.emit("error", error);
  });
  // An error that the callback was told is no second one.
  child.on("error", () => {});
  return child;
}
function exec(command, options, back) {
  if (typeof options === "function") [options, back] = [{}, options];
  return execFile(options?.shell ?? shells[0], ["-c", command], options ?? {}, back);
}
const custom = Symbol.for("nodejs.util.promisify.custom");
for (const act of [exec, execFile]) {
  const promised = (...args) => new Promise((ok, no) => act(...args, (error, stdout, stderr) => (error ? no(Object.assign(error, { stdout, stderr })) : ok({ stdout, stderr }))));
  Object.defineProperty(act, custom, { __proto__: null, value: promised });
}
const missing = (name) => require("absent").refusing(`child_process.${name}`, ": nothing here waits for a program; use the form that answers later");
return { ChildProcess, spawn, execFile, exec, fork: missing("fork"), spawnSync: missing("spawnSync"), execSync: missing("execSync"), execFileSync: missing("execFileSync") };
