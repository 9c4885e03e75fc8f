import { createHmac } from "node:crypto";
import examples from "@octokit/webhooks-examples" with { type: "json" };

/** What is sent to a server: the same body each time, under an id of its own each time. */
export interface BenchDelivery {
  readonly body: Uint8Array<ArrayBuffer>;
  /** All headers but the id. */
  readonly headers: Readonly<Record<string, string>>;
}

/** The secret of all servers. */
export const SECRET = "It's a Secret to Everybody";

const encoder = new TextEncoder();

/** The example delivery of median size, of all that are published: 7.7 KB. */
export function medianDelivery(): BenchDelivery {
  const deliveries = examples
    .flatMap(({ name, examples }) => examples.map((each) => ({ type: name, each })))
    .map(({ type, each }) => ({ type, body: encoder.encode(JSON.stringify(each)) }))
    .toSorted((a, b) => a.body.length - b.body.length);
  const { type, body } = deliveries[deliveries.length >> 1]!;
  return forgeDelivery(type, body);
}

/** Signs a body as GitHub does. */
export function forgeDelivery(type: string, body: Uint8Array<ArrayBuffer>): BenchDelivery {
  const signature = createHmac("sha256", SECRET).update(body).digest("hex");
  const headers = {
    "Content-Type": "application/json",
    "X-GitHub-Event": type,
    "X-Hub-Signature-256": `sha256=${signature}`,
  };
  return { body, headers };
}
