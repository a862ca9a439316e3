// `node:util/types`.
const tagOf = (value) => Object.prototype.toString.call(value).slice(8, -1);
const typed = Object.getPrototypeOf(Uint8Array);
const kindOf = Object.getOwnPropertyDescriptor(typed.prototype, Symbol.toStringTag).get;
const kind = (value) => (ArrayBuffer.isView(value) && !(value instanceof DataView) ? kindOf.call(value) : undefined);
// Whether a method of the class, which looks at what only true instances have, takes `value`.
const takes = (get) => (value) => {
  if (value === null || typeof value !== "object" || host.isProxy(value)) return false;
  try {
    get(value);
    return true;
  } catch {
    return false;
  }
};
const getter = (Class, name) => {
  const get = Object.getOwnPropertyDescriptor(Class.prototype, name).get;
  return (value) => get.call(value);
};
const types = {
  isProxy: (value) => host.isProxy(value),
  isPromise: (value) => host.isPromise(value),
  isMap: takes(getter(Map, "size")),
  isSet: takes(getter(Set, "size")),
  isDate: takes((value) => Date.prototype.getTime.call(value)),
  isRegExp: takes((value) => Object.getOwnPropertyDescriptor(RegExp.prototype, "source").get.call(value) && value !== RegExp.prototype),
  isWeakMap: takes((value) => WeakMap.prototype.has.call(value, {})),
  isWeakSet: takes((value) => WeakSet.prototype.has.call(value, {})),
  isNativeError: (value) => value instanceof Error && !host.isProxy(value),
  isArrayBuffer: takes(getter(ArrayBuffer, "byteLength")),
  isAnyArrayBuffer: takes(getter(ArrayBuffer, "byteLength")),
  isSharedArrayBuffer: () => false,
  isArrayBufferView: (value) => ArrayBuffer.isView(value),
  isDataView: takes(getter(DataView, "byteLength")),
  isTypedArray: (value) => kind(value) !== undefined,
  isAsyncFunction: (value) => typeof value === "function" && /^Async/.test(tagOf(value)),
  isGeneratorFunction: (value) => typeof value === "function" && /GeneratorFunction$/.test(tagOf(value)),
  isGeneratorObject: (value) => tagOf(value) === "Generator",
  isMapIterator: (value) => tagOf(value) === "Map Iterator",
  isSetIterator: (value) => tagOf(value) === "Set Iterator",
  isArgumentsObject: (value) => tagOf(value) === "Arguments",
  isModuleNamespaceObject: (value) => tagOf(value) === "Module",
  isNumberObject: takes((value) => Number.prototype.valueOf.call(value)),
  isStringObject: takes((value) => String.prototype.valueOf.call(value)),
  isBooleanObject: takes((value) => Boolean.prototype.valueOf.call(value)),
  isSymbolObject: takes((value) => Symbol.prototype.valueOf.call(value)),
  isBigIntObject: takes((value) => BigInt.prototype.valueOf.call(value)),
  isExternal: () => false,
  isKeyObject: (value) => value instanceof require("crypto").KeyObject,
  isCryptoKey: () => false,
};
types.isBoxedPrimitive = (value) => types.isNumberObject(value) || types.isStringObject(value) || types.isBooleanObject(value) || types.isSymbolObject(value) || types.isBigIntObject(value);
for (const name of ["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array", "Float32Array", "Float64Array", "BigInt64Array", "BigUint64Array"]) types[`is${name}`] = (value) => kind(value) === name;
return types;
