// `plugin-sdk/text-chunking`: long texts in pieces.

// No piece ends between the halves of a character.
const whole = (text, end) => {
  const code = text.charCodeAt(end - 1);
  return end < text.length && end > 1 && code >= 0xd800 && code <= 0xdbff ? end - 1 : end;
};

/** Pieces of at most `limit` units, broken at the last line break of each, or at the last space, or where the limit is. */
export const chunkTextForOutbound = (text, limit, options) => {
  if (text === "") return [];
  if (!(limit > 0) || text.length <= limit) return [text];
  const keeps = options?.preserveWhitespace === true;
  const pieces = [];
  let rest = text;
  while (rest.length > limit) {
    const window = rest.slice(0, limit + 1);
    const line = window.lastIndexOf("\n");
    const gap = line > 0 ? line : window.lastIndexOf(" ");
    const end = gap > 0 ? gap : whole(rest, Math.floor(limit) || 1);
    const piece = keeps ? rest.slice(0, end) : rest.slice(0, end).trimEnd();
    if (piece !== "") pieces.push(piece);
    rest = keeps ? rest.slice(end) : rest.slice(end).trimStart();
  }
  if (rest !== "") pieces.push(rest);
  return pieces;
};

/** A list in lists of at most `size`. */
export const chunkItems = (items, size) => {
  const step = Math.max(1, Math.floor(size) || 1);
  return Array.from({ length: Math.ceil(items.length / step) }, (_, at) => items.slice(at * step, (at + 1) * step));
};
