// Prints the types that the SDKs declare for what stands in answers and requests, and the words of their states, reasons and roles, as JSON: by table, each once.
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
    const literals = fields(text, name).match(/\btype\??: ((?:'[^']*'(?: \| )?)+)(?:null)?;/);
    const base = text.match(new RegExp(`\\binterface ${name} extends (\\w+)`));
    if (!literals && base) return types(text, base[1]);
    if (!literals) throw new Error(`${union} has no literal type`);
    return literals[1].split('|').map((literal) => literal.trim().slice(1, -1)).filter((literal) => literal !== '');
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

/** The types of which the array in a field of an interface is. */
function elements(text, name, field) {
  const declared = fields(text, name).match(new RegExp(`^\\s*${field}\\??: Array<([^>]*)>;`, 'm'));
  if (!declared) throw new Error(`${name}.${field} is no array`);
  return declared[1].split('|').map((member) => member.trim().replace(/^.*API\./, ''));
}

// Fields that hold one of a few words: a state, a reason, a phase.
const STATE = /(^|_)(status|state|reason|phase|truncation|role)$|(Status|State|Reason)$|^(category|probability|severity)$/;

/** What is declared in a text under each name: interfaces and classes, aliases, enums. Several may have one name. */
function declarations(text) {
  const found = new Map();
  const add = (name, body) => found.set(name, [...(found.get(name) ?? []), body]);
  for (const match of text.matchAll(/\b(?:interface|class|enum) (\w+)\b([^{;]*){/g)) {
    const from = match.index + match[0].length;
    let depth = 1;
    let at = from;
    for (; at < text.length && depth > 0; at += 1) depth += text[at] === '{' ? 1 : text[at] === '}' ? -1 : 0;
    add(match[1], `${match[2]};${text.slice(from, at - 1)}`);
  }
  for (const match of text.matchAll(/\btype (\w+) = ([^;]*);/g)) add(match[1], `= ${match[2]};`);
  return found;
}

/** The words in a type: its literals, those of the aliases and enums that it names. */
function wordsOf(known, type, seen = new Set()) {
  const own = [...type.matchAll(/'([^']*)'|= "([^"]*)"/g)].map((match) => match[1] ?? match[2]);
  const named = [...type.matchAll(/\b[A-Z]\w*/g)].map((match) => match[0]).filter((name) => known.has(name) && !seen.has(name));
  return [
    ...own,
    ...named.flatMap((name) => {
      seen.add(name);
      // An interface is no word.
      return known.get(name).filter((body) => body.startsWith('=') || /= "/.test(body)).flatMap((body) => wordsOf(known, body, seen));
    }),
  ];
}

/** The words of states and reasons in everything that answers of these types may hold. */
function words(table, text, ...roots) {
  const known = declarations(text);
  const told = {};
  const seen = new Set();
  const todo = [...roots];
  while (todo.length > 0) {
    const name = todo.pop();
    if (seen.has(name)) continue;
    seen.add(name);
    if (roots.includes(name) && !known.has(name)) throw new Error(`no ${name}`);
    for (const body of known.get(name) ?? []) {
      todo.push(...[...body.matchAll(/\b[A-Z]\w*/g)].map((match) => match[0]));
      for (const [, field, type] of body.matchAll(/(?<=^|[;{}])\s*'?([\w-]+)'?\??: ([^;]*);/g)) {
        if (STATE.test(field)) (told[`${table} words of ${field}`] ??= []).push(...wordsOf(known, type));
      }
    }
  }
  return Object.fromEntries(Object.entries(told).flatMap(([field, said]) => (said.length > 0 ? [[field, sorted(said)]] : [])));
}

/** The interfaces of a union whose types are wanted. */
const formsOf = (text, union, wanted) =>
  interfaces(text, union).filter((name) => wanted(types(text, name)[0]));

/** The types of what an array is of, in a field of an interface within a namespace. */
function elementsWithin(text, namespace, name, field) {
  const begin = text.search(new RegExp(`\\bnamespace ${namespace} {`));
  if (begin < 0) throw new Error(`no namespace ${namespace}`);
  return elements(text.slice(begin), name, field);
}

// Items that ask the client to act and have a form of their own.
const FORMS = ['apply_patch_call', 'computer_call', 'custom_tool_call', 'function_call', 'local_shell_call', 'mcp_approval_request', 'shell_call'];
const TEXTS = ['text', 'thinking', 'compaction'];
const isForm = (kind) => FORMS.includes(kind);
const isSeal = (kind) => kind === 'compaction';
const isText = (kind) => TEXTS.includes(kind);
const isBlock = (kind) => !isText(kind) && !/_(result|listing)$/.test(kind);

/** Tables have tools without the dates of their versions, and those that are tried out as what they will be. */
const plain = (kinds) => sorted(kinds.map((kind) => kind.replace(/(_preview)?(_[0-9]+)*$/, '')));

const sorted = (names) => [...new Set(names)].sort();
/** Tables of two texts as one. */
const merged = (one, other) =>
  Object.fromEntries([...new Set([...Object.keys(one), ...Object.keys(other)])].map((table) => [table, sorted([...(one[table] ?? []), ...(other[table] ?? [])])]));
const part = fields(genai, 'Part');
console.log(
  JSON.stringify({
    'openai-responses items': sorted([...types(responses, 'ResponseOutputItem'), ...types(betaResponses, 'BetaResponseOutputItem')]),
    'openai-responses parts of messages': sorted([
      ...elements(responses, 'ResponseOutputMessage', 'content').flatMap((name) => types(responses, name)),
      ...elements(betaResponses, 'BetaResponseOutputMessage', 'content').flatMap((name) => types(betaResponses, name)),
      ...['Content', 'Summary'].flatMap((name) => types(responses, `ResponseReasoningItem.${name}`)),
    ]),
    'openai-responses events': sorted([...types(responses, 'ResponseStreamEvent'), ...types(betaResponses, 'BetaResponseStreamEvent')]),
    'openai-responses events of Realtime': sorted(types(realtime, 'RealtimeServerEvent')),
    'openai-responses items of requests': sorted([...types(responses, 'ResponseInputItem'), ...types(betaResponses, 'BetaResponseInputItem')]),
    'openai-responses parts of messages in requests': sorted([
      ...types(responses, 'ResponseInputContent'),
      ...types(betaResponses, 'BetaResponseInputContent'),
      ...types(responses, 'ResponseFunctionCallOutputItem'),
      ...types(responses, 'ResponseComputerToolCallOutputScreenshot'),
      ...elementsWithin(betaResponses, 'BetaResponseInputItem', 'AgentMessage', 'content').flatMap((name) => types(betaResponses, name)),
    ]),
    'openai-responses items of Realtime': sorted(types(realtime, 'ConversationItem')),
    'openai-responses tools': plain([...types(responses, 'Tool'), ...types(betaResponses, 'BetaTool')]),
    'openai-responses fields of calls': sorted([
      ...fieldsOf(responses, ...formsOf(responses, 'ResponseOutputItem', isForm)),
      ...fieldsOf(betaResponses, ...formsOf(betaResponses, 'BetaResponseOutputItem', isForm)),
    ]),
    'openai-responses fields of sealed items': sorted([
      ...fieldsOf(responses, ...formsOf(responses, 'ResponseOutputItem', isSeal)),
      ...fieldsOf(betaResponses, ...formsOf(betaResponses, 'BetaResponseOutputItem', isSeal)),
    ]),
    'openai-chat parts of messages in requests': sorted(types(chat, 'ChatCompletionContentPart')),
    'openai-chat tools': sorted(types(chat, 'ChatCompletionTool')),
    'openai-chat fields of parts': sorted(names(chat, 'ChatCompletionContentPartText', 'ChatCompletionContentPartRefusal')),
    'openai-chat fields of calls': sorted([...fieldsOf(chat, 'ChatCompletionMessageToolCall'), ...fieldsWithin(chat, 'Delta', 'ToolCall')]),
    'openai-chat fields of what is called': sorted([
      ...fieldsWithin(chat, 'ChatCompletionMessage', 'FunctionCall'),
      ...fieldsWithin(chat, 'ChatCompletionMessageFunctionToolCall', 'Function'),
      ...fieldsWithin(chat, 'ChatCompletionMessageCustomToolCall', 'Custom'),
      ...fieldsWithin(chat, 'Delta', 'FunctionCall'),
      ...fieldsWithin(chat, 'ToolCall', 'Function'),
    ]),
    'openai-chat calls': sorted(types(chat, 'ChatCompletionMessageToolCall')),
    'anthropic-messages blocks': sorted([...types(messages, 'ContentBlock'), ...types(betaMessages, 'BetaContentBlock')]),
    'anthropic-messages blocks of requests': sorted([...types(messages, 'ContentBlockParam'), ...types(betaMessages, 'BetaContentBlockParam')]),
    'anthropic-messages tools': plain([...types(messages, 'ToolUnion'), ...types(betaMessages, 'BetaToolUnion')]),
    'anthropic-messages fields of blocks': sorted([
      ...fieldsOf(messages, ...formsOf(messages, 'ContentBlock', isBlock)),
      ...fieldsOf(betaMessages, ...formsOf(betaMessages, 'BetaContentBlock', isBlock)),
    ]),
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
      ...fieldsOf(messages, ...formsOf(messages, 'ContentBlock', isText), 'RawContentBlockDelta'),
      ...fieldsOf(betaMessages, ...formsOf(betaMessages, 'BetaContentBlock', isText), 'BetaRawContentBlockDelta'),
    ]),
    'gemini fields of calls': sorted(names(genai.replace('class FunctionCall', 'interface FunctionCall'), 'FunctionCall', 'PartialArg')),
    'gemini tools': sorted(names(genai, 'Tool')),
    'gemini fields of answers': sorted(names(genai.replace('class GenerateContentResponse', 'interface GenerateContentResponse'), 'GenerateContentResponse')),
    'gemini fields of candidates': sorted(names(genai, 'Candidate', 'Content')),
    'gemini fields of messages of Live': sorted(names(genai.replace('class LiveServerMessage', 'interface LiveServerMessage'), 'LiveServerMessage')),
    'gemini fields of contents of Live': sorted(names(genai, 'LiveServerContent')),
    'gemini fields of setups of Live': sorted(names(genai, 'LiveClientSetup')),
    'gemini fields of messages of clients of Live': sorted(names(genai, 'LiveClientMessage')),
    ...words('openai-chat', chat, 'ChatCompletion', 'ChatCompletionChunk'),
    ...merged(
      words('openai-responses', responses, 'Response', 'ResponseStreamEvent'),
      words('openai-responses', betaResponses, 'BetaResponse', 'BetaResponseStreamEvent'),
    ),
    ...merged(
      words('anthropic-messages', messages, 'Message', 'RawMessageStreamEvent'),
      words('anthropic-messages', betaMessages, 'BetaMessage', 'BetaRawMessageStreamEvent'),
    ),
    ...words('gemini', genai, 'GenerateContentResponse', 'LiveServerMessage'),
    'gemini fields of parts': sorted([...part.matchAll(/^\s*(\w+)\??:/gm)].map((match) => match[1])),
  }),
);
