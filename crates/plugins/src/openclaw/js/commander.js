// A builder of commands that has the shape of commander's, for plugins that bring commands of the command line.
//
// Words are parsed as there: `--name value`, `--name=value`, `-n value`, `--no-name`, `--` ends the options, and what is
// left are the arguments, `<wanted>` or `[if there]`, the last one `...` for all that follow. What commander has beyond
// that and no plugin needs here is absent.

const { call } = import.meta.host;
const print = (text) => void call("print", { text });
const camel = (name) => name.replace(/-+(\w)/g, (_, letter) => letter.toUpperCase());

class Flag {
  constructor(flags, description, preset, parse) {
    this.flags = flags;
    this.description = description ?? "";
    this.preset = preset;
    this.parse = parse;
    for (const word of flags.split(/[ ,|]+/)) {
      if (word.startsWith("--")) this.long = word;
      else if (word.startsWith("-")) this.short = word;
    }
    this.wants = flags.includes("<");
    this.takes = this.wants || flags.includes("[");
    this.many = flags.includes("...");
    this.negates = this.long?.startsWith("--no-") ?? false;
    this.key = camel((this.long ?? this.short ?? "").replace(/^--?(no-)?/, ""));
  }
}

export class Program {
  #name;
  #description = "";
  #flags = [];
  #wanted = [];
  #action;
  #aliases = [];
  #values = {};
  #parent;
  #listeners = [];
  commands = [];

  constructor(name = "", parent) {
    this.#name = name;
    this.#parent = parent;
  }
  get args() {
    return this.#wanted.map((argument) => argument.name);
  }
  get parent() {
    return this.#parent ?? null;
  }
  name(name) {
    if (name === undefined) return this.#name;
    this.#name = String(name);
    return this;
  }
  description(description) {
    if (description === undefined) return this.#description;
    this.#description = String(description);
    return this;
  }
  hook(when, listener) {
    this.#listeners.push({ when, listener });
    return this;
  }
  addArgument(argument) {
    const name = argument.name();
    return this.argument(argument.required === false ? `[${name}]` : `<${name}>`, argument.description, argument.defaultValue);
  }
  createCommand(name) {
    return new Program(name, this);
  }
  error(message) {
    throw new Error(String(message));
  }
  getOptionValue(key) {
    return this.#values[key];
  }
  setOptionValue(key, value) {
    this.#values[key] = value;
    return this;
  }
  alias(name) {
    this.#aliases.push(String(name));
    return this;
  }
  aliases(names) {
    for (const name of names ?? []) this.alias(name);
    return this;
  }
  command(words, description) {
    const [name, ...rest] = String(words).trim().split(/\s+/);
    const command = new Program(name, this);
    for (const word of rest) command.argument(word);
    if (typeof description === "string") command.description(description);
    this.commands.push(command);
    return command;
  }
  addCommand(command) {
    this.commands.push(command);
    return this;
  }
  argument(word, description, preset) {
    const name = String(word).replace(/[<>[\].]/g, "");
    this.#wanted.push({ name, description: description ?? "", preset, needed: word.startsWith("<"), many: word.includes("...") });
    return this;
  }
  arguments(words) {
    for (const word of String(words).trim().split(/\s+/)) this.argument(word);
    return this;
  }
  option(flags, description, parse, preset) {
    const flag = typeof parse === "function" ? new Flag(flags, description, preset, parse) : new Flag(flags, description, parse);
    this.#flags.push(flag);
    return this;
  }
  requiredOption(flags, ...rest) {
    this.option(flags, ...rest);
    this.#flags.at(-1).needed = true;
    return this;
  }
  addOption(option) {
    this.option(option.flags, option.description, option.defaultValue);
    return this;
  }
  action(handler) {
    this.#action = handler;
    return this;
  }
  opts() {
    return { ...this.#values };
  }
  optsWithGlobals() {
    return { ...(this.#parent?.optsWithGlobals() ?? {}), ...this.#values };
  }
  is(word) {
    return this.#name === word || this.#aliases.includes(word);
  }
  helpInformation() {
    const path = [];
    for (let command = this; command !== null && command.#name !== ""; command = command.parent) path.unshift(command.#name);
    const words = this.#wanted.map(({ name, needed, many }) => (needed ? `<${name}>` : `[${name}]`) + (many ? "..." : ""));
    const lines = [`usage: ${[...path, ...(this.#flags.length > 0 ? ["[options]"] : []), ...words].join(" ")}`];
    if (this.#description !== "") lines.push("", this.#description);
    if (this.#flags.length > 0) lines.push("", "options:", ...this.#flags.map((flag) => `  ${flag.flags}  ${flag.description}`));
    if (this.commands.length > 0) lines.push("", "commands:", ...this.commands.map((command) => `  ${command.#name}  ${command.#description}`));
    return `${lines.join("\n")}\n`;
  }
  outputHelp() {
    print(this.helpInformation());
  }
  help() {
    this.outputHelp();
  }
  describe() {
    return this.helpInformation();
  }

  #flag(word) {
    const flag = this.#flags.find((flag) => flag.long === word || flag.short === word);
    if (flag === undefined) throw new Error(`\`${this.#name}\` has no option \`${word}\``);
    return flag;
  }
  #preset() {
    this.#values = {};
    for (const flag of this.#flags) {
      if (flag.negates) this.#values[flag.key] ??= true;
      else if (flag.preset !== undefined) this.#values[flag.key] = flag.preset;
    }
  }
  #put(flag, value) {
    const before = this.#values[flag.key];
    if (flag.negates) this.#values[flag.key] = false;
    else if (!flag.takes || value === undefined) this.#values[flag.key] = true;
    else if (flag.parse !== undefined) this.#values[flag.key] = flag.parse(value, before);
    else this.#values[flag.key] = flag.many ? [...(Array.isArray(before) ? before : []), value] : value;
  }
  async parseAsync(words) {
    this.#preset();
    const rest = [];
    for (let at = 0; at < words.length; at++) {
      const word = words[at];
      if (word === "--") {
        rest.push(...words.slice(at + 1));
        break;
      }
      if (word === "-h" || word === "--help") return this.outputHelp();
      if (word.startsWith("-") && word !== "-") {
        const equals = word.startsWith("--") ? word.indexOf("=") : -1;
        const flag = this.#flag(equals < 0 ? word : word.slice(0, equals));
        let value = equals < 0 ? undefined : word.slice(equals + 1);
        const next = words[at + 1];
        if (value === undefined && flag.takes && next !== undefined && (flag.wants || !next.startsWith("-"))) {
          value = next;
          at++;
        }
        if (flag.wants && value === undefined) throw new Error(`option \`${word}\` wants a value`);
        this.#put(flag, value);
        continue;
      }
      const below = rest.length === 0 ? this.commands.find((command) => command.is(word)) : undefined;
      if (below !== undefined) return below.parseAsync(words.slice(at + 1));
      rest.push(word);
    }
    const missing = this.#flags.find((flag) => flag.needed && !(flag.key in this.#values));
    if (missing !== undefined) throw new Error(`\`${this.#name}\` needs \`${missing.flags}\``);
    return this.#run(rest);
  }
  async #run(words) {
    if (this.#action === undefined) return this.outputHelp();
    const values = this.#wanted.map((argument, at) => (argument.many ? words.slice(at) : words[at] ?? argument.preset));
    const missing = this.#wanted.find(({ needed, many }, at) => needed && (many ? values[at].length === 0 : values[at] === undefined));
    if (missing !== undefined) throw new Error(`\`${this.#name}\` needs <${missing.name}>`);
    const most = this.#wanted.at(-1)?.many ? Infinity : this.#wanted.length;
    if (words.length > most) throw new Error(`\`${this.#name}\` takes ${most} arguments, and got ${words.length}`);
    await this.#tell("preAction");
    const answer = await this.#action.call(this, ...values, this.opts(), this);
    await this.#tell("postAction");
    return answer;
  }
  async #tell(when) {
    const above = [];
    for (let command = this; command !== null; command = command.parent) above.unshift(command);
    if (when === "postAction") above.reverse();
    for (const command of above) {
      for (const entry of command.#listeners) if (entry.when === when) await entry.listener(command, this);
    }
  }
}

// How help looks, and what else has no meaning for a command that a host calls.
const LOOKS = [
  "addHelpCommand", "addHelpText", "allowExcessArguments", "allowUnknownOption", "combineFlagAndOptionalValue",
  "commandsGroup", "configureHelp", "configureOutput", "copyInheritedSettings", "enablePositionalOptions", "exitOverride",
  "helpCommand", "helpGroup", "helpOption", "optionsGroup", "passThroughOptions", "showHelpAfterError",
  "showSuggestionAfterError", "storeOptionsAsProperties", "summary", "usage", "version",
];
for (const name of LOOKS) {
  Object.defineProperty(Program.prototype, name, {
    value() {
      return this;
    },
  });
}
