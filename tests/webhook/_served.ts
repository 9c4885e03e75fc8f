import { bindEnv, createBaseApp } from "../../app/base_app.ts";
import type { LogRecord } from "../../middleware/mod.ts";

import { openEventStore } from "../../events/mod.ts";
import { FORGE_SECRET } from "../_deliveries.ts";
import { forgeIntake, type ForgeIntakeOptions } from "./_intakes.ts";

/** A forge's app that is served on a free port, with its store and what it logs. */
export interface Served extends AsyncDisposable {
  readonly port: number;
  readonly records: readonly LogRecord[];
  /** The delivery ids of the events that were stored. */
  events(): Promise<string[]>;
  /** Waits until so many requests to the webhook are logged. */
  seen(count: number): Promise<void>;
  /** The bodies of the events that wait. */
  bodies(): Promise<string[]>;
  /** Asks the health route for an answer. */
  isHealthy(): Promise<boolean>;
}

/** Serves a forge's app. */
export async function serveForge(options: Partial<ForgeIntakeOptions> = {}): Promise<Served> {
  const kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  const records: LogRecord[] = [];
  let notify = () => {};
  const log = (record: LogRecord) => {
    records.push(record);
    notify();
  };
  const app = createBaseApp({ name: "forge", logger: { log } });
  app.route("/", forgeIntake({ secrets: [FORGE_SECRET], store, ...options }));
  const quiet = { port: 0, hostname: "127.0.0.1", onListen: () => {} };
  const server = Deno.serve(quiet, bindEnv(app, {}));
  const { port } = server.addr;
  return {
    port,
    records,
    events: async () =>
      (await Array.fromAsync(store.list())).map(({ id }) => id.replace(/^forge:/, "")),
    seen: async (count) => {
      while (records.filter(({ path }) => path === "/webhook").length < count) {
        await new Promise<void>((resolve) => notify = resolve);
      }
    },
    bodies: async () => {
      const leases = await store.claim({ limit: 10_000, owner: "test", leaseMs: 60_000 });
      const bodies = await Promise.all(leases.map((lease) => store.load(lease)));
      return bodies.map((body) => new TextDecoder().decode(body));
    },
    isHealthy: async () => {
      const response = await fetch(`http://127.0.0.1:${port}/health`);
      return response.status === 200 && (await response.json()).status === "ok";
    },
    [Symbol.asyncDispose]: async () => {
      await server.shutdown();
      kv.close();
    },
  };
}

/** Statuses of the responses, and the end of the connection, as the peer sees them. */
export interface Seen {
  readonly statuses: readonly number[];
  readonly ended: "closed" | "open";
}

/** Time without an answer after which a connection counts as left open. */
const OPEN_MS = 1_000;

/** Sends characters as bytes, and reads until the connection ends, or nothing more comes. */
export async function exchange(port: number, sent: string, openMs = OPEN_MS): Promise<Seen> {
  using connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const writing = write(connection, Uint8Array.from(sent, (each) => each.charCodeAt(0)));
  let received = "";
  const buffer = new Uint8Array(65_536);
  for (;;) {
    const count = await read(connection, buffer, openMs);
    if (count === "late" || count === null) {
      if (count === null) await writing;
      const statuses = [...received.matchAll(/HTTP\/1\.[01] (\d{3}) /g)].map(([, code]) => +code!);
      return { statuses, ended: count === null ? "closed" : "open" };
    }
    received += new TextDecoder().decode(buffer.subarray(0, count));
  }
}

async function read(
  connection: Deno.TcpConn,
  buffer: Uint8Array,
  openMs: number,
): Promise<number | null | "late"> {
  const late = Promise.withResolvers<"late">();
  const timer = setTimeout(() => late.resolve("late"), openMs);
  try {
    const reading = connection.read(buffer).catch(() => null);
    return await Promise.race([reading, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

async function write(connection: Deno.TcpConn, bytes: Uint8Array): Promise<void> {
  try {
    for (let offset = 0; offset < bytes.byteLength;) {
      offset += await connection.write(bytes.subarray(offset));
    }
  } catch {
    // The server has closed the connection.
  }
}
