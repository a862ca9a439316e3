// `node:process`: what a script may know of where it runs. Nothing here is the host process.
const { environment, cwd: folder } = host.system;
const versions = { node: "20.0.0", backstop: host.system.version, quickjs: "0.16" };
const said = (level) => {
  const stream = {
    isTTY: false,
    writable: true,
    columns: 80,
    fd: level === 1 ? 1 : 2,
    write(text, encoding, done) {
      host.log(level, `${typeof text === "string" ? text : require("buffer").Buffer.from(text)}`.replace(/\n$/, ""));
      (typeof encoding === "function" ? encoding : done)?.();
      return true;
    },
    end(text) {
      if (text !== undefined) stream.write(text);
    },
    hasColors: () => false,
    getColorDepth: () => 1,
  };
  for (const name of ["on", "once", "off", "addListener", "removeListener", "emit", "removeAllListeners", "cork", "uncork"]) stream[name] = () => stream;
  return stream;
};
const stdin = { isTTY: false, fd: 0, readable: false, setEncoding: () => stdin, resume: () => stdin, pause: () => stdin, unref: () => stdin, ref: () => stdin, setRawMode: () => stdin, read: () => null };
for (const name of ["on", "once", "off", "addListener", "removeListener", "removeAllListeners"]) stdin[name] = () => stdin;
stdin[Symbol.asyncIterator] = async function* () {};

// Thrown by `process.exit`: it ends what the script was asked, and nothing else.
class ProcessExit extends Error {
  constructor(code) {
    super(`the script called process.exit(${code ?? ""}); it ends this call, not the process`);
    this.code = "ERR_PROCESS_EXIT";
    this.exitCode = code;
  }
  get name() {
    return "ProcessExit";
  }
}
const refused = (name) => require("absent").mark(() => {
  throw Object.assign(new Error(`process.${name} is not provided to scripts`), { code: "ERR_ACCESS_DENIED", permission: `process.${name} cannot be granted` });
});
const hrtime = (since) => {
  const now = host.now();
  let seconds = Math.floor(now / 1000), nanos = Math.floor((now % 1000) * 1e6);
  if (since !== undefined) {
    seconds -= since[0];
    nanos -= since[1];
    if (nanos < 0) [seconds, nanos] = [seconds - 1, nanos + 1e9];
  }
  return [seconds, nanos];
};
hrtime.bigint = () => BigInt(Math.floor(host.now() * 1e6));
const process = {
  title: "script", pid: 1, ppid: 0, arch: host.system.arch, platform: host.system.platform, version: `v${versions.node}`, versions,
  release: { name: "node" }, argv: ["node", "script"], argv0: "node", execArgv: [], execPath: "/nonexistent/node", config: { variables: {} }, features: {}, exitCode: undefined,
  env: { ...environment },
  stdin, stdout: said(1), stderr: said(2),
  cwd: () => folder,
  nextTick: (fn, ...args) => queueMicrotask(() => Reflect.apply(fn, undefined, args)),
  hrtime,
  uptime: () => host.now() / 1000,
  memoryUsage: Object.assign(() => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }), { rss: () => 0 }),
  cpuUsage: () => ({ user: 0, system: 0 }),
  resourceUsage: () => ({}),
  umask: () => 0o22,
  getuid: () => 65534, getgid: () => 65534, geteuid: () => 65534, getegid: () => 65534, getgroups: () => [],
  emitWarning: (warning) => console.warn(`${warning?.message ?? warning}`),
  exit(code) {
    throw new ProcessExit(code ?? process.exitCode);
  },
  emit: () => false, listeners: () => [], listenerCount: () => 0, eventNames: () => [], getMaxListeners: () => 10,
};
process.reallyExit = process.exit;
for (const name of ["on", "once", "off", "addListener", "removeListener", "removeAllListeners", "prependListener", "setMaxListeners"]) process[name] = () => process;
for (const name of ["kill", "abort", "chdir", "dlopen", "binding", "setuid", "setgid", "seteuid", "setegid", "initgroups", "setgroups", "send", "disconnect"]) process[name] = refused(name);
delete process.send;
delete process.disconnect;
Object.defineProperty(process, Symbol.toStringTag, { __proto__: null, value: "process", configurable: true });
return process;
