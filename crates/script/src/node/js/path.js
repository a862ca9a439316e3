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

export const sep = "/";
export const delimiter = ":";

export function isAbsolute(path) {
  return text(path, "path").startsWith("/");
}

export function normalize(path) {
  text(path, "path");
  if (path === "") return ".";
  const absolute = path.startsWith("/");
  let kept = steps(path, absolute);
  if (kept === "" && !absolute) kept = ".";
  if (kept !== "" && path.endsWith("/")) kept += "/";
  return absolute ? `/${kept}` : kept;
}

export function join(...paths) {
  const joined = paths.filter((path) => text(path, "path") !== "").join("/");
  return joined === "" ? "." : normalize(joined);
}

export function resolve(...paths) {
  let resolved = "";
  for (let i = paths.length - 1; i >= 0 && !resolved.startsWith("/"); i--) {
    if (text(paths[i], `paths[${i}]`) !== "") resolved = resolved === "" ? paths[i] : `${paths[i]}/${resolved}`;
  }
  if (!resolved.startsWith("/")) resolved = `${globalThis.process?.cwd?.() ?? "/"}/${resolved}`;
  return `/${steps(resolved, true)}`;
}

export function dirname(path) {
  text(path, "path");
  if (path === "") return ".";
  const bare = path.replace(/(?<=.)\/+$/, "");
  const at = bare.lastIndexOf("/");
  if (at < 0) return ".";
  return bare.slice(0, at).replace(/(?<=.)\/+$/, "") || "/";
}

export function basename(path, suffix) {
  text(path, "path");
  if (suffix !== undefined) text(suffix, "suffix");
  const bare = path.replace(/\/+$/, "");
  const name = bare.slice(bare.lastIndexOf("/") + 1);
  return suffix && name !== suffix && name.endsWith(suffix) ? name.slice(0, -suffix.length) : name;
}

export function extname(path) {
  const name = basename(path);
  const at = name.lastIndexOf(".");
  return at <= 0 || name === ".." ? "" : name.slice(at);
}

export function relative(from, to) {
  const [a, b] = [resolve(text(from, "from")), resolve(text(to, "to"))].map((path) => path.split("/").filter(Boolean));
  let same = 0;
  while (same < a.length && same < b.length && a[same] === b[same]) same++;
  return [...a.slice(same).map(() => ".."), ...b.slice(same)].join("/");
}

export function parse(path) {
  text(path, "path");
  const root = path.startsWith("/") ? "/" : "";
  const base = basename(path);
  const ext = extname(path);
  const at = path.replace(/\/+$/, "").lastIndexOf("/");
  const dir = at > 0 ? path.slice(0, at) : at === 0 ? "/" : "";
  return { root, dir: base === "" ? root : dir, base, ext, name: ext ? base.slice(0, -ext.length) : base };
}

export function format({ root = "", dir, base, name = "", ext = "" }) {
  const file = base ?? `${name}${ext && !ext.startsWith(".") ? `.${ext}` : ext}`;
  if (!dir) return `${root}${file}`;
  return dir === root ? `${dir}${file}` : `${dir}/${file}`;
}

export const toNamespacedPath = (path) => path;

const path = {
  sep, delimiter, isAbsolute, normalize, join, resolve, dirname, basename, extname, relative, parse, format, toNamespacedPath,
};
path.posix = path;
export const posix = path;
export default path;
