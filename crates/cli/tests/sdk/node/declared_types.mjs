// Prints the types that the SDKs declare for the parts and fields of answers and the fields of requests, as JSON: by table, each type once.
// There is no compiler here, so the declarations are read as the text that they are.

import { readFileSync } from 'node:fs';

const modules = new URL('./node_modules/', import.meta.url);
const read = (path) => readFileSync(new URL(path, modules), 'utf8').replace(/\/\*[\s\S]*?\*\//g, '');

const responses = read('openai/resources/responses/responses.d.ts');
const betaResponses = read('openai/resources/beta/responses/responses.d.ts');
const realtime = read('openai/resources/realtime/realtime.d.ts');
const chat = read('openai/resources/chat/completions/completions.d.ts');
const messages = read('@anthropic-ai/sdk/resources/messages/messages.d.ts');
const betaMessages = read('@anthropic-ai/sdk/resources/beta/messages/messages.d.ts');
const genai = read('@google/genai/dist/genai.d.ts');

/** The body of an interface, up to the brace that closes it. */
function body(text, name) {
  const begin = text.search(new RegExp(`\\binterface ${name}\\b[^{]*{`));
  if (begin < 0) throw new Error(`no interface ${name}`);
  const from = text.indexOf('{', begin);
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === '{') depth += 1;
    if (text[at] === '}' && (depth -= 1) === 0) return text.slice(from + 1, at);
  }
  throw new Error(`interface ${name} has no end`);
}

/** The fields of an interface itself, without those of objects inside. */
function fields(text, name) {
  let depth = 0;
  const own = [...body(text, name)].map((c) => {
    if (c === '}') depth -= 1;
    const kept = depth === 0 ? c : '';
    if (c === '{') depth += 1;
    return kept;
  });
  return own.join('');
}

/** The types of a union, through other unions. `A.B` is an interface within a namespace. */
function types(text, union) {
  const alias = text.match(new RegExp(`export type ${union} =([^;]*);`));
  if (!alias) {
    const name = union.split('.').pop();
    const literals = fields(text, name).match(/\btype: ((?:'[^']*'(?: \| )?)+);/);
    const base = text.match(new RegExp(`\\binterface ${name} extends (\\w+)`));
    if (!literals && base) return types(text, base[1]);
    if (!literals) throw new Error(`${union} has no literal type`);
    return literals[1].split('|').map((literal) => literal.trim().slice(1, -1));
  }
  const members = alias[1].split('|').map((member) => member.trim()).filter((member) => member !== '');
  return members.flatMap((member) => types(text, member.replace(/^.*API\./, '')));
}

/** The names of the fields of interfaces. */
const names = (text, ...interfaces) =>
  interfaces.flatMap((name) => [...fields(text, name).matchAll(/^\s*'?([\w-]+)'?\??:/gm)].map((match) => match[1]));

/** The fields that the SDK writes beside the configuration, which it spreads over the body. */
function geminiFields() {
  const source = readFileSync(new URL('@google/genai/dist/index.mjs', modules), 'utf8');
  const bodies = source.matchAll(/^function generateContent(Config|Parameters)To(?:Mldev|Vertex)\b[\s\S]*?^}/gm);
  const written = [...bodies].flatMap(([body, kind]) => {
    const target = kind === 'Config' ? 'parentObject' : 'toObject';
    return [...body.matchAll(new RegExp(`setValueByPath\\(${target}, \\['(\\w+)'`, 'g'))].map((match) => match[1]);
  });
  if (written.length === 0) throw new Error('no fields of Gemini');
  return written.filter((name) => name !== '_url');
}

/** The interfaces of a union, through other unions, without their namespaces. */
function interfaces(text, union) {
  const alias = text.match(new RegExp(`export type ${union} =([^;]*);`));
  if (!alias) return [union];
  const members = alias[1].split('|').map((member) => member.trim()).filter((member) => member !== '');
  return members.flatMap((member) => interfaces(text, member.replace(/^.*API\./, '')));
}

/** The names of the fields of the interfaces of unions. */
const fieldsOf = (text, ...unions) => names(text, ...unions.flatMap((union) => interfaces(text, union)).map((name) => name.split('.').pop()));

/** The names of the fields of an interface within a namespace. */
function fieldsWithin(text, namespace, name) {
  const begin = text.search(new RegExp(`\\bnamespace ${namespace} {`));
  if (begin < 0) throw new Error(`no namespace ${namespace}`);
  return names(text.slice(begin), name);
}

const sorted = (names) => [...new Set(names)].sort();
const part = fields(genai, 'Part');
console.log(
  JSON.stringify({
    'openai-responses items': sorted([...types(responses, 'ResponseOutputItem'), ...types(betaResponses, 'BetaResponseOutputItem')]),
    'openai-responses parts of messages': sorted(['ResponseOutputText', 'ResponseOutputRefusal'].flatMap((name) => types(responses, name))),
    'openai-responses events': sorted([...types(responses, 'ResponseStreamEvent'), ...types(betaResponses, 'BetaResponseStreamEvent')]),
    'openai-responses events of Realtime': sorted(types(realtime, 'RealtimeServerEvent')),
    'openai-chat calls': sorted(types(chat, 'ChatCompletionMessageToolCall')),
    'anthropic-messages blocks': sorted([...types(messages, 'ContentBlock'), ...types(betaMessages, 'BetaContentBlock')]),
    'anthropic-messages deltas': sorted([...types(messages, 'RawContentBlockDelta'), ...types(betaMessages, 'BetaRawContentBlockDelta')]),
    'anthropic-messages events': sorted([...types(messages, 'RawMessageStreamEvent'), ...types(betaMessages, 'BetaRawMessageStreamEvent')]),
    'openai-chat fields of requests': sorted(names(chat, 'ChatCompletionCreateParamsBase')),
    'openai-responses fields of requests': sorted([...names(responses, 'ResponseCreateParamsBase'), ...names(betaResponses, 'ResponseCreateParamsBase')]),
    'anthropic-messages fields of requests': sorted([...names(messages, 'MessageCreateParamsBase'), ...names(betaMessages, 'MessageCreateParamsBase')]),
    'gemini fields of requests': sorted(geminiFields()),
    'openai-chat fields of answers': sorted(names(chat, 'ChatCompletion', 'ChatCompletionChunk')),
    'openai-chat fields of choices': sorted(['ChatCompletion', 'ChatCompletionChunk'].flatMap((of) => fieldsWithin(chat, of, 'Choice'))),
    'openai-chat fields of messages': sorted([...names(chat, 'ChatCompletionMessage'), ...names(chat, 'Delta')]),
    'openai-responses fields of answers': sorted([...names(responses, 'Response'), ...names(betaResponses, 'BetaResponse')]),
    'openai-responses fields of events': sorted([...fieldsOf(responses, 'ResponseStreamEvent'), ...fieldsOf(betaResponses, 'BetaResponseStreamEvent')]),
    'openai-responses fields of messages': sorted([
      ...names(responses, 'ResponseOutputMessage', 'ResponseReasoningItem', 'ResponseOutputText', 'ResponseOutputRefusal'),
      ...names(betaResponses, 'BetaResponseOutputMessage', 'BetaResponseReasoningItem'),
    ]),
    'anthropic-messages fields of answers': sorted([
      ...names(messages, 'Message'),
      ...fieldsWithin(messages, 'RawMessageDeltaEvent', 'Delta'),
      ...fieldsOf(messages, 'RawMessageStreamEvent'),
      ...names(betaMessages, 'BetaMessage'),
      ...fieldsWithin(betaMessages, 'BetaRawMessageDeltaEvent', 'Delta'),
      ...fieldsOf(betaMessages, 'BetaRawMessageStreamEvent'),
    ]),
    'anthropic-messages fields of texts': sorted([
      ...fieldsOf(messages, 'TextBlock', 'ThinkingBlock', 'RawContentBlockDelta'),
      ...fieldsOf(betaMessages, 'BetaTextBlock', 'BetaThinkingBlock', 'BetaRawContentBlockDelta'),
    ]),
    'gemini fields of answers': sorted(names(genai.replace('class GenerateContentResponse', 'interface GenerateContentResponse'), 'GenerateContentResponse')),
    'gemini fields of candidates': sorted(names(genai, 'Candidate', 'Content')),
    'gemini fields of messages of Live': sorted(names(genai.replace('class LiveServerMessage', 'interface LiveServerMessage'), 'LiveServerMessage')),
    'gemini fields of contents of Live': sorted(names(genai, 'LiveServerContent')),
    'gemini fields of setups of Live': sorted(names(genai, 'LiveClientSetup')),
    'gemini fields of messages of clients of Live': sorted(names(genai, 'LiveClientMessage')),
    'gemini fields of parts': sorted([...part.matchAll(/^\s*(\w+)\??:/gm)].map((match) => match[1])),
  }),
);
