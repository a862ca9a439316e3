// `node:assert/strict`.
return require("assert").strict;
