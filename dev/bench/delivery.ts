import examples from "@octokit/webhooks-examples" with { type: "json" };
import { FORGE_SECRET, sign, signStandard as signatureOf } from "../harness/sign.ts";

/** Delivery sent to a server: the same body each time, under an id of its own each time. */
export interface BenchDelivery {
  readonly body: Uint8Array<ArrayBuffer>;
  /** All headers but the id. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Makes a delivery of a body, as a platform would send it. */
export type Sign = (body: Uint8Array<ArrayBuffer>) => BenchDelivery;

/** The secret of all servers. */
export const SECRET = FORGE_SECRET;

const JSON_TYPE = { "Content-Type": "application/json" };

/** Signs as GitHub does. */
export const signForge: Sign = (body) => {
  const headers = { "X-GitHub-Event": "push", "X-Hub-Signature-256": sign(body) };
  return { body, headers: { ...JSON_TYPE, ...headers } };
};

/** Sends the secret along, as Telegram does. */
export const signMessenger: Sign = (body) => ({
  body,
  headers: { ...JSON_TYPE, "X-Telegram-Bot-Api-Secret-Token": encodeURIComponent(SECRET) },
});

/** Signs as Standard Webhooks do: with an id and the time, which may differ by five minutes. */
export const signStandard: Sign = (body) => {
  const id = "msg_1";
  const time = String(Math.floor(Date.now() / 1_000));
  return {
    body,
    headers: {
      ...JSON_TYPE,
      "webhook-id": id,
      "webhook-timestamp": time,
      "webhook-signature": signatureOf(body, id, time, SECRET),
    },
  };
};

const encoder = new TextEncoder();

interface Group {
  readonly name: string;
  readonly examples: readonly object[];
}

const groups: readonly Group[] = examples;

const bodies = groups
  .flatMap(({ examples }) => examples.map(bytesOf))
  .toSorted((a, b) => a.length - b.length);

/** The published example of median size: 7.7 KB. */
export const MEDIAN_BODY = bodies[bodies.length >> 1]!;

/** The published example closest to a size or, beyond all of them, a push of many commits. */
export function bodyOf(bytes: number): Uint8Array<ArrayBuffer> {
  if (bytes > bodies.at(-1)!.length) return pushOf(bytes);
  const distance = (body: Uint8Array) => Math.abs(body.length - bytes);
  return bodies.reduce((best, body) => distance(body) < distance(best) ? body : best);
}

function pushOf(bytes: number): Uint8Array<ArrayBuffer> {
  const pushes = groups.filter(({ name }) => name === "push").flatMap(({ examples }) => examples);
  const lists = pushes as { readonly commits: readonly object[] }[];
  const push = lists.find(({ commits }) => commits.length > 0)!;
  const count = Math.ceil(bytes / bytesOf(push.commits[0]!).length);
  return bytesOf({ ...push, commits: new Array(count).fill(push.commits[0]) });
}

function bytesOf(value: object): Uint8Array<ArrayBuffer> {
  return encoder.encode(JSON.stringify(value));
}
