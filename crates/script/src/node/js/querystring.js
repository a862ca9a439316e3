// `node:querystring`.
const { toBytes, toText } = require("encoding");
const bare = /^[A-Za-z0-9\-_.!~*'()]$/;
const escape = (text) => {
  text = typeof text === "string" ? text : typeof text === "object" ? String(text) : `${text}`;
  if (!text.isWellFormed()) throw Object.assign(new URIError("URI malformed"), { code: "ERR_INVALID_URI" });
  let out = "";
  for (const char of text)
    if (bare.test(char)) out += char;
    else for (const byte of toBytes(char, "utf8")) out += `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  return out;
};
const unescapeBuffer = (text) => {
  const bytes = [];
  for (const byte of toBytes(text.replace(/%([0-9a-f]{2})/gi, (_, digits) => String.fromCharCode(parseInt(digits, 16) | 0x100)), "utf16le")) bytes.push(byte);
  const out = [];
  for (let i = 0; i < bytes.length; i += 2) out.push(bytes[i]);
  return require("buffer").Buffer.from(out);
};
const unescape = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    const bytes = [];
    for (let i = 0; i < text.length; i++) {
      const found = /^%[0-9a-f]{2}/i.test(text.slice(i, i + 3));
      if (found) {
        bytes.push(parseInt(text.slice(i + 1, i + 3), 16));
        i += 2;
      } else {
        let char = text[i];
        if (/[\uD800-\uDBFF]/.test(char) && i + 1 < text.length) char += text[++i];
        bytes.push(...toBytes(char, "utf8"));
      }
    }
    return toText(new Uint8Array(bytes), "utf8");
  }
};
const shown = (value) => (typeof value === "string" ? value : typeof value === "number" && Number.isFinite(value) ? `${value}` : typeof value === "bigint" || typeof value === "boolean" ? `${value}` : "");
const stringify = (object, between = "&", is = "=", options) => {
  const write = options?.encodeURIComponent ?? module.escape;
  if (object === null || typeof object !== "object") return "";
  const out = [];
  for (const key of Object.keys(object)) {
    const name = `${write(shown(key))}${is || "="}`;
    if (Array.isArray(object[key])) for (const item of object[key]) out.push(name + write(shown(item)));
    else out.push(name + write(shown(object[key])));
  }
  return out.join(between || "&");
};
const parse = (text, between = "&", is = "=", options) => {
  const found = { __proto__: null };
  if (typeof text !== "string" || text.length === 0) return found;
  const read = options?.decodeURIComponent ?? module.unescape;
  const plain = (part) => {
    part = part.replaceAll("+", " ");
    if (!part.includes("%")) return part;
    try {
      return read(part);
    } catch {
      return unescape(part);
    }
  };
  const most = options?.maxKeys ?? 1000;
  let pairs = text.split(between || "&").filter((pair) => pair !== "");
  if (most > 0) pairs = pairs.slice(0, most);
  for (const pair of pairs) {
    const at = pair.indexOf(is || "=");
    const key = plain(at < 0 ? pair : pair.slice(0, at));
    const value = at < 0 ? "" : plain(pair.slice(at + (is || "=").length));
    if (!Object.hasOwn(found, key)) Object.defineProperty(found, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
    else if (Array.isArray(found[key])) found[key].push(value);
    else found[key] = [found[key], value];
  }
  return found;
};
const module = { escape, unescape, unescapeBuffer, stringify, parse, encode: stringify, decode: parse };
return module;
