// `console`, and how values are shown in lines of a log: made when a script first reads `console`, or something is shown.
// What it needs of the built-ins was taken by the prelude before the script ran; nothing else of them is used here.
(function (taken) {
  "use strict";
  const { $Error, $String, stringify, getOwnPropertyDescriptor, ownKeys, isArray, hidden, isProxy, log } = taken;
  const show = (value, depth = 0, quote = false) => {
    switch (typeof value) {
      case "string":
        return quote ? stringify(value) : value;
      case "bigint":
        return `${value}n`;
      case "symbol":
        return $String(value);
      case "function":
        return `[Function: ${$String(getOwnPropertyDescriptor(value, "name")?.value ?? "")}]`;
      case "object":
        break;
      default:
        return $String(value);
    }
    if (value === null) return "null";
    if (isProxy(value)) return "[Proxy]";
    if (value instanceof $Error) {
      const stack = getOwnPropertyDescriptor(value, "stack")?.value;
      return `${value.name}: ${value.message}${typeof stack === "string" && stack !== "" ? `\n${stack}` : ""}`;
    }
    if (depth > 3) return isArray(value) ? "[Array]" : "[Object]";
    const names = ownKeys(value);
    let text = "";
    let shown = 0;
    for (let i = 0; i < names.length; i++) {
      const property = getOwnPropertyDescriptor(value, names[i]);
      if (property === undefined || !property.enumerable || typeof names[i] === "symbol") continue;
      if (shown++ === 100) {
        text += ", ...";
        break;
      }
      if (shown > 1) text += ", ";
      if (!isArray(value)) text += `${names[i]}: `;
      text += "value" in property ? show(property.value, depth + 1, true) : "[Getter]";
    }
    return isArray(value) ? `[ ${text} ]` : `{ ${text} }`;
  };
  const format = (args) => {
    let text = "";
    for (let i = 0; i < args.length; i++) text += (i === 0 ? "" : " ") + show(args[i]);
    return text;
  };
  const console = {};
  const levels = { __proto__: null, debug: 0, trace: 0, log: 1, info: 1, dir: 1, table: 1, group: 1, warn: 2, error: 3 };
  for (const name in levels) {
    const level = levels[name];
    hidden(console, name, (...args) => log(level, format(args)));
  }
  hidden(console, "assert", (held, ...args) => held || log(3, `assertion failed: ${format(args)}`));
  const nothing = ["groupEnd", "time", "timeEnd", "timeLog", "count", "countReset", "clear"];
  for (let i = 0; i < nothing.length; i++) hidden(console, nothing[i], () => {});
  return { __proto__: null, console, show };
});
