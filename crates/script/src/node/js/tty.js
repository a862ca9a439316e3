// `node:tty`: there is no terminal.
return Object.assign(require("absent")("tty", ["ReadStream", "WriteStream"]), { isatty: () => false });
