import {
  defineApp,
  kv,
  type LogRecord,
  openApp,
  sqlite,
  type StoreDefinition,
} from "../../../mod.ts";
import { forge } from "../../../webhook/mod.ts";
import { FORGE_SECRET, forgeDelivery } from "../../_deliveries.ts";

/** Stores in a file, and the variables that name it. */
export const IN_FILES: Readonly<
  Record<"Deno KV" | "SQLite", { readonly store: StoreDefinition; readonly variable: string }>
> = {
  "Deno KV": { store: kv(), variable: "KV_URL" },
  SQLite: { store: sqlite(), variable: "SQLITE_FILE" },
};

/** Answer to a delivery that cannot be stored. */
export const REFUSED = [503, "QUEUE_UNAVAILABLE"];

/** Opens an app on a file, and asks it. */
export async function openOn(engine: keyof typeof IN_FILES, path: string) {
  const { store, variable } = IN_FILES[engine];
  const records: LogRecord[] = [];
  const env = { FORGE_WEBHOOK_SECRET: FORGE_SECRET, [variable]: path };
  const bot = defineApp({ name: "bot", platform: forge(), store });
  const app = await openApp(bot, { env, log: (record) => void records.push(record) });
  const isReady = async () => {
    const { ok, body } = await app.fetch(new Request("http://localhost/health/ready"));
    await body?.cancel();
    return ok;
  };
  const deliver = async (id: string) => {
    const request = await forgeDelivery("{}", { "X-Forge-Delivery": id });
    const response = await app.fetch(new Request("http://localhost/webhook", request));
    await response.body?.cancel();
    return [response.status, response.headers.get("X-Error-Code")];
  };
  const lines = (start: string) =>
    records.filter(({ message }) => message.startsWith(start)).map(({ level, what }) => [
      level,
      what,
    ]);
  const { store: events, worker } = app;
  return {
    ...{ isReady, deliver, lines, records, events, worker },
    [Symbol.asyncDispose]: () => app.stop({ graceMs: 0 }),
  };
}
