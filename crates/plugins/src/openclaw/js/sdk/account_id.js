// `plugin-sdk/account-id`: names of accounts of a channel.

/** The account of a channel that has one. */
export const DEFAULT_ACCOUNT_ID = "default";

const LONGEST = 64;

const named = (value) => {
  if (typeof value !== "string") return undefined;
  const word = value.trim().toLowerCase().replace(/[^a-z0-9_-]+/g, "-").slice(0, LONGEST).replace(/^-+|-+$/g, "");
  // Names that mean something to an object are nobody's.
  return word === "" || ["__proto__", "constructor", "prototype"].includes(word) ? undefined : word;
};

/** The account's name in small letters, digits, `_` and `-`; the default where there is none. */
export const normalizeAccountId = (value) => named(value) ?? DEFAULT_ACCOUNT_ID;

/** As `normalizeAccountId`, with nothing where there is none. */
export const normalizeOptionalAccountId = (value) => named(value);
