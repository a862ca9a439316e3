// `node:diagnostics_channel`: channels of the script's own modules among each other.
const channels = new Map();
class Channel {
  #subscribers = [];
  constructor(name) {
    this.name = name;
  }
  get hasSubscribers() {
    return this.#subscribers.length > 0;
  }
  subscribe(subscriber) {
    if (typeof subscriber !== "function") throw Object.assign(new TypeError('The "subscription" argument must be of type function'), { code: "ERR_INVALID_ARG_TYPE" });
    this.#subscribers = [...this.#subscribers, subscriber];
  }
  unsubscribe(subscriber) {
    const left = this.#subscribers.filter((one) => one !== subscriber);
    const had = left.length < this.#subscribers.length;
    this.#subscribers = left;
    return had;
  }
  publish(message) {
    for (const subscriber of this.#subscribers) {
      try {
        subscriber(message, this.name);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
const channel = (name) => {
  if (!channels.has(name)) channels.set(name, new Channel(name));
  return channels.get(name);
};
return Object.assign(require("absent")("diagnostics_channel", ["tracingChannel"]), {
  Channel, channel,
  hasSubscribers: (name) => channels.get(name)?.hasSubscribers ?? false,
  subscribe: (name, subscriber) => channel(name).subscribe(subscriber),
  unsubscribe: (name, subscriber) => channel(name).unsubscribe(subscriber),
});
