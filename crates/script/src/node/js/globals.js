// The globals that Node and browsers have and that are modules of ours: each is made when a script first reads it.
(function (host, compile) {
  const { defineProperty } = Object;
  const loaded = { __proto__: null };
  const builtin = (name) => {
    if (loaded[name] === undefined) {
      loaded[name] = true;
      loaded[name] = compile(name)(host, builtin);
    }
    return loaded[name];
  };
  const own = (name, value) =>
    defineProperty(globalThis, name, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
  const lazy = (name, make) =>
    defineProperty(globalThis, name, {
      __proto__: null,
      get() {
        const value = make();
        own(name, value);
        return value;
      },
      set: (value) => void own(name, value),
      enumerable: false,
      configurable: true,
    });
  const table = {
    __proto__: null,
    url: ["URL", "URLSearchParams"],
    encoding: ["TextEncoder", "TextDecoder", "atob", "btoa", "structuredClone"],
    buffer: ["Buffer"],
    blob: ["Blob", "File", "FormData"],
    fetch: ["fetch", "Headers", "Request", "Response"],
    webstreams: ["ReadableStream"],
  };
  for (const module in table)
    for (let i = 0; i < table[module].length; i++) {
      const name = table[module][i];
      lazy(name, () => builtin(module)[name]);
    }
  lazy("process", () => builtin("process"));
  lazy("crypto", () => builtin("crypto").webcrypto);
  lazy("performance", () => builtin("perf_hooks").performance);
  own("global", globalThis);
  return builtin;
});
