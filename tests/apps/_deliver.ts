import { assertEquals, assertMatch } from "@std/assert";
import { forgeDelivery } from "../_deliveries.ts";
import type { RunningApp } from "./_app.ts";

/** Time within which a sender has its answer, whatever the KV does. */
export const ANSWERED_WITHIN_MS = 5_500;

/** Answer to a delivery. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Milliseconds that it took. */
  readonly ms: number;
}

/** Sends a genuine delivery to a forge's app; `more` adds to its headers. */
export function deliver(
  app: Pick<RunningApp, "url">,
  id: string,
  body = "{}",
  more: Readonly<Record<string, string>> = {},
): Promise<Answer> {
  return post(app, forgeDelivery(body, { "X-Forge-Delivery": id, ...more }));
}

/** Sends a request to an app's webhook. */
export async function post(app: Pick<RunningApp, "url">, init: RequestInit): Promise<Answer> {
  const url = `${await app.url}/webhook`;
  const start = performance.now();
  const response = await fetch(url, init);
  const text = await response.text();
  const { status, headers } = response;
  return { status, headers, text, ms: performance.now() - start };
}

/** Sends a request to an app's webhook, and returns the status and the body of the answer. */
export async function answerTo(
  app: Pick<RunningApp, "url">,
  init: RequestInit,
): Promise<[number, string]> {
  const { status, text } = await post(app, init);
  return [status, text];
}

/** Fails unless an answer says that the KV does not take the delivery, and when to send it again. */
export function assertUnavailable({ status, headers }: Answer): void {
  assertEquals([status, headers.get("X-Error-Code")], [503, "QUEUE_UNAVAILABLE"]);
  assertMatch(headers.get("Retry-After") ?? "", /^\d+$/);
}
