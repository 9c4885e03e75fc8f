import { type CliWorld, UsageError } from "./_world.ts";

/** Shortest text that is taken for a secret. Hiding a shorter one would spoil other words, and tell it. */
const MIN_SECRET_LENGTH = 8;

/** Stand-in for secrets. */
const HIDDEN = "***";

/** Makes a function that hides secrets in a text, also where they are spelled as in a URL or in JSON. */
export function hiderOf(secrets: readonly (string | undefined)[]): (text: string) => string {
  const hidden = secrets.filter((each) => each !== undefined && each.length >= MIN_SECRET_LENGTH)
    .flatMap((each) => [each!, encodeURIComponent(each!), JSON.stringify(each).slice(1, -1)])
    .sort((a, b) => b.length - a.length);
  return (text) => hidden.reduce((safe, secret) => safe.replaceAll(secret, HIDDEN), text);
}

/** Formats a URL without the parts that may hold a secret: user, password and query. */
export function shownUrl(text: string): string {
  const url = URL.parse(text);
  if (url === null) return HIDDEN;
  return `${url.protocol}//${url.host}${url.pathname}${url.search && `?${HIDDEN}`}`;
}

/**
 * Reads a secret from a file, without the line break that editors and `echo` add.
 *
 * @throws {UsageError} If the file cannot be read, or is blank.
 */
export function secretIn(path: string, { err }: Pick<CliWorld, "err">): string {
  const text = readText(path);
  const secret = text.replace(/\r?\n$/, "");
  if (secret.trim() === "") throw new UsageError("The file of --secret-file is blank");
  if (secret !== text) {
    err("The line break at the end of the secret's file is ignored. An app would not ignore it.");
  }
  return secret;
}

function readText(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    const reason = error instanceof Error ? error.name : String(error);
    throw new UsageError(`The file of --secret-file cannot be read: ${reason}`);
  }
}
