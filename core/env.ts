/**
 * Descriptions of the variables that an app reads. All are read at once, and everything that is missing is
 * reported together.
 *
 * @module
 */
import { checkObjectOption, met, type OptionCheck } from "./check_options.ts";

/**
 * Source of variables, and receiver of warnings about them.
 *
 * @category Variables
 */
export interface Variables {
  /**
   * Reads a variable.
   *
   * @param name The variable's name.
   * @returns The value; undefined if the variable is not set.
   */
  get(name: string): string | undefined;
  /**
   * Reports a problem that does not keep an app from starting.
   *
   * @param message A description. It names variables and never their values.
   */
  warn(message: string): void;
}

/**
 * Error in a variable, which keeps an app from starting. The message names it, but not its value.
 *
 * @category Variables
 */
export class VariableError extends Error {
  /** Name of the class. */
  override readonly name = "VariableError";
}

/**
 * Description of a variable: {@linkcode required}, {@linkcode optional} or {@linkcode secrets}, or one of
 * your own.
 *
 * @typeParam TValue The type of its value.
 * @category Variables
 */
export interface EnvVariable<TValue> {
  /**
   * Reads the variable.
   *
   * @param name Its name.
   * @param variables The variables.
   * @returns The value.
   * @throws {VariableError} If it is missing or wrong. The message names it, but not its value.
   */
  read(name: string, variables: Variables): TValue;
}

/**
 * Variables that an app reads, by their names.
 *
 * @category Variables
 */
export type EnvSpec = Readonly<Record<string, EnvVariable<unknown>>>;

/**
 * Values of the variables that an {@linkcode EnvSpec} describes.
 *
 * @typeParam TSpec The descriptions.
 * @category Variables
 */
export type EnvOf<TSpec> = {
  readonly [TName in keyof TSpec]: TSpec[TName] extends EnvVariable<infer TValue> ? TValue : never;
};

/** Shortest secret that is hard to guess: 16 random letters and digits have 95 bits. */
const MIN_SECRET_LENGTH = 16;

/**
 * Variable that must be set, and not blank.
 *
 * @category Variables
 */
export const required: EnvVariable<string> = { read: readText };

function readText(name: string, variables: Variables): string {
  const value = variables.get(name);
  if (value === undefined) throw new VariableError(`${name} is not set`);
  if (value.trim() === "") throw new VariableError(`${name} is blank`);
  return value;
}

/**
 * Makes a variable that need not be set.
 *
 * @param fallback The value if it is not set, or blank.
 * @returns The variable.
 * @category Variables
 */
export function optional(fallback: string): EnvVariable<string>;
/**
 * Makes a variable that need not be set.
 *
 * @returns The variable. Its value is undefined if it is not set, or blank.
 * @category Variables
 */
export function optional(): EnvVariable<string | undefined>;
export function optional(fallback?: string): EnvVariable<string | undefined> {
  return {
    read(name, variables) {
      const value = variables.get(name);
      return value === undefined || value.trim() === "" ? fallback : value;
    },
  };
}

/**
 * Variable with a secret that others send or sign with. The value is a list: the secret and, during a
 * rotation, the old one from the same name with `_PREVIOUS`. {@linkcode createAuth} takes it as `tokens`.
 *
 * @category Variables
 */
export const secrets: EnvVariable<readonly string[]> = {
  read: (name, variables) => readSecrets(name, variables, () => undefined),
};

/**
 * Reads a secret and, during a rotation, the old one from the same name with `_PREVIOUS`. It warns of
 * secrets that can be guessed, or have white space around them.
 *
 * @param name The variable's name.
 * @param variables The variables.
 * @param flawOf Finds out why a secret cannot be used.
 * @returns The accepted secrets, the current one first.
 * @throws {VariableError} If it is not set, or blank, or one cannot be used.
 */
export function readSecrets(
  name: string,
  variables: Variables,
  flawOf: (secret: string) => string | undefined,
): readonly string[] {
  const previous = variables.get(secretName(name, 1));
  const secret = readText(name, variables);
  const all = previous?.trim() ? [secret, previous] : [secret];
  all.forEach((each, i) => {
    const flaw = flawOf(each);
    if (flaw) throw new VariableError(`${secretName(name, i)} ${flaw}`);
  });
  all.forEach((each, i) => warnOfOdd(variables, secretName(name, i), each));
  return all;
}

/**
 * Names the variable of the current secret (0) or of the old one (1).
 *
 * @param name The variable's name.
 * @param position The secret's position.
 * @returns The name.
 */
export function secretName(name: string, position: number): string {
  return position === 0 ? name : `${name}_PREVIOUS`;
}

function warnOfOdd(variables: Variables, name: string, secret: string): void {
  if (secret.length < MIN_SECRET_LENGTH) {
    variables.warn(`${name} has under ${MIN_SECRET_LENGTH} characters: it can be guessed`);
  }
  if (secret === secret.trim()) return;
  const where = secret === secret.trimStart() ? "ends" : "begins";
  const what = /[\r\n]$/.test(secret) ? "ends with a line break" : `${where} with white space`;
  variables.warn(
    `${name} ${what}, which is part of the secret: every delivery is refused if the sender's has none`,
  );
}

/**
 * Tells whether the app runs on Deno Deploy.
 *
 * @param variables The variables.
 * @returns True if the variable that the platform sets says so.
 */
export function onDeploy(variables: Pick<Variables, "get">): boolean {
  // Since August 2025 the platform's documents have given its value as 1 as well.
  return ["true", "1"].includes(variables.get("DENO_DEPLOY") ?? "");
}

/**
 * Makes a variable whose value is one of some words.
 *
 * @param choices The words. The first one is the value if it is not set, or blank.
 * @returns The variable.
 */
export function choiceOf<const TChoice extends string>(
  choices: readonly [TChoice, ...TChoice[]],
): EnvVariable<TChoice> {
  return {
    read(name, variables) {
      const text = variables.get(name)?.trim() || choices[0];
      const choice = choices.find((each) => each === text);
      if (choice !== undefined) return choice;
      const others = choices.slice(0, -1).join(", ");
      throw new VariableError(`${name} must be ${others} or ${choices.at(-1)}`);
    },
  };
}

/**
 * Calls functions that read variables, and reports all that is wrong at once.
 *
 * @param readers The functions.
 * @returns Their results.
 * @throws {VariableError} If any of them throws one: the message has all of theirs.
 */
export function readAll<TResults extends readonly unknown[]>(
  ...readers: { readonly [TAt in keyof TResults]: () => TResults[TAt] }
): TResults {
  const flaws: string[] = [];
  const results = readers.map((read) => {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof VariableError)) throw error;
      flaws.push(error.message);
      return undefined;
    }
  });
  if (flaws.length > 0) throw new VariableError([...new Set(flaws)].join("; "));
  return results as unknown as TResults;
}

/**
 * Reads the variables of a description.
 *
 * @param spec The descriptions.
 * @param variables The variables.
 * @returns The values by name.
 * @throws {VariableError} If any is missing or wrong: the message names all of them.
 */
export function readEnv<TSpec extends EnvSpec>(spec: TSpec, variables: Variables): EnvOf<TSpec> {
  const names = Object.keys(spec);
  const values = readAll(...names.map((name) => () => readOne(name, spec[name]!, variables)));
  return Object.fromEntries(names.map((name, i) => [name, values[i]])) as EnvOf<TSpec>;
}

/** Reads one variable. The message of an error from elsewhere, such as `JSON.parse`, may quote its value. */
function readOne<T>(name: string, variable: EnvVariable<T>, variables: Variables): T {
  try {
    return variable.read(name, variables);
  } catch (error) {
    if (error instanceof VariableError) throw error;
    const what = error instanceof Error ? error.name : typeof error;
    throw new VariableError(`${name} cannot be read: its reader has thrown a ${what}`);
  }
}

/**
 * Makes variables of an object.
 *
 * @param values The values by name.
 * @param warn Receives warnings.
 * @returns The variables.
 */
export function variablesIn(
  values: Readonly<Record<string, string | undefined>>,
  warn: (message: string) => void,
): Variables {
  return {
    get(name) {
      const value: unknown = Object.hasOwn(values, name) ? values[name] : undefined;
      if (value === undefined || typeof value === "string") return value;
      throw new VariableError(`${name} must be a text, got ${typeof value}`);
    },
    warn,
  };
}

/** Checks that an option is descriptions of variables. */
export const checkEnvSpec: OptionCheck = (doing, option, spec) => {
  checkObjectOption(doing, option, spec);
  for (const [name, variable] of Object.entries(spec as EnvSpec)) {
    if (typeof (variable as { read?: unknown } | null)?.read === "function") continue;
    // A text may be the variable's value, so it is not quoted.
    const got = typeof variable === "string"
      ? "got a text: the value is read at the start"
      : variable as unknown === optional
      ? "got the function itself: call it"
      : `got ${met(variable)}`;
    throw new TypeError(
      `Cannot ${doing}: the variable '${name}' in 'env' must be required, optional() or secrets, ${got}`,
    );
  }
};
