// `node:path/win32`.
return require("path").win32;
