/**
 * Calls of platforms' APIs, which answer in JSON. The calls carry tokens, so no redirect is followed and no error
 * quotes a URL.
 *
 * @module
 */
import { oneLine } from "./log.ts";
import { retryAfterOf } from "./retry_at.ts";
import { reasonOf } from "./text_of.ts";

/** Largest answer that is read: an entry of GitHub's delivery log holds a payload of up to 25 MB. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** Longest wait for an answer. */
const TIMEOUT_MS = 30_000;

/** Longest quote of an API's text. */
const MAX_QUOTE = 300;

/** Call of an API. */
interface ApiCall {
  /** Name for messages. */
  readonly name: string;
  readonly url: string;
  readonly method?: "GET" | "POST" | "PATCH";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | URLSearchParams;
  /**
   * Longest wait for the whole answer.
   *
   * @default {30_000}
   */
  readonly timeoutMs?: number;
  /**
   * Largest answer, in bytes.
   *
   * @default {67_108_864} 64 MiB.
   */
  readonly maxBytes?: number;
  /** End of the call before its answer: it rejects with the signal's reason. */
  readonly signal: AbortSignal;
  /** Hints for errors. */
  readonly hints?: Hints;
}

/** Advice that ends the messages of errors, by their statuses. */
export type Hints = Readonly<Record<number, string>>;

/** Answer of an API. */
export interface ApiAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** Text of the answer. */
  readonly text: string;
  /** Value of the text; undefined if it is not JSON. */
  readonly json: unknown;
}

/** Further facts about an error. */
interface ApiErrorOptions {
  readonly status?: number | undefined;
  /** Set if the same call may succeed later. */
  readonly isTemporary?: boolean;
  /** Pause that the API asks for. */
  readonly retryAfterMs?: number | undefined;
  /** Hints; the one for the status ends the message. */
  readonly hints?: Hints | undefined;
}

/** Error of a call. Its message is one line, and quotes no URL. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number | undefined;
  readonly isTemporary: boolean;
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    { status, isTemporary = false, retryAfterMs, hints = {} }: ApiErrorOptions = {},
  ) {
    const hint = hints[status ?? 0];
    super(hint === undefined ? message : `${message}: ${hint}`);
    this.status = status;
    this.isTemporary = isTemporary;
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * Calls an API.
 *
 * @throws {ApiError} If there is no answer, or it is too large, a redirect, or a success without JSON.
 */
export async function callApi(call: ApiCall): Promise<ApiAnswer> {
  const { name, url, timeoutMs = TIMEOUT_MS, maxBytes = MAX_ANSWER_BYTES, hints, ...init } = call;
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = AbortSignal.any([call.signal, timeout]);
  try {
    const response = await fetch(url, { ...init, redirect: "manual", signal } as RequestInit);
    const { status, headers } = response;
    const bytes = await readBytes(response, maxBytes);
    if (bytes === undefined) {
      throw new ApiError(`${name} answers with more than ${maxBytes} bytes`, { status });
    }
    return checked(name, { status, headers, ...parsed(bytes) }, hints);
  } catch (error) {
    call.signal.throwIfAborted();
    if (error instanceof ApiError) throw error;
    const why = timeout.aborted
      ? `has not answered within ${timeoutMs / 1_000} s`
      : `cannot be reached: ${networkReasonOf(error)}`;
    throw new ApiError(`${name} ${why}`, { isTemporary: true });
  }
}

/**
 * Repeats a call while that may help.
 *
 * @param call The call.
 * @param limits Most tries, and the longest pause that an API may ask for.
 * @param pause Waits before the next try. It gets the error and the number of tries that failed before.
 * @throws {ApiError} If the last try fails, or another one would not help.
 */
export async function callAgain<T>(
  call: () => Promise<T>,
  { tries, longestMs }: { readonly tries: number; readonly longestMs: number },
  pause: (error: ApiError, attempt: number) => Promise<void>,
): Promise<T> {
  for (let attempt = 0;; attempt++) {
    try {
      return await call();
    } catch (error) {
      const mayHelp = error instanceof ApiError && error.isTemporary && attempt + 1 < tries &&
        (error.retryAfterMs ?? 0) <= longestMs;
      if (!mayHelp) throw error;
      await pause(error, attempt);
    }
  }
}

/** Shortens the error of a failed `fetch`: its own message quotes the URL, which may hold a token. */
export function networkReasonOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return quoted(reasonOf(cause ?? error).replaceAll(/\(?\w+:\/\/\S+/g, ""));
}

/** Reads a body; undefined if it is larger than allowed. */
export async function readBytes(
  { body }: Response,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  let size = 0;
  for await (const part of body ?? []) {
    size += part.length;
    // Leaving the loop cancels the body.
    if (size > maxBytes) return undefined;
    parts.push(part);
  }
  return await new Blob(parts).bytes();
}

/** Checks whether a status says that a request may succeed later: of a failure, and of a busy or slow server. */
export function mayPass(status: number): boolean {
  return status >= 500 || status === 408 || status === 425 || status === 429;
}

/** Makes a short line of a text from outside. */
export function quoted(text: unknown): string {
  return typeof text === "string" ? oneLine(text).trim().slice(0, MAX_QUOTE) : "";
}

/** Makes the error of an answer that is not as the API's documentation says. */
export function unknownForm(name: string, what: string, status = 200): ApiError {
  const isTemporary = status === 429 || status >= 500;
  return new ApiError(
    `${name} answers ${status} in an unknown form, with ${what}: is the address of the API right?`,
    { status, isTemporary },
  );
}

function parsed(bytes: Uint8Array): Pick<ApiAnswer, "text" | "json"> {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return { text, json: JSON.parse(text) };
  } catch {
    return { text: "", json: undefined };
  }
}

function checked(name: string, answer: ApiAnswer, hints: Hints | undefined): ApiAnswer {
  const { status, headers, json } = answer;
  refuseRedirect(name, answer, hints);
  // A 304 has no content, and a 202 need not have any.
  if (json !== undefined || status === 304 || status === 202) return answer;
  const type = quoted(headers.get("Content-Type")?.split(";", 1)[0]) || "nothing";
  throw new ApiError(`${name} answers ${status} with ${type} instead of JSON`, {
    ...{ status, isTemporary: status >= 500 || status === 429 || status < 300, hints },
    retryAfterMs: retryAfterOf(headers, Date.now()),
  });
}

/**
 * Refuses a redirect.
 *
 * @throws {ApiError} If the answer is one.
 */
export function refuseRedirect(
  name: string,
  { status, headers }: Pick<ApiAnswer, "status" | "headers">,
  hints?: Hints,
): void {
  if (status < 300 || status >= 400 || status === 304) return;
  const location = URL.parse(headers.get("Location") ?? "", "http://elsewhere");
  const host = quoted(location?.host) || "elsewhere";
  throw new ApiError(`${name} answers ${status}, a redirect to ${host}, which is not followed`, {
    ...{ status, hints },
  });
}
