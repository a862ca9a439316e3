// `node:console`: the global one.
return Object.assign(require("absent")("console", ["Console"]), Object.fromEntries(Object.getOwnPropertyNames(console).map((name) => [name, console[name]])));
