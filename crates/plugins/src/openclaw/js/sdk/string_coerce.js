// `plugin-sdk/string-coerce-runtime`: texts out of what may be anything.

/** The value, if it is a text. */
export const readStringValue = (value) => (typeof value === "string" ? value : undefined);

/** A text without the space around it, `null` if nothing is left or it is none. */
export const normalizeNullableString = (value) => (typeof value === "string" && value.trim() !== "" ? value.trim() : null);

/** As `normalizeNullableString`, with `undefined` for none. */
export const normalizeOptionalString = (value) => normalizeNullableString(value) ?? undefined;

/** As `normalizeOptionalString`, of numbers and truth values as well. */
export const normalizeStringifiedOptionalString = (value) =>
  normalizeOptionalString(["number", "boolean", "bigint"].includes(typeof value) ? String(value) : value);

/** An id that is a text or a finite number. */
export const normalizeOptionalStringifiedId = (value) =>
  typeof value === "number" && !Number.isFinite(value) ? undefined : typeof value === "boolean" ? undefined : normalizeStringifiedOptionalString(value);

/** As `normalizeOptionalString`, in small letters. */
export const normalizeOptionalLowercaseString = (value) => normalizeOptionalString(value)?.toLowerCase();

/** As `normalizeOptionalLowercaseString`, with `""` for none. */
export const normalizeLowercaseStringOrEmpty = (value) => normalizeOptionalLowercaseString(value) ?? "";

/** Whether it is a text that is more than space. */
export const hasNonEmptyString = (value) => normalizeNullableString(value) !== null;

/** A text in small letters, with the space around it. */
export const lowercasePreservingWhitespace = (value) => value.toLowerCase();

/** As `lowercasePreservingWhitespace`, in the letters of the locale. */
export const localeLowercasePreservingWhitespace = (value) => value.toLocaleLowerCase();

/** The texts of a list, without space and without those of nothing else. */
export const normalizeStringEntries = (list) =>
  (Array.isArray(list) ? list : []).map((one) => normalizeStringifiedOptionalString(one)).filter((one) => one !== undefined);

/** Whether it is an object with fields. */
export const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
