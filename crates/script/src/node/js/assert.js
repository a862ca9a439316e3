// `node:assert`.
const { inspect } = require("inspect");
const types = require("util/types");
class AssertionError extends Error {
  constructor({ message, actual, expected, operator }) {
    super(message ?? `${inspect(actual)} ${operator} ${inspect(expected)}`);
    Object.assign(this, { generatedMessage: message === undefined, code: "ERR_ASSERTION", actual, expected, operator });
  }
  get name() {
    return "AssertionError";
  }
}
const fail = (message, actual, expected, operator) => {
  if (message instanceof Error) throw message;
  throw new AssertionError({ message, actual, expected, operator });
};

const entriesOf = (value) => Object.keys(value).concat(Object.getOwnPropertySymbols(value).filter((key) => Object.prototype.propertyIsEnumerable.call(value, key)));
// Whether two values are the same in what they hold. `strict`: of the same types as well.
function same(a, b, strict, seen = []) {
  if (strict ? Object.is(a, b) : a == b || (Number.isNaN(a) && Number.isNaN(b))) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return false;
  if (strict && Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  const tag = Object.prototype.toString.call(a);
  if (tag !== Object.prototype.toString.call(b) || Array.isArray(a) !== Array.isArray(b)) return false;
  for (const [one, other] of seen) if (one === a || other === b) return one === a && other === b;
  seen = [...seen, [a, b]];
  if (types.isDate(a) && (!types.isDate(b) || a.getTime() !== b.getTime())) return false;
  if (types.isRegExp(a) && (!types.isRegExp(b) || String(a) !== String(b) || a.lastIndex !== b.lastIndex)) return false;
  if (a instanceof Error && (a.message !== b.message || a.name !== b.name)) return false;
  if (types.isBoxedPrimitive(a) && (!types.isBoxedPrimitive(b) || !Object.is(a.valueOf(), b.valueOf()))) return false;
  if (types.isArrayBuffer(a)) return types.isArrayBuffer(b) && same(new Uint8Array(a), new Uint8Array(b), strict, seen);
  if (types.isMap(a)) {
    if (!types.isMap(b) || a.size !== b.size) return false;
    const left = [...b];
    for (const [key, value] of a) {
      const at = left.findIndex(([other, item]) => same(key, other, strict, seen) && same(value, item, strict, seen));
      if (at < 0) return false;
      left.splice(at, 1);
    }
  }
  if (types.isSet(a)) {
    if (!types.isSet(b) || a.size !== b.size) return false;
    const left = [...b];
    for (const value of a) {
      const at = left.findIndex((other) => same(value, other, strict, seen));
      if (at < 0) return false;
      left.splice(at, 1);
    }
  }
  if (types.isWeakMap(a) || types.isWeakSet(a) || types.isPromise(a)) return false;
  if (Array.isArray(a) && a.length !== b.length) return false;
  const keys = entriesOf(a);
  if (keys.length !== entriesOf(b).length) return false;
  return keys.every((key) => Object.prototype.propertyIsEnumerable.call(b, key) && same(a[key], b[key], strict, seen));
}

const matches = (error, expected, message, operator) => {
  if (expected === undefined) return;
  if (typeof expected === "function") {
    if (expected.prototype !== undefined && error instanceof expected) return;
    if (Object.prototype.isPrototypeOf.call(Error, expected)) throw error;
    if (Reflect.apply(expected, {}, [error]) === true) return;
  } else if (types.isRegExp(expected)) {
    if (expected.test(String(error))) return;
  } else {
    const keys = Object.keys(expected).concat(expected instanceof Error ? ["name", "message"] : []);
    if (keys.every((key) => key in error && ((types.isRegExp(expected[key]) && typeof error[key] === "string" && expected[key].test(error[key])) || same(error[key], expected[key], true)))) return;
  }
  fail(message ?? `The error does not match: ${inspect(error)}`, error, expected, operator);
};
const split = (expected, message) => (typeof expected === "string" ? [undefined, expected] : [expected, message]);
const make = (strict) => {
  const equal = strict ? Object.is : (a, b) => a == b || (Number.isNaN(a) && Number.isNaN(b));
  const check = (holds, operator) => (actual, expected, message) => void (holds(actual, expected) || fail(message, actual, expected, operator));
  const ok = (value, message) => void (value || fail(message ?? "The expression evaluated to a falsy value", value, true, "=="));
  const assert = (value, message) => ok(value, message);
  const threw = (run) => {
    try {
      run();
    } catch (error) {
      return { error };
    }
    return undefined;
  };
  const rejected = async (run) => {
    try {
      await (typeof run === "function" ? run() : run);
    } catch (error) {
      return { error };
    }
    return undefined;
  };
  return Object.assign(assert, {
    ok, AssertionError, same,
    equal: check(equal, strict ? "strictEqual" : "=="),
    notEqual: check((a, b) => !equal(a, b), strict ? "notStrictEqual" : "!="),
    strictEqual: check(Object.is, "strictEqual"),
    notStrictEqual: check((a, b) => !Object.is(a, b), "notStrictEqual"),
    deepEqual: check((a, b) => same(a, b, strict), "deepEqual"),
    notDeepEqual: check((a, b) => !same(a, b, strict), "notDeepEqual"),
    deepStrictEqual: check((a, b) => same(a, b, true), "deepStrictEqual"),
    notDeepStrictEqual: check((a, b) => !same(a, b, true), "notDeepStrictEqual"),
    match: check((text, pattern) => typeof text === "string" && pattern.test(text), "match"),
    doesNotMatch: check((text, pattern) => typeof text !== "string" || !pattern.test(text), "doesNotMatch"),
    fail: (message = "Failed") => fail(message, undefined, undefined, "fail"),
    ifError: (value) => void (value === null || value === undefined || fail(value instanceof Error ? value : `ifError got unwanted exception: ${inspect(value)}`, value, null, "ifError")),
    throws(run, expected, message) {
      [expected, message] = split(expected, message);
      const found = threw(run) ?? fail(message ?? "Missing expected exception.", undefined, expected, "throws");
      matches(found.error, expected, message, "throws");
    },
    doesNotThrow(run, message) {
      const found = threw(run);
      if (found) fail(typeof message === "string" ? message : `Got unwanted exception.\nActual message: "${found.error?.message}"`, found.error, undefined, "doesNotThrow");
    },
    async rejects(run, expected, message) {
      [expected, message] = split(expected, message);
      const found = (await rejected(run)) ?? fail(message ?? "Missing expected rejection.", undefined, expected, "rejects");
      matches(found.error, expected, message, "rejects");
    },
    async doesNotReject(run) {
      const found = await rejected(run);
      if (found) fail(`Got unwanted rejection.\nActual message: "${found.error?.message}"`, found.error, undefined, "doesNotReject");
    },
  });
};
const assert = make(false), strict = make(true);
strict.strict = strict;
assert.strict = strict;
return assert;
