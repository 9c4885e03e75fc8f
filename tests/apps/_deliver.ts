import { forgeDelivery } from "../_deliveries.ts";
import type { RunningApp } from "./_app.ts";

/** Answer to a delivery. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Milliseconds that it took. */
  readonly ms: number;
}

/** Sends a genuine delivery to a forge's app. */
export async function deliver(
  app: Pick<RunningApp, "url">,
  id: string,
  body = "{}",
): Promise<Answer> {
  const url = `${await app.url}/webhook`;
  const init = forgeDelivery(body, { "X-Forge-Delivery": id });
  const start = performance.now();
  const response = await fetch(url, init);
  const text = await response.text();
  const { status, headers } = response;
  return { status, headers, text, ms: performance.now() - start };
}
