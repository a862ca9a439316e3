// Modules that can be imported and whose functions say, when they are called, that they are not there.
return (module, names) => {
  const made = {};
  for (const name of names) {
    const absent = function () {
      throw Object.assign(new Error(`${module}.${name} is not provided to scripts`), { code: "ERR_METHOD_NOT_IMPLEMENTED" });
    };
    Object.defineProperty(absent, "name", { __proto__: null, value: name, configurable: true });
    made[name] = absent;
  }
  return made;
};
