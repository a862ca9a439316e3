// Modules that can be imported and whose functions say, when they are called, that they are not there.
//
// What is made here is known as such (`is`), so that a plugin that imports it by name is listed with it when it is loaded.
const all = new WeakSet();
const mark = (refuses) => (all.add(refuses), refuses);
const refusing = (what, why = "") => {
  const absent = function () {
    throw Object.assign(new Error(`${what} is not provided to scripts${why}`), { code: "ERR_METHOD_NOT_IMPLEMENTED" });
  };
  Object.defineProperty(absent, "name", { __proto__: null, value: what.slice(what.lastIndexOf(".") + 1), configurable: true });
  return mark(absent);
};
const absent = (module, names) => {
  const made = {};
  for (const name of names) made[name] = refusing(`${module}.${name}`);
  return made;
};
// One that answers later.
const refusingLater = (what, why) => {
  const refuses = refusing(what, why);
  return mark(async () => refuses());
};
const is = (value) => (typeof value === "function" || (typeof value === "object" && value !== null)) && all.has(value);
return Object.assign(absent, { is, mark, refusing, refusingLater });
