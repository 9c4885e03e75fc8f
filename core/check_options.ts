/** Longest delay of a timer: 2^31 - 1 ms. A longer one fires at once. */
export const MAX_TIMER_MS = 2_147_483_647;

/** Longest time to keep something: 100 years. Dates reach to the year 275760, so a sum of times stays one. */
export const MAX_KEPT_MS = 100 * 365 * 86_400_000;

/** Longest quote of a text. */
const MAX_QUOTED = 40;

/**
 * Describes a value for an error message. Texts are quoted, so that `"50"` is not taken for `50`; of a
 * function or an object only the kind is named.
 *
 * @param value The value. It must not be a secret.
 * @returns The description.
 */
export function met(value: unknown): string {
  if (typeof value === "string") {
    const rest = value.length > MAX_QUOTED ? "…" : "";
    return `${JSON.stringify(value.slice(0, MAX_QUOTED))}${rest}`;
  }
  if (typeof value === "function") return "a function";
  if (Array.isArray(value)) return "an array";
  if (value instanceof Promise) return "a promise: await it";
  return typeof value === "object" && value !== null ? "an object" : String(value);
}

/** Check of an option that is given. It throws if the value cannot be used. */
export type OptionCheck = (doing: string, name: string, value: unknown) => void;

/**
 * Checks that options are an object without unknown names, and that each value passes its check.
 *
 * @param doing The action that fails otherwise, for the message, such as `create the app`.
 * @param options The options.
 * @param checks The checks by name, in the order in which a message lists the names; undefined for an option
 * that is checked elsewhere.
 * @param needed The names of the options that must be given.
 * @param name The name of the options in messages.
 * @throws {TypeError} If the options are not an object, have an unknown name, or a value has the wrong type.
 * @throws {RangeError} If a number is out of its range.
 */
export function checkOptions<TOptions extends object>(
  doing: string,
  options: TOptions,
  checks: { readonly [TName in keyof Required<TOptions>]: OptionCheck | undefined },
  needed: readonly (keyof TOptions)[] = [],
  name?: string,
): void {
  checkObject(doing, options, name);
  checkKeys(doing, options, Object.keys(checks));
  for (const [key, check] of Object.entries<OptionCheck | undefined>(checks)) {
    const value: unknown = options[key as keyof TOptions];
    if (value !== undefined || needed.includes(key as keyof TOptions)) check?.(doing, key, value);
  }
}

/**
 * Checks that options are an object.
 *
 * @param doing The action that fails otherwise, for the message, such as `create the app`.
 * @param options The options.
 * @param name Their name in the message.
 * @throws {TypeError} If the options are not an object.
 */
export function checkObject(doing: string, options: unknown, name = "the options"): void {
  if (typeof options === "object" && options !== null && !Array.isArray(options)) return;
  throw new TypeError(`Cannot ${doing}: ${name} must be an object, got ${met(options)}`);
}

/**
 * Checks that options have no other names than the known ones: a name that is misspelled would be ignored.
 *
 * @param doing The action that fails otherwise, for the message, such as `define the app`.
 * @param options The options.
 * @param known The known names.
 * @throws {TypeError} If there is another name.
 */
export function checkKeys(doing: string, options: object, known: readonly string[]): void {
  const [other] =
    Object.entries(options).find(([key, value]) => value !== undefined && !known.includes(key)) ??
      [];
  if (other === undefined) return;
  throw new TypeError(
    `Cannot ${doing}: there is no option ${met(other)}. There are ${known.join(", ")}`,
  );
}

/**
 * Tells whether a callback that must be synchronous has returned a promise, and catches its error, which would
 * end the process.
 *
 * @param value The value that it has returned.
 * @returns True if it is a promise, or another object with a `then`.
 */
export function isPromise(value: unknown): value is PromiseLike<unknown> {
  if (typeof (value as { then?: unknown } | null | undefined)?.then !== "function") return false;
  (value as PromiseLike<unknown>).then(() => {}, () => {});
  return true;
}

/** Describes the result of a callback that must be synchronous, see {@linkcode isPromise}. */
export function metSync(value: unknown): string {
  return isPromise(value) ? "a promise: it must not be async" : met(value);
}

/**
 * Checks that options are functions if they are given.
 *
 * @param doing The action that fails otherwise, for the message, such as `create the app`.
 * @param functions The options, by name.
 * @throws {TypeError} If one of them is not a function.
 */
export function checkFunctions(doing: string, functions: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(functions)) {
    if (value !== undefined) checkFunction(doing, name, value);
  }
}

/**
 * Checks that something is a function.
 *
 * @param doing The action that fails otherwise, for the message, such as `create the app`.
 * @param name The name of the option.
 * @param value The value that was given.
 * @throws {TypeError} If it is not a function, or is missing.
 */
export function checkFunction(doing: string, name: string, value: unknown): void {
  if (typeof value === "function") return;
  throw new TypeError(`Cannot ${doing}: '${name}' must be a function, got ${met(value)}`);
}

/**
 * Checks a part by one of its methods, so that other implementations are accepted as well.
 *
 * @param doing The action that fails otherwise, for the message, such as `start the worker`.
 * @param part The value that was given.
 * @param method The name of a method that the part must have.
 * @param wanted The requirement, for the message.
 * @throws {TypeError} If the part has no such method.
 */
export function checkPart(doing: string, part: unknown, method: string, wanted: string): void {
  const methods = part as Record<string, unknown> | null | undefined;
  if (typeof methods?.[method] === "function") return;
  throw new TypeError(`Cannot ${doing}: ${wanted}, got ${met(part)}`);
}

/** Range of {@linkcode checkInteger}. */
export interface IntegerRange {
  /**
   * The smallest number allowed.
   *
   * @default {1}
   */
  readonly min?: number | undefined;
  /** The largest number allowed. */
  readonly max: number;
}

/**
 * Checks that an option is a whole number within a range.
 *
 * @param doing The action that fails otherwise, for the message, such as `start the worker`.
 * @param name The option's name.
 * @param value The option's value.
 * @param range The smallest and the largest number allowed.
 * @throws {RangeError} If the value is not a whole number in the range.
 */
export function checkInteger(
  doing: string,
  name: string,
  value: unknown,
  { min = 1, max }: IntegerRange,
): asserts value is number {
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) return;
  throw new RangeError(
    `Cannot ${doing}: '${name}' must be a whole number from ${min} to ${max}, got ${met(value)}`,
  );
}

/**
 * Makes the check of a whole number.
 *
 * @param range The smallest and the largest number allowed.
 * @returns The check.
 */
export function wholeNumber(range: IntegerRange = { max: Number.MAX_SAFE_INTEGER }): OptionCheck {
  return (doing, name, value) => checkInteger(doing, name, value, range);
}

/**
 * Makes the check of a part by one of its methods.
 *
 * @param method The name of a method that the part must have.
 * @param wanted The requirement, for the message.
 * @returns The check.
 */
export function partWith(method: string, wanted: string): OptionCheck {
  return (doing, name, value) => checkPart(doing, value, method, `'${name}' must be ${wanted}`);
}

/** Checks that an option is a telemetry. */
export const checkTelemetry: OptionCheck = partWith(
  "countDelivery",
  "what openTelemetry() resolves with",
);

/**
 * Makes a check of an option that is a number, and need not be a whole one.
 *
 * @param min The smallest number allowed.
 * @param max The largest number allowed.
 * @param note Follows the numbers in the message.
 * @returns The check. It throws a `RangeError`.
 */
export function numberFrom(min: number, max: number, note = ""): OptionCheck {
  return (doing, name, value) => {
    if (Number.isFinite(value) && (value as number) >= min && (value as number) <= max) return;
    throw new RangeError(
      `Cannot ${doing}: '${name}' must be from ${min} to ${max}${note}, got ${met(value)}`,
    );
  };
}

/** Checks that an option is a signal. */
export const checkSignal: OptionCheck = partWith("throwIfAborted", "an AbortSignal");

/** Checks that an option is an object. */
export const checkObjectOption: OptionCheck = (doing, name, value) =>
  checkObject(doing, value, `'${name}'`);

/** Checks that an option is true or false. */
export const checkBoolean: OptionCheck = (doing, name, value) => {
  if (typeof value === "boolean") return;
  throw new TypeError(`Cannot ${doing}: '${name}' must be true or false, got ${met(value)}`);
};

/** Checks that an option is a text. */
export const checkString: OptionCheck = (doing, name, value) => {
  if (typeof value === "string") return;
  throw new TypeError(`Cannot ${doing}: '${name}' must be a text, got ${met(value)}`);
};

/** Checks that an option is an array of texts. */
export const checkTexts: OptionCheck = (doing, name, value) => {
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return;
  throw new TypeError(`Cannot ${doing}: '${name}' must be an array of texts, got ${met(value)}`);
};

/** Checks for a text that each database keeps as it is: some store half of a surrogate pair as another character. */
export const checkWellFormed: OptionCheck = (doing, name, value) => {
  checkString(doing, name, value);
  if ((value as string).isWellFormed()) return;
  throw new TypeError(`Cannot ${doing}: '${name}' must be a well-formed text, got ${met(value)}`);
};

/** Checks that an option is a text that is not empty. It may be blank: a key that comes from a payload can be. */
export const checkFilled: OptionCheck = (doing, name, value) => {
  if (typeof value === "string" && value !== "") return;
  throw new TypeError(
    `Cannot ${doing}: '${name}' must be a text that is not empty, got ${met(value)}`,
  );
};

/** Checks that an option is a text that is not blank. */
export const checkText: OptionCheck = (doing, name, value) => {
  if (typeof value === "string" && value.trim() !== "") return;
  throw new TypeError(
    `Cannot ${doing}: '${name}' must be a text that is not blank, got ${met(value)}`,
  );
};

/**
 * Makes the check of an option that is one of a few texts.
 *
 * @param texts The texts.
 * @returns The check.
 */
export function oneOf(...texts: readonly string[]): OptionCheck {
  return (doing, name, value) => {
    if (texts.includes(value as string)) return;
    const quoted = texts.map((text) => `"${text}"`);
    const others = quoted.slice(0, -1).join(", ");
    const wanted = others === "" ? quoted[0] : `${others} or ${quoted.at(-1)}`;
    throw new TypeError(`Cannot ${doing}: '${name}' must be ${wanted}, got ${met(value)}`);
  };
}

/** Paths that no encoding changes, and that Hono does not take for a pattern. */
const PATH = /^(?:\/[\w-]+(?:\.[\w-]+)*){1,16}$/;

/** Checks that an option is the path of a route, in plain characters. */
export const checkPath: OptionCheck = (doing, name, value) => {
  if (typeof value === "string" && PATH.test(value)) return;
  throw new TypeError(
    `Cannot ${doing}: '${name}' must be a slash, then letters, digits, _, -, . and slashes, got ${
      met(value)
    }`,
  );
};
