// Reads a JSON list of TypeScript sources from stdin, writes the list of what the compiler makes of them.
import ts from "typescript";

let text = "";
for await (const part of process.stdin) text += part;
const compilerOptions = {
  target: ts.ScriptTarget.ESNext,
  module: ts.ModuleKind.ESNext,
  isolatedModules: false,
  verbatimModuleSyntax: false,
};
const outputs = JSON.parse(text).map((source) => ts.transpileModule(source, { compilerOptions, fileName: "main.ts" }).outputText);
process.stdout.write(JSON.stringify(outputs));
