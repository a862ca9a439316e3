// `node:fs`: what is asked of files, put as the host's functions want it. Each of them asks the grants.
const { Buffer } = require("buffer");
const { binary, view } = require("encoding");
const files = host.fs;
const fault = (message, code, Kind = TypeError) => Object.assign(new Kind(message), { code });
const shown = (value) => (value === null || value === undefined ? `${value}` : typeof value === "function" ? `function ${value.name}` : typeof value === "object" ? `an instance of ${value.constructor?.name ?? "Object"}` : `type ${typeof value} (${require("inspect").inspect(value)})`);
const toPath = (path, name = "path") => {
  if (typeof path === "string") {
    if (path.includes("\0")) throw fault(`The argument '${name}' must be a string, Uint8Array, or URL without null bytes.`, "ERR_INVALID_ARG_VALUE");
    return path;
  }
  if (path instanceof Uint8Array) return toPath(Buffer.from(path).toString(), name);
  if (path !== null && typeof path === "object" && typeof path.href === "string" && typeof path.protocol === "string") return require("url").fileURLToPath(path);
  throw fault(`The "${name}" argument must be of type string or an instance of Buffer or URL. Received ${shown(path)}`, "ERR_INVALID_ARG_TYPE");
};
const toFd = (fd) => {
  if (typeof fd !== "number") throw fault(`The "fd" argument must be of type number. Received ${shown(fd)}`, "ERR_INVALID_ARG_TYPE");
  if (!Number.isInteger(fd) || fd < 0 || fd > 2147483647) throw fault(`The value of "fd" is out of range. It must be >= 0 && <= 2147483647. Received ${fd}`, "ERR_OUT_OF_RANGE", RangeError);
  return fd;
};
const settings = (options, or) => (typeof options === "string" ? { ...or, encoding: options } : { ...or, ...options });
const toMode = (mode, or) => (mode === undefined || mode === null ? or : typeof mode === "string" ? parseInt(mode, 8) : mode);
const numbered = { 0: "r", 1: "r+", 2: "r+", 66: "a+", 577: "w", 578: "w+", 1089: "a", 193: "wx", 705: "wx" };
const toFlag = (flag, or) => (flag === undefined || flag === null ? or : typeof flag === "number" ? numbered[flag] ?? `${flag}` : `${flag}`);
const toData = (data) => {
  if (typeof data === "string" || ArrayBuffer.isView(data)) return data;
  throw fault(`The "data" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received ${shown(data)}`, "ERR_INVALID_ARG_TYPE");
};
const bytesOf = (data, encoding) => binary(typeof data === "string" ? Buffer.from(data, encoding) : view(data));
const wrapped = (bytes) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
const told = (bytes, encoding) => (encoding && encoding !== "buffer" ? wrapped(bytes).toString(encoding) : wrapped(bytes));

class Kinds {
  #kind;
  constructor(kind) {
    this.#kind = kind;
  }
  isFile() {
    return this.#kind === "f";
  }
  isDirectory() {
    return this.#kind === "d";
  }
  isSymbolicLink() {
    return this.#kind === "l";
  }
  isFIFO() {
    return this.#kind === "p";
  }
  isSocket() {
    return this.#kind === "s";
  }
  isBlockDevice() {
    return this.#kind === "b";
  }
  isCharacterDevice() {
    return this.#kind === "c";
  }
}
class Stats extends Kinds {
  constructor(numbers) {
    super(numbers[0]);
    [, this.dev, this.ino, this.mode, this.nlink, this.uid, this.gid, this.size, this.blksize, this.blocks, this.atimeMs, this.mtimeMs, this.ctimeMs] = numbers;
    this.rdev = 0;
    this.birthtimeMs = this.ctimeMs;
    for (const name of ["atime", "mtime", "ctime", "birthtime"]) this[name] = new Date(this[`${name}Ms`]);
  }
}
class Dirent extends Kinds {
  constructor(name, parent, kind) {
    super(kind);
    this.name = name;
    this.parentPath = parent;
    this.path = parent;
  }
}

const sync = {
  readFile(path, options) {
    const { encoding, flag } = settings(options, { flag: "r" });
    if (Number.isInteger(path)) {
      const pieces = [];
      for (;;) {
        const piece = files.readFd(toFd(path), 1 << 20, null);
        if (piece.length === 0) break;
        pieces.push(piece);
      }
      return told(Buffer.concat(pieces), encoding);
    }
    return told(files.read(toPath(path), toFlag(flag, "r")), encoding);
  },
  writeFile(path, data, options) {
    const { encoding, flag, mode } = settings(options, {});
    const bytes = bytesOf(toData(data), encoding);
    if (typeof path === "number") return void files.writeFd(toFd(path), bytes, null);
    const fd = files.open(toPath(path), toFlag(flag, "w"), toMode(mode, 0o666));
    try {
      files.writeFd(fd, bytes, null);
    } finally {
      files.close(fd);
    }
  },
  appendFile(path, data, options) {
    sync.writeFile(path, data, { flag: "a", ...settings(options, {}) });
  },
  exists(path) {
    try {
      files.access(toPath(path), 0);
      return true;
    } catch {
      return false;
    }
  },
  access(path, mode = 0) {
    files.access(toPath(path), mode);
  },
  stat(path, options) {
    return look(path, true, options);
  },
  lstat(path, options) {
    return look(path, false, options);
  },
  fstat(fd) {
    return new Stats(files.statFd(toFd(fd)));
  },
  readdir(path, options) {
    const { withFileTypes, recursive, encoding } = settings(options, {});
    const top = toPath(path);
    const out = [];
    const walk = (folder, below) => {
      const found = files.list(folder);
      for (let i = 0; i < found.length; i += 2) {
        const [name, kind] = [found[i], found[i + 1]];
        out.push(withFileTypes ? new Dirent(name, folder, kind) : encoding === "buffer" ? Buffer.from(below + name) : below + name);
        if (recursive && kind === "d" && out.length < 100000) walk(`${folder.replace(/\/$/, "")}/${name}`, `${below}${name}/`);
      }
    };
    walk(top, "");
    return out;
  },
  mkdir(path, options) {
    const recursive = typeof options === "object" && options !== null && !!options.recursive;
    return files.mkdir(toPath(path), recursive) ?? undefined;
  },
  mkdtemp(prefix, options) {
    const { encoding } = settings(options, {});
    const path = files.mkdtemp(toPath(prefix, "prefix"), host.letters());
    return encoding === "buffer" ? Buffer.from(path) : path;
  },
  unlink: (path) => void files.remove(toPath(path), "file"),
  rmdir: (path, options) => void files.remove(toPath(path), options?.recursive ? "tree" : "rmdir"),
  rm(path, { recursive = false, force = false } = {}) {
    path = toPath(path);
    let kind;
    try {
      kind = files.stat(path, false)[0];
    } catch (error) {
      if (force && error.code === "ENOENT") return;
      throw error;
    }
    if (kind === "d" && !recursive) {
      throw Object.assign(new Error(`Path is a directory: rm returned EISDIR (is a directory) ${path}`), { name: "SystemError", code: "ERR_FS_EISDIR", errno: 21, syscall: "rm", path });
    }
    files.remove(path, kind === "d" ? "tree" : "file");
  },
  rename: (from, to) => void files.rename(toPath(from, "oldPath"), toPath(to, "newPath")),
  copyFile: (from, to, mode = 0) => void files.copy(toPath(from, "src"), toPath(to, "dest"), (mode & 1) === 1),
  readlink: (path) => files.readlink(toPath(path)),
  realpath: (path) => files.realpath(toPath(path)),
  chmod: (path, mode) => void files.chmod(toPath(path), toMode(mode, 0)),
  truncate: (path, length = 0) => void (typeof path === "number" ? files.truncateFd(path, length) : files.truncate(toPath(path), length)),
  ftruncate: (fd, length = 0) => void files.truncateFd(toFd(fd), length),
  fsync: (fd) => void files.syncFd(toFd(fd)),
  fdatasync: (fd) => void files.syncFd(toFd(fd)),
  open: (path, flags, mode) => files.open(toPath(path), toFlag(flags, "r"), toMode(mode, 0o666)),
  close: (fd) => void files.close(toFd(fd)),
  read(fd, into, ...rest) {
    const { offset = 0, length = into.byteLength - offset, position = null } = rest[0] !== null && typeof rest[0] === "object" ? rest[0] : { offset: rest[0] ?? 0, length: rest[1] ?? into.byteLength - (rest[0] ?? 0), position: rest[2] ?? null };
    const target = view(into);
    if (length < 0 || offset < 0 || offset + length > target.length) throw fault(`The value of "length" is out of range. Received ${length}`, "ERR_OUT_OF_RANGE", RangeError);
    const bytes = files.readFd(toFd(fd), length, position === null || position < 0 ? null : Number(position));
    target.set(bytes, offset);
    return bytes.length;
  },
  write(fd, data, ...rest) {
    if (typeof data === "string") {
      const bytes = Buffer.from(data, rest[1] ?? "utf8");
      files.writeFd(toFd(fd), binary(bytes), rest[0] ?? null);
      return bytes.length;
    }
    const all = view(toData(data));
    const offset = rest[0] ?? 0, length = rest[1] ?? all.length - offset;
    files.writeFd(toFd(fd), binary(all.subarray(offset, offset + length)), rest[2] ?? null);
    return length;
  },
};
const look = (path, follow, options) => {
  try {
    return new Stats(files.stat(toPath(path), follow));
  } catch (error) {
    if (options?.throwIfNoEntry === false && error.code === "ENOENT") return undefined;
    throw error;
  }
};

const { refusing, refusingLater } = require("absent");
const missing = (name) => refusing(`fs.${name}`);
const absent = ["watch", "watchFile", "unwatchFile", "symlink", "link", "chown", "lchown", "fchown", "fchmod", "utimes", "futimes", "lutimes", "opendir", "cp", "statfs", "readv", "writev", "lchmod"];
const constants = { F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1, COPYFILE_EXCL: 1, COPYFILE_FICLONE: 2, COPYFILE_FICLONE_FORCE: 4, O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_EXCL: 128, O_TRUNC: 512, O_APPEND: 1024, S_IFMT: 61440, S_IFREG: 32768, S_IFDIR: 16384, S_IFLNK: 40960 };

const fs = { constants, Stats, Dirent, F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1 };
const promises = { constants };
for (const name of Object.keys(sync)) {
  const act = sync[name];
  fs[`${name}Sync`] = act;
  const onFd = ["fstat", "ftruncate", "fsync", "fdatasync", "close", "read", "write", "exists"].includes(name);
  if (!onFd) promises[name] = async (...args) => act(...args);
  fs[name] = (...args) => {
    const back = args.pop();
    if (typeof back !== "function") throw fault(`The "cb" argument must be of type function. Received ${shown(back)}`, "ERR_INVALID_ARG_TYPE");
    let answer;
    try {
      answer = [null, act(...args)];
    } catch (error) {
      if (error.code === "ERR_INVALID_ARG_TYPE") throw error;
      answer = [error];
    }
    if (name === "exists") answer = [answer[1] === true];
    if ((name === "read" || name === "write") && answer[0] === null) answer.push(args[1]);
    queueMicrotask(() => back(...answer));
  };
}
fs.realpathSync.native = sync.realpath;
for (const name of absent) {
  fs[name] = missing(name);
  if (!/^(un)?watchFile$|^f/.test(name)) promises[name] = refusingLater(`fs.promises.${name}`);
  if (!/atch/.test(name)) fs[`${name}Sync`] = missing(`${name}Sync`);
}

class FileHandle {
  #fd;
  constructor(fd) {
    this.#fd = fd;
  }
  get fd() {
    return this.#fd;
  }
  async read(into, ...rest) {
    if (!ArrayBuffer.isView(into)) [into, rest] = [into?.buffer ?? Buffer.alloc(16384), [into ?? {}]];
    return { bytesRead: sync.read(this.#fd, into, ...rest), buffer: into };
  }
  async write(data, ...rest) {
    return { bytesWritten: sync.write(this.#fd, data, ...rest), buffer: data };
  }
  async readFile(options) {
    return sync.readFile(this.#fd, options);
  }
  async writeFile(data, options) {
    sync.writeFile(this.#fd, data, options);
  }
  async appendFile(data, options) {
    sync.writeFile(this.#fd, data, options);
  }
  async stat() {
    return sync.fstat(this.#fd);
  }
  async truncate(length) {
    sync.ftruncate(this.#fd, length);
  }
  async sync() {
    sync.fsync(this.#fd);
  }
  async datasync() {
    sync.fsync(this.#fd);
  }
  async close() {
    if (this.#fd >= 0) sync.close(this.#fd);
    this.#fd = -1;
  }
  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.close();
  }
}
promises.open = async (...args) => new FileHandle(sync.open(...args));
fs.promises = promises;
fs.Dir = missing("Dir");
// Streams of files are made as streams are; their classes say which of them are of files.
function ReadStream(path, options) {
  return fs.createReadStream(path, options);
}
function WriteStream(path, options) {
  return fs.createWriteStream(path, options);
}
const ofFile = (stream, Kind, Above) => {
  if (Object.getPrototypeOf(Kind.prototype) !== Above.prototype) Object.setPrototypeOf(Kind.prototype, Above.prototype);
  return Object.setPrototypeOf(stream, Kind.prototype);
};
Object.assign(fs, { ReadStream, WriteStream, FileReadStream: ReadStream, FileWriteStream: WriteStream });

fs.createReadStream = (path, options) => {
  const { Readable } = require("stream");
  const { encoding, start = 0, end = Infinity, highWaterMark = 65536 } = settings(options, {});
  let fd, at = start;
  const stream = new Readable({
    highWaterMark,
    read() {
      try {
        fd ??= sync.open(path, "r");
        const bytes = at > end ? [] : files.readFd(fd, Math.min(highWaterMark, end - at + 1), at);
        at += bytes.length;
        if (bytes.length > 0) return void this.push(wrapped(bytes));
        sync.close(fd);
        this.push(null);
      } catch (error) {
        this.destroy(error);
      }
    },
  });
  if (encoding) stream.setEncoding(encoding);
  stream.path = path;
  return ofFile(stream, ReadStream, Readable);
};
fs.createWriteStream = (path, options) => {
  const { Writable } = require("stream");
  const { flags = "w", encoding, mode } = settings(options, {});
  let fd;
  const open = () => (fd ??= sync.open(path, flags, mode));
  const stream = new Writable({
    defaultEncoding: encoding,
    write(chunk, _, done) {
      try {
        sync.write(open(), chunk);
        stream.bytesWritten += chunk.length;
        done();
      } catch (error) {
        done(error);
      }
    },
    final(done) {
      try {
        sync.close(open());
        done();
      } catch (error) {
        done(error);
      }
    },
  });
  stream.bytesWritten = 0;
  stream.path = path;
  return ofFile(stream, WriteStream, Writable);
};
return fs;
