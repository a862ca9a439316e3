// `node:fs/promises`.
return require("fs").promises;
