// `node:path`, for paths with slashes. It knows no folder but `/`: what is relative stays so until the host looks.
const text = (value, name) => {
  if (typeof value !== "string") {
    const error = new TypeError(`The "${name}" argument must be of type string. Received ${value === null ? "null" : typeof value}`);
    error.code = "ERR_INVALID_ARG_TYPE";
    throw error;
  }
  return value;
};

const steps = (path, absolute) => {
  const kept = [];
  for (const step of path.split("/")) {
    if (step === "" || step === ".") continue;
    if (step !== "..") kept.push(step);
    else if (kept.length > 0 && kept[kept.length - 1] !== "..") kept.pop();
    else if (!absolute) kept.push("..");
  }
  return kept.join("/");
};

const sep = "/";
const delimiter = ":";

function isAbsolute(path) {
  return text(path, "path").startsWith("/");
}

function normalize(path) {
  text(path, "path");
  if (path === "") return ".";
  const absolute = path.startsWith("/");
  let kept = steps(path, absolute);
  if (kept === "" && !absolute) kept = ".";
  if (kept !== "" && path.endsWith("/")) kept += "/";
  return absolute ? `/${kept}` : kept;
}

function join(...paths) {
  const joined = paths.filter((path) => text(path, "path") !== "").join("/");
  return joined === "" ? "." : normalize(joined);
}

function resolve(...paths) {
  let resolved = "";
  for (let i = paths.length - 1; i >= 0 && !resolved.startsWith("/"); i--) {
    if (text(paths[i], `paths[${i}]`) !== "") resolved = resolved === "" ? paths[i] : `${paths[i]}/${resolved}`;
  }
  if (!resolved.startsWith("/")) resolved = `${require("process").cwd()}/${resolved}`;
  return `/${steps(resolved, true)}`;
}

function dirname(path) {
  text(path, "path");
  if (path === "") return ".";
  const bare = path.replace(/(?<=.)\/+$/s, "");
  const at = bare.lastIndexOf("/");
  if (at <= 0) return at === 0 ? "/" : ".";
  return at === 1 && bare[0] === "/" ? "//" : bare.slice(0, at);
}

function basename(path, suffix) {
  text(path, "path");
  if (suffix !== undefined) text(suffix, "suffix");
  // So does Node.
  if (suffix && suffix.length <= path.length && /^\/+$/.test(path)) return path;
  const bare = path.replace(/\/+$/, "");
  const name = bare.slice(bare.lastIndexOf("/") + 1);
  return suffix && name !== suffix && name.endsWith(suffix) ? name.slice(0, -suffix.length) : name;
}

function extname(path) {
  const name = basename(path);
  const at = name.lastIndexOf(".");
  return at <= 0 || name === ".." ? "" : name.slice(at);
}

function relative(from, to) {
  const [a, b] = [resolve(text(from, "from")), resolve(text(to, "to"))].map((path) => path.split("/").filter(Boolean));
  let same = 0;
  while (same < a.length && same < b.length && a[same] === b[same]) same++;
  return [...a.slice(same).map(() => ".."), ...b.slice(same)].join("/");
}

function parse(path) {
  text(path, "path");
  const root = path.startsWith("/") ? "/" : "";
  const base = basename(path);
  // Node takes the dots of `/..` apart.
  const ext = /^\/\.\.\/*$/.test(path) ? "." : extname(path);
  const at = path.replace(/\/+$/, "").lastIndexOf("/");
  const dir = at > 0 ? path.slice(0, at) : at === 0 ? "/" : "";
  return { root, dir: base === "" ? root : dir, base, ext, name: ext ? base.slice(0, -ext.length) : base };
}

function format({ root = "", dir, base, name = "", ext = "" }) {
  const file = base ?? `${name}${ext && !ext.startsWith(".") ? `.${ext}` : ext}`;
  if (!dir) return `${root}${file}`;
  return dir === root ? `${dir}${file}` : `${dir}/${file}`;
}

const toNamespacedPath = (path) => path;

// Paths of Windows are not taken apart here: whatever asks for them is told so.
const elsewhere = (name) => require("absent").refusing(`path.win32.${name}`);
const path = { sep, delimiter, isAbsolute, normalize, join, resolve, dirname, basename, extname, relative, parse, format, toNamespacedPath, _makeLong: toNamespacedPath };
const win32 = { sep: "\\", delimiter: ";" };
for (const name of Object.keys(path)) win32[name] ??= elsewhere(name);
path.posix = path;
path.win32 = win32;
return path;
