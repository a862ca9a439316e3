// `node:timers`.
const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate } = globalThis;
return {
  setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate,
  get promises() {
    return require("timers/promises");
  },
};
