const fs = require("node:fs"), block = Buffer.alloc(65536);
let got = Buffer.alloc(0), end;
while ((end = got.indexOf(10)) < 0) {
  const read = fs.readSync(0, block, 0, block.length, null);
  if (read === 0) process.exit(0);
  got = Buffer.concat([got, block.subarray(0, read)]);
}
(0, eval)(JSON.parse(got.subarray(0, end).toString("utf8")))(require, process, got.subarray(end + 1));
