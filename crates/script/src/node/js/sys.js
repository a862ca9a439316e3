// `node:sys`: the old name of `node:util`.
return require("util");
