// `plugin-sdk/keyed-async-queue`: tasks of one key one after another, those of others beside them.

/** Has a task wait for those before it that have its key in `tails`. */
export const enqueueKeyedTask = ({ tails, key, task, hooks }) => {
  hooks?.onEnqueue?.();
  const before = tails.get(key) ?? Promise.resolve();
  const done = before.then(() => task()).finally(() => hooks?.onSettle?.());
  const tail = done.then(() => {}, () => {}).then(() => {
    if (tails.get(key) === tail) tails.delete(key);
  });
  tails.set(key, tail);
  return done;
};

/** A queue for each key. */
export class KeyedAsyncQueue {
  #tails = new Map();

  enqueue(key, task, hooks) {
    return enqueueKeyedTask({ tails: this.#tails, key, task, hooks });
  }

  getTailMapForTesting() {
    return this.#tails;
  }

  async waitForIdle() {
    await Promise.allSettled([...this.#tails.values()]);
  }
}
