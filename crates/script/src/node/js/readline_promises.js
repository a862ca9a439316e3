// `node:readline/promises`.
return require("readline").promises;
