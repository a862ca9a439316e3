// CommonJS over the same resolver: `require`, `module`, `exports`, and the cache of what was required.
(function (native, parse) {
  "use strict";
  const { apply, ownKeys } = Reflect;
  const { defineProperty } = Object;
  const $Error = Error;
  const cache = { __proto__: null };
  const namespaces = { __proto__: null };

  const load = (name) => {
    const known = cache[name];
    if (known !== undefined) return known.exports;
    const kind = native.kind(name);
    const module = { exports: {}, id: name, filename: native.filename(name), loaded: false, children: [], paths: [] };
    if (kind === "json") {
      cache[name] = module;
      module.exports = native.json(name);
    } else if (kind === "script") {
      const run = native.compile(name);
      cache[name] = module;
      try {
        apply(run, module.exports, [module.exports, requireOf(name), module, module.filename, native.dirname(name)]);
      } catch (error) {
        delete cache[name];
        throw error;
      }
    } else {
      // An ES module: its namespace, if it awaits nothing while it is evaluated.
      native.evaluate(name, (namespace) => (namespaces[name] = namespace));
      const namespace = namespaces[name];
      if (namespace === undefined) {
        const error = new $Error(`cannot require "${name}": it awaits something while it is loaded; import it`);
        error.code = "ERR_REQUIRE_ASYNC_MODULE";
        throw error;
      }
      if ("module.exports" in namespace) module.exports = namespace["module.exports"];
      else module.exports = kind === "ours" && "default" in namespace ? namespace.default : namespace;
      cache[name] = module;
    }
    module.loaded = true;
    return module.exports;
  };
  const requireOf = (importer) => {
    const require = (specifier) => load(native.resolve(importer, `${specifier}`));
    require.resolve = (specifier) => native.filename(native.resolve(importer, `${specifier}`));
    require.cache = {};
    require.extensions = {};
    require.main = undefined;
    return require;
  };
  // The names that an import can take from what a CommonJS module exports.
  const names = (exports) => {
    if (exports === null || (typeof exports !== "object" && typeof exports !== "function")) return [];
    const found = [];
    const keys = ownKeys(exports);
    for (let i = 0; i < keys.length && found.length < 2000; i++) {
      const key = keys[i];
      if (typeof key !== "string" || key === "default" || !native.isName(key)) continue;
      if (typeof exports === "function" && (key === "length" || key === "name" || key === "prototype")) continue;
      defineProperty(found, found.length, { __proto__: null, value: key, enumerable: true, configurable: true, writable: true });
    }
    return found;
  };
  return { load, names, parse, createRequire: (from) => requireOf(native.importer(`${from}`)) };
});
