// How a value looks as text: `util.inspect` and `util.format`.
const custom = Symbol.for("nodejs.util.inspect.custom");
const { getPrototypeOf, getOwnPropertyDescriptor, getOwnPropertySymbols, keys: keysOf } = Object;
const isEnumerable = Function.prototype.call.bind(Object.prototype.propertyIsEnumerable);
const hasOwn = Object.hasOwn;
const typed = getPrototypeOf(Uint8Array);
const isProxy = host.isProxy;
const defaults = { showHidden: false, depth: 2, colors: false, customInspect: true, showProxy: false, maxArrayLength: 100, maxStringLength: 10000, breakLength: 80, compact: 3, sorted: false, getters: false, numericSeparator: false };

const escapes = { "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", "\\": "\\\\" };
const quote = (text) => {
  const mark = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes("`") && !text.includes("${") ? "`" : "'";
  let out = mark;
  for (let i = 0; i < text.length; i++) {
    const char = text[i], code = text.charCodeAt(i);
    if (char === mark && mark === "'") out += "\\'";
    else if (escapes[char] !== undefined) out += escapes[char];
    else if (code < 32 || (code >= 127 && code < 160)) out += `\\x${code.toString(16).toUpperCase().padStart(2, "0")}`;
    else if (code >= 0xd800 && code <= 0xdfff) {
      const next = text.charCodeAt(i + 1);
      if (code <= 0xdbff && next >= 0xdc00 && next <= 0xdfff) out += char + text[++i];
      else out += `\\u${code.toString(16)}`;
    } else out += char;
  }
  return out + mark;
};
const wide = (code) =>
  (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf && code !== 0x303f) || (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) ||
  (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff01 && code <= 0xff60) || (code >= 0xffe0 && code <= 0xffe6) || (code >= 0x1f300 && code <= 0x1f64f) || (code >= 0x1f900 && code <= 0x1f9ff) || (code >= 0x20000 && code <= 0x3fffd);
const widthOf = (text) => {
  let width = 0;
  for (const char of text.normalize("NFC")) {
    const code = char.codePointAt(0);
    width += wide(code) ? 2 : code < 32 || (code >= 127 && code < 160) || (code >= 0x300 && code <= 0x36f) || (code >= 0x200b && code <= 0x200f) || (code >= 0xfe00 && code <= 0xfe0f) ? 0 : 1;
  }
  return width;
};

const number = (value) => (Object.is(value, -0) ? "-0" : `${value}`);
const primitive = (state, value) => {
  if (typeof value === "string") {
    let tail = "";
    if (value.length > state.maxStringLength) {
      const left = value.length - state.maxStringLength;
      value = value.slice(0, state.maxStringLength);
      tail = `... ${left} more character${left > 1 ? "s" : ""}`;
    }
    if (state.compact !== true && value.length > 16 && value.length > state.breakLength - state.indent - 4)
      return value.split(/(?<=\n)/).map(quote).join(` +\n${" ".repeat(state.indent + 2)}`) + tail;
    return quote(value) + tail;
  }
  if (typeof value === "number") return number(value);
  if (typeof value === "bigint") return `${value}n`;
  return String(value);
};

const nameOf = (value) => {
  for (let at = value; at !== null; at = getPrototypeOf(at)) {
    const made = getOwnPropertyDescriptor(at, "constructor");
    if (made !== undefined && typeof made.value === "function" && made.value.name !== "" && value instanceof made.value) return made.value.name;
  }
  return null;
};
const prefix = (name, tag, fallback, size = "") => {
  if (name === null) return `[${fallback}${size}: null prototype] ${tag !== "" && tag !== fallback ? `[${tag}] ` : ""}`;
  return `${name}${size} ${tag !== "" && name !== tag ? `[${tag}] ` : ""}`;
};
const functionText = (value, name, tag) => {
  const text = Function.prototype.toString.call(value);
  if (/^class\b/.test(text)) {
    let base = `class ${(hasOwn(value, "name") && value.name) || "(anonymous)"}`;
    if (name !== "Function" && name !== null) base += ` [${name}]`;
    if (tag !== "" && name !== tag) base += ` [${tag}]`;
    const above = name === null ? "[null prototype]" : getPrototypeOf(value).name;
    return `[${base}${above ? ` extends ${above}` : ""}]`;
  }
  const kind = Object.prototype.toString.call(value).slice(8, -1);
  const type = kind.endsWith("Function") ? kind : "Function";
  let base = `[${type}${name === null ? " (null prototype)" : ""}${value.name === "" ? " (anonymous)" : `: ${value.name}`}]`;
  if (name !== type && name !== null) base += ` ${name}`;
  if (tag !== "" && name !== tag) base += ` [${tag}]`;
  return base;
};
const errorText = (state, value, keys) => {
  const name = value.name != null ? String(value.name) : "Error";
  const head = `${value.message ? `${name}: ${value.message}` : name}`;
  const stack = typeof value.stack === "string" && value.stack !== "" ? value.stack.trimEnd() : "";
  let text = stack === "" ? `[${head}]` : stack.startsWith(head) ? stack : `${head}\n${stack}`;
  for (const key of ["name", "message", "stack"]) {
    const at = keys.indexOf(key);
    if (at >= 0 && text.includes(value[key])) keys.splice(at, 1);
  }
  if (hasOwn(value, "cause") && !keys.includes("cause")) keys.push("cause");
  if (Array.isArray(value.errors) && hasOwn(value, "errors") && !keys.includes("errors")) keys.push("errors");
  return state.indent > 0 ? text.replaceAll("\n", `\n${" ".repeat(state.indent)}`) : text;
};

const show = (state, value, level, inList) => {
  if (value === null || (typeof value !== "object" && typeof value !== "function")) return primitive(state, value);
  if (isProxy(value)) {
    const bare = typeof value === "function" ? "[Function (anonymous)]" : "[Proxy]";
    return bare;
  }
  if (state.customInspect) {
    const own = value[custom];
    if (typeof own === "function" && own !== inspect && !(value.constructor && value.constructor.prototype === value)) {
      const depth = state.depth === null ? null : state.depth - level;
      const { seen, indent, circular, deepest, budget, ...options } = state;
      const said = own.call(value, depth, { ...options, depth, stylize: (text) => `${text}` }, inspect);
      if (said !== value) return typeof said === "object" && said !== null ? show(state, said, level) : String(said).replaceAll("\n", `\n${" ".repeat(state.indent)}`);
    }
  }
  if (state.seen.includes(value)) {
    if (!state.circular.has(value)) state.circular.set(value, state.circular.size + 1);
    return `[Circular *${state.circular.get(value)}]`;
  }
  return raw(state, value, level, inList);
};

const propertyText = (state, value, level, key, list) => {
  const described = getOwnPropertyDescriptor(value, key) ?? { value: value[key], enumerable: true };
  let text;
  if ("value" in described) {
    const more = list !== "object" || state.compact !== 3 ? 2 : 2;
    state.indent += more;
    text = show(state, described.value, level);
    state.indent -= more;
  } else text = described.get !== undefined ? (described.set !== undefined ? "[Getter/Setter]" : "[Getter]") : described.set !== undefined ? "[Setter]" : "undefined";
  if (list === "item") return text;
  const name = typeof key === "symbol" ? `[${String(key)}]` : key === "__proto__" ? "['__proto__']" : /^[a-zA-Z_][a-zA-Z_0-9]*$/.test(key) ? key : quote(key);
  return described.enumerable === false ? `[${typeof key === "symbol" ? String(key) : key}]: ${text}` : `${name}: ${text}`;
};

const arrayItems = (state, value, level) => {
  const out = [];
  const most = Math.min(Math.max(0, state.maxArrayLength), value.length);
  let shown = 0, at = 0;
  for (; at < value.length && shown < most; shown++) {
    if (hasOwn(value, at)) {
      out.push(propertyText(state, value, level, at, "item"));
      at++;
      continue;
    }
    let end = value.length;
    for (const key of keysOf(value)) {
      const place = Number(key);
      if (!(Number.isInteger(place) && place >= 0)) break;
      if (place > at) {
        end = place;
        break;
      }
    }
    out.push(`<${end - at} empty item${end - at > 1 ? "s" : ""}>`);
    at = end;
  }
  const left = value.length - at;
  if (left > 0) out.push(`... ${left} more item${left > 1 ? "s" : ""}`);
  return out;
};
const someOf = (state, all, write) => {
  const out = [];
  const most = Math.max(0, state.maxArrayLength);
  state.indent += 2;
  for (let i = 0; i < all.length && i < most; i++) out.push(write(all[i]));
  state.indent -= 2;
  if (all.length > most) out.push(`... ${all.length - most} more item${all.length - most > 1 ? "s" : ""}`);
  return out;
};
const bytesText = (state, value) => {
  const bytes = new Uint8Array(value);
  const most = Math.min(Math.max(0, state.maxArrayLength), bytes.length);
  let text = Array.from(bytes.subarray(0, most), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
  if (bytes.length > most) text += ` ... ${bytes.length - most} more byte${bytes.length - most > 1 ? "s" : ""}`;
  return `[Uint8Contents]: <${text}>`;
};

const raw = (state, value, level, typedParent) => {
  if (state.budget.left-- <= 0) return "[...]";
  const name = nameOf(value);
  let tag = value[Symbol.toStringTag];
  if (typeof tag !== "string" || (tag !== "" && isEnumerable(value, Symbol.toStringTag))) tag = "";
  const isList = Array.isArray(value) || value instanceof typed;
  let keys = keysOf(value);
  if (state.showHidden) keys = Object.getOwnPropertyNames(value);
  if (isList) keys = keys.filter((key) => !/^(0|[1-9][0-9]*)$/.test(key) && (state.showHidden || key !== "length"));
  for (const symbol of getOwnPropertySymbols(value)) if (state.showHidden || isEnumerable(value, symbol)) keys.push(symbol);
  let base = "", open = "{", close = "}", items = () => [], list = "object";
  const none = () => keys.length === 0;
  if (Array.isArray(value)) {
    open = `${name !== "Array" || tag !== "" ? prefix(name, tag, "Array", `(${value.length})`) : ""}[`;
    if (value.length === 0 && none()) return `${open}]`;
    close = "]";
    list = "array";
    items = () => arrayItems(state, value, level);
  } else if (value instanceof Set) {
    open = `${prefix(name, tag, "Set", `(${value.size})`)}{`;
    if (value.size === 0 && none()) return `${open}}`;
    items = () => someOf(state, [...Set.prototype.values.call(value)], (item) => show(state, item, level));
  } else if (value instanceof Map) {
    open = `${prefix(name, tag, "Map", `(${value.size})`)}{`;
    if (value.size === 0 && none()) return `${open}}`;
    items = () => someOf(state, [...Map.prototype.entries.call(value)], ([key, item]) => `${show(state, key, level)} => ${show(state, item, level)}`);
  } else if (value instanceof typed) {
    open = `${prefix(name, tag, tag || "TypedArray", `(${value.length})`)}[`;
    if (value.length === 0 && none()) return `${open}]`;
    close = "]";
    list = "array";
    items = () => {
      const most = Math.min(Math.max(0, state.maxArrayLength), value.length);
      const out = Array.from(value.subarray(0, most), (item) => primitive(state, item));
      if (value.length > most) out.push(`... ${value.length - most} more item${value.length - most > 1 ? "s" : ""}`);
      return out;
    };
  } else if (typeof value === "function") {
    base = functionText(value, name, tag);
    if (none()) return base;
  } else if (value instanceof RegExp) {
    base = RegExp.prototype.toString.call(value);
    const above = prefix(name, tag, "RegExp");
    if (above !== "RegExp ") base = above + base;
    if (none()) return base;
  } else if (value instanceof Date) {
    base = Number.isNaN(value.getTime()) ? "Invalid Date" : Date.prototype.toISOString.call(value);
    const above = prefix(name, tag, "Date");
    if (above !== "Date ") base = above + base;
    if (none()) return base;
  } else if (value instanceof Error) {
    base = errorText(state, value, keys);
    if (none()) return base;
  } else if (value instanceof ArrayBuffer) {
    open = `${prefix(name, tag, "ArrayBuffer")}{`;
    if (typedParent) return `${open} byteLength: ${value.byteLength} }`;
    items = () => [bytesText(state, value), `byteLength: ${value.byteLength}`];
  } else if (value instanceof DataView) {
    open = `${prefix(name, tag, "DataView")}{`;
    keys.unshift("byteLength", "byteOffset", "buffer");
  } else if (value instanceof Promise) {
    open = `${prefix(name, tag, "Promise")}{`;
    items = () => ["<pending>"];
  } else if (value instanceof WeakSet || value instanceof WeakMap) {
    open = `${prefix(name, tag, "WeakMap")}{`;
    items = () => ["<items unknown>"];
  } else if (value instanceof Number || value instanceof String || value instanceof Boolean || value instanceof Symbol || value instanceof BigInt) {
    const type = value instanceof Number ? "Number" : value instanceof String ? "String" : value instanceof Boolean ? "Boolean" : value instanceof Symbol ? "Symbol" : "BigInt";
    if (type === "String") keys = keys.filter((key) => !/^(0|[1-9][0-9]*)$/.test(key));
    base = `[${type}${type !== name ? (name === null ? " (null prototype)" : ` (${name})`) : ""}: ${primitive({ ...state, breakLength: Infinity }, value.valueOf())}]`;
    if (tag !== "" && tag !== name) base += ` [${tag}]`;
    if (none()) return base;
  } else if (Object.prototype.toString.call(value) === "[object Arguments]") {
    open = "[Arguments] [";
    close = "]";
    list = "array";
    keys = keys.filter((key) => !/^[0-9]+$/.test(key));
    items = () => arrayItems(state, value, level);
  } else if (name === "Object") {
    if (tag !== "") open = `${prefix(name, tag, "Object")}{`;
    if (none()) return `${open}}`;
  } else {
    const above = prefix(name, tag, "Object");
    if (none()) return `${above}{}`;
    open = `${above}{`;
  }
  if (state.depth !== null && level > state.depth) {
    const said = prefix(name, tag, Array.isArray(value) ? "Array" : "Object").slice(0, -1);
    return name === null ? said : `[${Array.isArray(value) && name === "Array" ? "Array" : said}]`;
  }
  level++;
  state.seen.push(value);
  state.deepest = level;
  let out = items();
  for (const key of keys) out.push(propertyText(state, value, level, key, "object"));
  state.seen.pop();
  const reference = state.circular.get(value);
  if (reference !== undefined) {
    if (base === "") open = `<ref *${reference}> ${open}`;
    else base = `<ref *${reference}> ${base}`;
  }
  if (state.sorted) {
    const order = typeof state.sorted === "function" ? state.sorted : undefined;
    if (list === "object") out = out.sort(order);
    else out = [...out.slice(0, out.length - keys.length), ...out.slice(out.length - keys.length).sort(order)];
  }
  return oneText(state, out, base, open, close, list, level, value);
};

// Many short items of an array stand in columns.
const columnsOf = (state, out, value) => {
  const more = state.maxArrayLength < out.length ? 1 : 0;
  const count = out.length - more;
  const lengths = out.slice(0, count).map(widthOf);
  const longest = Math.max(0, ...lengths);
  const total = lengths.reduce((sum, length) => sum + length + 2, 0);
  const most = longest + 2;
  if (!(most * 3 + state.indent < state.breakLength && (total / most > 5 || longest <= 6))) return out;
  const bias = Math.max(most - 3 - Math.sqrt(most - total / out.length), 1);
  const columns = Math.min(Math.round(Math.sqrt(2.5 * bias * count) / bias), Math.floor((state.breakLength - state.indent) / most), state.compact * 4, 15);
  if (columns <= 1) return out;
  const widths = [];
  for (let column = 0; column < columns; column++) {
    let width = 0;
    for (let i = column; i < count; i += columns) width = Math.max(width, lengths[i]);
    widths.push(width + 2);
  }
  const numbers = value !== undefined && out.every((_, i) => typeof value[i] === "number" || typeof value[i] === "bigint");
  const lines = [];
  for (let start = 0; start < count; start += columns) {
    const end = Math.min(start + columns, count);
    let line = "";
    for (let i = start; i < end; i++) {
      const last = i === end - 1;
      const cell = last ? out[i] : `${out[i]}, `;
      const pad = " ".repeat(Math.max(0, widths[i - start] - (last ? 2 : 0) - lengths[i] - (last ? 0 : 2)));
      line += numbers ? pad + cell : last ? cell : cell + pad;
    }
    lines.push(line);
  }
  if (more) lines.push(out[count]);
  return lines;
};
const oneText = (state, out, base, open, close, list, level, value) => {
  const before = base === "" ? "" : `${base} `;
  if (state.compact !== true) {
    const entries = out.length;
    if (typeof state.compact === "number" && state.compact >= 1) {
      if (list === "array" && entries > 6) out = columnsOf(state, out, value);
      if (state.deepest - level < state.compact && entries === out.length) {
        const start = out.length + state.indent + open.length + base.length + 10;
        if (fits(state, out, start, base)) {
          const joined = out.join(", ");
          if (!joined.includes("\n")) return `${before}${open} ${joined} ${close}`;
        }
      }
    }
    const line = `\n${" ".repeat(state.indent)}`;
    return `${before}${open}${line}  ${out.join(`,${line}  `)}${line}${close}`;
  }
  if (fits(state, out, 0, base)) return `${open}${base ? ` ${base}` : ""} ${out.join(", ")} ${close}`;
  const line = `\n${" ".repeat(state.indent)}`;
  const gap = base === "" && open.length === 1 ? " " : `${base ? ` ${base}` : ""}${line}  `;
  return `${open}${gap}${out.join(`,${line}  `)} ${close}`;
};
const fits = (state, out, start, base) => {
  let total = out.length + start;
  if (total + out.length > state.breakLength) return false;
  for (const item of out) {
    total += item.length;
    if (total > state.breakLength) return false;
  }
  return base === "" || !base.includes("\n");
};

function inspect(value, options, depth) {
  const state = { ...defaults, seen: [], circular: new Map(), indent: 0, deepest: 0, budget: { left: 20000 } };
  if (typeof options === "boolean") {
    state.showHidden = options;
    if (depth !== undefined) state.depth = depth;
  } else if (options !== null && typeof options === "object") for (const key in defaults) if (options[key] !== undefined) state[key] = options[key];
  for (const key of ["maxArrayLength", "maxStringLength"]) if (state[key] === null) state[key] = Infinity;
  if (state.depth === Infinity) state.depth = null;
  return show(state, value, 0);
}
inspect.custom = custom;
inspect.defaultOptions = defaults;
inspect.colors = {};
inspect.styles = {};

const builtIns = new Set(["Object", "Array", "Function", "Error", "TypeError", "RangeError", "SyntaxError", "ReferenceError", "EvalError", "URIError", "AggregateError", "Map", "Set", "Date", "RegExp", "Promise", "WeakMap", "WeakSet", "ArrayBuffer", "DataView", "Number", "String", "Boolean", "Symbol", "BigInt"]);
const plainText = (value) => {
  if (isProxy(value)) return true;
  if (typeof value.toString !== "function") return typeof value[Symbol.toPrimitive] !== "function";
  if (hasOwn(value, "toString") || hasOwn(value, Symbol.toPrimitive)) return false;
  let above = value;
  do above = getPrototypeOf(above);
  while (above !== null && !hasOwn(above, "toString") && !hasOwn(above, Symbol.toPrimitive));
  const made = above === null ? undefined : getOwnPropertyDescriptor(above, "constructor");
  return made !== undefined && typeof made.value === "function" && builtIns.has(made.value.name);
};
const asJson = (value) => {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (/circular/i.test(error.message)) return "[Circular]";
    throw error;
  }
};
const slots = {
  s: (value, options) => {
    if (typeof value === "number") return number(value);
    if (typeof value === "bigint") return `${value}n`;
    if (typeof value !== "object" || value === null || !plainText(value)) return String(value);
    return inspect(value, { ...options, compact: 3, depth: 0 });
  },
  j: asJson,
  d: (value) => (typeof value === "bigint" ? `${value}n` : typeof value === "symbol" ? "NaN" : number(Number(value))),
  i: (value) => (typeof value === "bigint" ? `${value}n` : typeof value === "symbol" ? "NaN" : number(Number.parseInt(value))),
  f: (value) => (typeof value === "symbol" ? "NaN" : number(Number.parseFloat(value))),
  o: (value, options) => inspect(value, { ...options, showHidden: true, showProxy: true, depth: 4 }),
  O: (value, options) => inspect(value, options),
  c: () => "",
};
function formatWithOptions(options, ...args) {
  let next = 0, text = "";
  if (typeof args[0] === "string") {
    next = 1;
    if (args.length === 1) return args[0];
    text = args[0].replace(/%([sjdifoOc%])/g, (whole, slot) => {
      if (slot === "%") return "%";
      return next < args.length ? slots[slot](args[next++], options) : whole;
    });
  }
  for (; next < args.length; next++) text += (next > 0 ? " " : "") + (typeof args[next] === "string" ? args[next] : inspect(args[next], options));
  return text;
}
const format = (...args) => formatWithOptions({}, ...args);
return { inspect, format, formatWithOptions, quote, widthOf };
