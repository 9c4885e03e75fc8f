/** The app that deliveries are sent to: its address, and its answers. */
import { networkReasonOf, quoted, readBytes } from "../core/call_api.ts";
import { httpUrl } from "../core/hosts.ts";
import type { TestDelivery } from "../testing/mod.ts";
import { UsageError } from "./_world.ts";

/** Longest wait for an answer. */
const TIMEOUT_MS = 60_000;

/** Longest text of an answer that is shown. */
const MAX_TEXT = 200;

/** Largest answer that is read. */
const MAX_ANSWER_BYTES = 64 * 1024;

/** Answer of an app to a delivery. */
export interface AppAnswer {
  readonly status: number;
  readonly code: string | null;
  readonly text: string;
  /** Time that it took, in milliseconds. */
  readonly ms: number;
  readonly headers: Headers;
}

/**
 * Reads an app's address. One without a path gets the webhook's, `/webhook`.
 *
 * @returns The URL; undefined if the text is not a web address.
 */
export function webhookIn(text: string): URL | undefined {
  const url = httpUrl(text);
  if (url?.pathname === "/") url.pathname = "/webhook";
  return url;
}

/**
 * Reads the address of an app: the given one, or a port of this machine.
 *
 * @throws {UsageError} If it is not a web address, or holds a password.
 */
export function appIn(text: string | undefined, port: string | number): string {
  const url = webhookIn(text ?? `http://localhost:${port}`);
  if (url !== undefined && !url.username && !url.password) return url.href;
  throw new UsageError(
    "--url (or PORT) must be the app's address, without user and password, such as " +
      "http://localhost:8000/webhook",
  );
}

/**
 * Sends a delivery to an app. A redirect is not followed.
 *
 * @throws {Error} If there is no answer. The message says what may help.
 */
export function sendTo(
  app: string,
  { method, headers, body }: TestDelivery,
  ending: AbortSignal = new AbortController().signal,
): Promise<AppAnswer> {
  const signal = AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), ending]);
  return call(app, { method, headers, body, signal });
}

/**
 * Asks the server at an app's address for the name of its app, which `/health` tells.
 *
 * @returns The name; undefined if another program answers.
 * @throws {Error} If there is no answer. The message says what may help.
 */
export async function nameOfApp(app: string): Promise<string | undefined> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const { text } = await call(new URL("/health", app).href, { signal });
  try {
    const { status, name } = JSON.parse(text);
    return status === "ok" && typeof name === "string" ? name : undefined;
  } catch {
    return undefined;
  }
}

async function call(app: string, init: RequestInit): Promise<AppAnswer> {
  const start = performance.now();
  try {
    const response = await fetch(app, { ...init, redirect: "manual" });
    const bytes = await readBytes(response, MAX_ANSWER_BYTES) ?? new Uint8Array();
    const ms = Math.round((performance.now() - start) * 100) / 100;
    const code = response.headers.get("X-Error-Code");
    const text = new TextDecoder().decode(bytes);
    return { status: response.status, code, text, ms, headers: response.headers };
  } catch (error) {
    const { host } = new URL(app);
    const reason = networkReasonOf(error);
    throw new Error(
      /refused/i.test(reason)
        ? `Nothing listens at ${host}: start the app, or give its address with --url or PORT`
        : `The app at ${host} does not answer: ${reason}`,
    );
  }
}

/** Formats the status and the code of an answer. */
export function statusOf({ status, code }: AppAnswer): string {
  return [status, quoted(code)].filter((part) => part).join(" ");
}

/** Formats an answer, with the time that it took. */
export function lineOf(answer: AppAnswer): string {
  const parts = [statusOf(answer), quoted(answer.text).slice(0, MAX_TEXT)];
  return `${parts.filter((part) => part).join(" ")}  ${answer.ms} ms`;
}
