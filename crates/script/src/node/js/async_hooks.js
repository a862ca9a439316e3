// `node:async_hooks`: what needs no knowledge of which code goes on for which. That is not there.
let last = 1;
class AsyncResource {
  #id = ++last;
  constructor(type) {
    if (typeof type !== "string") throw Object.assign(new TypeError('The "type" argument must be of type string'), { code: "ERR_INVALID_ARG_TYPE" });
  }
  runInAsyncScope(fn, self, ...args) {
    return Reflect.apply(fn, self, args);
  }
  emitDestroy() {
    return this;
  }
  asyncId() {
    return this.#id;
  }
  triggerAsyncId() {
    return 1;
  }
  bind(fn, self) {
    const resource = this;
    return function (...args) {
      return resource.runInAsyncScope(fn, self === undefined ? this : self, ...args);
    };
  }
  static bind(fn, type, self) {
    return new AsyncResource(type ?? (fn.name || "bound-anonymous-fn")).bind(fn, self);
  }
}
return Object.assign(require("absent")("async_hooks", ["AsyncLocalStorage", "createHook", "executionAsyncId", "executionAsyncResource", "triggerAsyncId"]), { AsyncResource });
