// `node:module`: `require` for ES modules.
const { createRequire: create, builtinModules: names } = import.meta.host;

export function createRequire(from) {
  if (from === undefined || from === null) {
    const error = new TypeError('The argument "filename" must be a file URL object, file URL string, or absolute path string');
    error.code = "ERR_INVALID_ARG_VALUE";
    throw error;
  }
  return create(typeof from === "object" && "href" in from ? from.href : from);
}

export const builtinModules = Object.freeze([...names]);
export const isBuiltin = (name) => builtinModules.includes(String(name).replace(/^node:/, ""));
export default { createRequire, builtinModules, isBuiltin };
