// `plugin-sdk/number-runtime`: numbers out of what may be anything. A text is a number only as a whole.

const whole = (value) => {
  if (typeof value === "number") return Number.isSafeInteger(value) ? value : undefined;
  if (typeof value !== "string" || !/^[+-]?\d+$/.test(value.trim())) return undefined;
  return Number.isSafeInteger(Number(value)) ? Number(value) : undefined;
};

/** The value, if it is a finite number. */
export const asFiniteNumber = (value) => (typeof value === "number" && Number.isFinite(value) ? value : undefined);

/** The value, if it is a whole number above zero. */
export const asPositiveSafeInteger = (value) => (Number.isSafeInteger(value) && value > 0 ? value : undefined);

/** A finite number, also out of its text. */
export const parseFiniteNumber = (value) => {
  if (typeof value !== "string") return asFiniteNumber(value);
  return value.trim() === "" ? undefined : asFiniteNumber(Number(value));
};

/** A whole number, also out of its text. */
export const parseStrictInteger = (value) => whole(value);

/** A whole number that is not below zero, also out of its text. */
export const parseStrictNonNegativeInteger = (value) => (whole(value) >= 0 ? whole(value) : undefined);

/** A whole number above zero, also out of its text. */
export const parseStrictPositiveInteger = (value) => (whole(value) > 0 ? whole(value) : undefined);
