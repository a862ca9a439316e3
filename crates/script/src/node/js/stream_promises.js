// `node:stream/promises`.
return require("stream").promises;
