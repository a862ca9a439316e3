// `node:worker_threads`: a script is one thread, the main one, and starts no others.
const environment = new Map();
return Object.assign(
  require("absent")("worker_threads", ["Worker", "MessageChannel", "MessagePort", "BroadcastChannel", "moveMessagePortToContext", "receiveMessageOnPort", "postMessageToThread"]),
  {
    isMainThread: true, parentPort: null, workerData: null, threadId: 0, resourceLimits: {}, SHARE_ENV: Symbol.for("nodejs.worker_threads.SHARE_ENV"),
    getEnvironmentData: (key) => environment.get(key),
    setEnvironmentData: (key, value) => void (value === undefined ? environment.delete(key) : environment.set(key, value)),
    markAsUntransferable() {},
  },
);
