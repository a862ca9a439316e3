// `node:os`: constants, and who runs the script, where it may know.
const { arch, platform } = host.system;
const signals = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGKILL: 9, SIGTERM: 15 };
const errno = { EACCES: 13, EEXIST: 17, EINVAL: 22, EISDIR: 21, ENOENT: 2, ENOTDIR: 20, ENOTEMPTY: 39, EPERM: 1 };
const os = {
  EOL: "\n", devNull: "/dev/null", constants: { signals, errno, priority: {}, UV_UDP_REUSEADDR: 4 },
  arch: () => arch, platform: () => platform,
  type: () => (platform === "darwin" ? "Darwin" : platform === "win32" ? "Windows_NT" : "Linux"),
  release: () => "0.0.0", version: () => "", machine: () => (arch === "arm64" ? "aarch64" : arch === "x64" ? "x86_64" : arch),
  endianness: () => "LE", hostname: () => "localhost", tmpdir: () => "/tmp", uptime: () => 0, loadavg: () => [0, 0, 0],
  totalmem: () => 0, freemem: () => 0, availableParallelism: () => 1,
  cpus: () => [{ model: "", speed: 0, times: { user: 0, nice: 0, sys: 0, idle: 0, irq: 0 } }],
  networkInterfaces: () => ({}), getPriority: () => 0, setPriority() {},
  homedir: () => host.system.user().home,
  userInfo() {
    const { home, name } = host.system.user();
    return { uid: 65534, gid: 65534, username: name, homedir: home, shell: null };
  },
};
return os;
