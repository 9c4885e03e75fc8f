import examples from "@octokit/webhooks-examples" with { type: "json" };
import { sign } from "../harness/sign.ts";
import type { DemoCase, DemoRequest } from "./report.ts";

interface Event {
  readonly type: string;
  readonly body: string;
}

/** All deliveries that the package publishes. */
const EVENTS: readonly Event[] = examples.flatMap(({ name, examples }) =>
  examples.map((payload) => ({ type: name, body: JSON.stringify(payload) }))
);

/** A push whose commits make it 1 MB, and a text that no longer fits a KV value for its one emoji. */
const LARGE: readonly Event[] = [
  {
    type: "push",
    body: JSON.stringify({ commits: Array(1_000).fill({ message: "m".repeat(1_000) }) }),
  },
  { type: "issues", body: JSON.stringify({ issue: { body: `${"a".repeat(40_000)}🙂` } }) },
];

/** Requests that the demo sends to the forge app. */
export function forgeCases(secret: string, otherSecret: string): DemoCase[] {
  const signed = EVENTS.map((event) => delivery(event, secret));
  const one = EVENTS[0]!;
  const fresh = (headers: Record<string, string>) => delivery(one, secret, headers);
  return [
    { name: "signed deliveries, all published ones", requests: signed, status: 200, handled: true },
    { name: "20 of them again", requests: signed.slice(0, 20), status: 200, handled: true },
    {
      name: "1 MB; 40,000 letters and an emoji",
      status: 200,
      handled: true,
      ...all(LARGE, secret),
    },
    { name: "signed with another secret", requests: [delivery(one, otherSecret)], status: 401 },
    { name: "changed after signing", requests: [{ ...fresh({}), body: "{}" }], status: 401 },
    { name: "no signature", requests: [fresh({ "X-Hub-Signature-256": "" })], status: 401 },
    { name: "signed, not JSON", status: 400, ...all([{ type: "push", body: "{" }], secret) },
    { name: "signed, no event type", requests: [fresh({ "X-GitHub-Event": "" })], status: 400 },
    { name: "not declared as JSON", requests: [fresh({ "Content-Type": "text/x" })], status: 415 },
  ];
}

function all(events: readonly Event[], secret: string): { requests: DemoRequest[] } {
  return { requests: events.map((event) => delivery(event, secret)) };
}

function delivery(event: Event, secret: string, headers: Record<string, string> = {}): DemoRequest {
  const id = crypto.randomUUID();
  return {
    id,
    body: event.body,
    headers: {
      "Content-Type": "application/json",
      "X-GitHub-Event": event.type,
      "X-GitHub-Delivery": id,
      "X-Hub-Signature-256": sign(event.body, secret),
      ...headers,
    },
  };
}
