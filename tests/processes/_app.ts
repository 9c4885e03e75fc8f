/**
 * An app in a process of its own, for tests that kill and freeze it. Its argument is JSON, see
 * `ProcessOptions`. It logs when a handler starts and ends.
 */
import {
  bindEnv,
  consoleSink,
  createBaseApp,
  createForgeIntake,
  openEventStore,
  startWorker,
  writeLog,
} from "../../mod.ts";
import type { ProcessOptions } from "./_process.ts";

const options: ProcessOptions = JSON.parse(Deno.args[0]!);
const { kv: url, secret, handlerMs = 0, leaseMs = 30_000, worker = true } = options;

const store = await openEventStore(await Deno.openKv(url));
const app = createBaseApp({ name: "process", logger: false });
app.route("/", createForgeIntake({ secrets: [secret], store }));

// Linux keeps the most that a process has held.
app.get("/peak", async (c) => {
  const status = await Deno.readTextFile("/proc/self/status");
  return c.text(/VmHWM:\s+(\d+) kB/.exec(status)?.[1] ?? "");
});

const log = (message: string, fields: Record<string, unknown>) =>
  writeLog(consoleSink, "info", message, fields);

if (worker) {
  startWorker(store, async ({ deliveryId: id, attempt }, { signal }) => {
    log("start", { id, attempt });
    signal.addEventListener("abort", () => log("abort", { id, attempt }));
    if (handlerMs > 0) await new Promise((resolve) => setTimeout(resolve, handlerMs));
    log("end", { id, attempt });
  }, { leaseMs });
}

Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ hostname, port }) => log("listening", { hostname, port }),
}, bindEnv(app, {}));
