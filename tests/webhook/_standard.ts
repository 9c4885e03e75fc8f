import { createBaseApp } from "../../app/base_app.ts";
import { openEventStore } from "../../events/mod.ts";
import { standardDelivery, type StandardDeliveryOptions } from "../../testing/mod.ts";
import { createIntake, standard, type StandardOptions } from "../../webhook/mod.ts";
import { TEST_SECRETS } from "../../testing/mod.ts";

/** Intake of a platform that is named `shop`, with a store in memory. */
export interface Shop extends Disposable {
  /** Sends a request, and returns the status and the error code of the answer. */
  send(
    headers: Headers,
    body: string | Uint8Array<ArrayBuffer>,
  ): Promise<readonly [status: number, code: string | null]>;
  /** Reads the ids and types of the stored events. */
  events(): Promise<readonly (readonly [id: string, type: string])[]>;
}

/** Opens such an intake. */
export async function openShop(options: Partial<StandardOptions> = {}): Promise<Shop> {
  const kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  const platform = standard({ name: "shop", ...options });
  const app = createBaseApp({ name: "test", logger: { log: () => {} } });
  app.route(
    "/",
    createIntake(platform, { store, env: { SHOP_WEBHOOK_SECRET: TEST_SECRETS.gitlab } }),
  );
  return {
    async send(headers, body) {
      const response = await app.request(platform.path, { method: "POST", headers, body });
      await response.body?.cancel();
      return [response.status, response.headers.get("X-Error-Code")];
    },
    async events() {
      const records = await Array.fromAsync(store.list({ state: "queued" }));
      return records.map(({ id, type }) => [id, type] as const);
    },
    [Symbol.dispose]: () => kv.close(),
  };
}

/** A signed delivery of an invoice; `change` adds to its headers, replaces them, or drops them with null. */
export function invoice(
  change: Readonly<Record<string, string | null>> = {},
  options: StandardDeliveryOptions = {},
  payload: object | string = { type: "invoice.paid", data: { total: 42 } },
): [headers: Headers, body: string] {
  const { headers, body } = standardDelivery(payload, { id: "msg_1", ...options });
  for (const [name, value] of Object.entries(change)) {
    if (value === null) headers.delete(name);
    else headers.set(name, value);
  }
  return [headers, String(body)];
}

/** Renames the signed headers as Svix names them. */
export function svixNamed(headers: Headers): Headers {
  return new Headers(
    [...headers].map(([name, value]) => [name.replace(/^webhook-/, "svix-"), value]),
  );
}
