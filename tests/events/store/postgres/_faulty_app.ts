import { defineApp, forge, type LogRecord, openApp } from "../../../../mod.ts";
import { postgres, type PostgresTx } from "../../../../events/store/postgres/mod.ts";
import { testWith } from "../../../_permissions.ts";
import { FORGE_SECRET, forgeDelivery } from "../../../_deliveries.ts";
import { POSTGRES } from "../engines/postgres.ts";
import { OwnPostgres, type OwnPostgresOptions } from "./_own_server.ts";

/** Table with a row for each event that was handled. */
const TABLE = "create table if not exists public.handled (id text)";

/** Registers a test of an app on a server of its own. */
export function testServer(
  name: string,
  fn: (server: OwnPostgres) => Promise<void>,
  options: OwnPostgresOptions = {},
  missing = POSTGRES.kinds[0].missing,
): void {
  testWith(POSTGRES.kinds[0].needs, name, async () => {
    await using server = await OwnPostgres.start(options);
    await fn(server);
  }, missing);
}

/** Options of {@linkcode openOn}. */
export interface FaultyAppOptions {
  /** Called in the transaction that settles an event. */
  readonly effects?: (tx: PostgresTx, id: string) => Promise<unknown>;
  /** Number of connections for handlers. */
  readonly connections?: number;
  /** Makes it make the table of what is handled. */
  readonly hasSetup?: boolean;
}

/** Opens an app that notes each event that it handles in a table, in the transaction that settles it. */
export async function openOn(
  url: string,
  { effects, connections, hasSetup = true }: FaultyAppOptions = {},
  records: LogRecord[] = [],
) {
  const setup = hasSetup ? (tx: PostgresTx) => tx.query(TABLE) : undefined;
  const store = postgres({ setup, connections });
  const retry = { minDelayMs: 100, maxDelayMs: 200, maxAttempts: 1_000 };
  const worker = { retry, leaseMs: 4_000 };
  const bot = defineApp({ name: "bot", platform: forge(), store, worker });
  bot.onAny(({ deliveryId }, { settleWith }) => {
    settleWith(async (tx) => {
      await effects?.(tx, deliveryId!);
      await tx.query("insert into handled values ($1)", [deliveryId]);
    });
  });
  const env = { FORGE_WEBHOOK_SECRET: FORGE_SECRET, DATABASE_URL: url };
  const app = await openApp(bot, { env, log: (record) => void records.push(record) });
  return Object.assign(app, {
    records,
    /** Sends a delivery. Returns the status of the answer, and its time. */
    async deliver(
      id: string,
      payload = "{}",
    ): Promise<{ readonly status: number; readonly ms: number }> {
      const start = performance.now();
      const request = forgeDelivery(payload, { "X-Forge-Delivery": id });
      const { status, headers, body } = await app.fetch(
        new Request("http://localhost/webhook", request),
      );
      await body?.cancel();
      if (status === 503 && !headers.has("Retry-After")) throw new Error("no Retry-After");
      return { status, ms: performance.now() - start };
    },
  });
}

/** Counts the rows of the events that were handled. */
export async function handled(server: OwnPostgres): Promise<string[]> {
  const rows = await server.sql<{ id: string }>("select id from handled order by id");
  return rows.map(({ id }) => id);
}
