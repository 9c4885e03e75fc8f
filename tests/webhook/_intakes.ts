import type { Hono } from "@hono/hono";
import { assertEquals } from "@std/assert";
import { createBaseApp } from "../../app/base_app.ts";
import { type EventStore, openEventStore } from "../../events/mod.ts";
import type { LogRecord } from "../../middleware/mod.ts";
import type { RequestOptions } from "../_request_options.ts";
import {
  createIntake,
  forge,
  type ForgeOptions,
  messenger,
  type MessengerOptions,
} from "../../webhook/mod.ts";
import type { IntakeParts } from "../../webhook/intake.ts";

/** Options of the forge's platform and of its intake. */
export type ForgeIntakeOptions = ForgeOptions & IntakeParts;

/** Options of the messenger's platform and of its intake. */
export type MessengerIntakeOptions = MessengerOptions & IntakeParts;

/** Creates the intake of a forge whose secrets are given in code. */
export function forgeIntake({ store, telemetry, describe, ...options }: ForgeIntakeOptions): Hono {
  return createIntake(forge(options), { store, telemetry, describe });
}

/** Creates the intake of a messenger whose secrets are given in code. */
export function messengerIntake(
  { store, telemetry, describe, ...options }: MessengerIntakeOptions,
): Hono {
  return createIntake(messenger(options), { store, telemetry, describe });
}

/** Status, code and message of a refusal. */
export type Refusal = readonly [status: number, code: string, message: string];

/** A request, or one that is being signed. */
export type Sent = RequestOptions | Promise<RequestOptions>;

/** Opens a fresh app with an intake, and its store. `using` closes the KV. */
export async function openIntake(intake: (store: EventStore) => Hono, env: object = {}) {
  const kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  const records: LogRecord[] = [];
  const app = createBaseApp({ name: "test", logger: { log: (record) => records.push(record) } });
  app.route("/", intake(store));
  return {
    ...{ app, kv, store, env, records },
    post: async (sent: Sent) => await app.request("/webhook", await sent, env),
    /** Counts the entries of the KV below a key. */
    count: async (...prefix: string[]) => (await Array.fromAsync(kv.list({ prefix }))).length,
    /** The events that wait, with their bodies. */
    async events() {
      const leases = await store.claim({ limit: 1_000, owner: "test", leaseMs: 60_000 });
      return await Promise.all(
        leases.map(async (lease) => ({ ...lease.record, body: await store.load(lease) })),
      );
    },
    [Symbol.dispose]: () => kv.close(),
  };
}

/** An app that {@linkcode openIntake} has opened. */
export type OpenIntake = Awaited<ReturnType<typeof openIntake>>;

/** Posts a delivery, and checks that it is refused and leaves nothing. */
export async function assertRefusedBy(
  opening: Promise<OpenIntake>,
  sent: Sent,
  [status, code, message]: Refusal,
): Promise<void> {
  using sut = await opening;
  const response = await sut.post(sent);
  assertEquals([response.status, response.headers.get("X-Error-Code")], [status, code]);
  assertEquals(response.headers.get("Content-Type"), "application/json");
  assertEquals(await response.json(), { error: message });
  assertEquals(await sut.count("events"), 0);
}

/** Posts a delivery, and returns the one event that it became. */
export async function acceptedBy(opening: Promise<OpenIntake>, sent: Sent) {
  using sut = await opening;
  const response = await sut.post(sent);
  assertEquals([response.status, await response.text()], [200, "OK"]);
  const [event, ...others] = await sut.events();
  assertEquals(others, []);
  return event!;
}
