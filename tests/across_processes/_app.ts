/**
 * An app in a process of its own, for tests that kill and freeze it. Its argument is JSON, see
 * `ProcessOptions`. It logs when a handler starts and ends.
 */
import {
  bindEnv,
  consoleSink,
  createBaseApp,
  type Delivery,
  startWorker,
  writeLog,
} from "../../mod.ts";
import { openAt } from "../events/store/engines/mod.ts";
import type { ProcessOptions } from "./_process.ts";
import { forgeIntake } from "../webhook/_intakes.ts";

const options: ProcessOptions = JSON.parse(Deno.args[0]!);
const { at, secret, handlerMs = 0, leaseMs = 30_000, worker = true } = options;
const { groups, emits = 0, waits } = options;

const groupOf = ({ deliveryId = "" }: Delivery, groups: number) => ({
  key: String(deliveryId.charCodeAt(0) % groups),
  quietMs: 20,
  maxWaitMs: 200,
});

const { store, effects } = await openAt(at);
const app = createBaseApp({ name: "process", logger: false });
const groupBy = groups === undefined ? undefined : (each: Delivery) => groupOf(each, groups);
app.route("/", forgeIntake({ secrets: [secret], store, groupBy }));

const log = (message: string, fields: Record<string, unknown>) =>
  writeLog(consoleSink, "info", message, fields);

if (worker) {
  startWorker(store, async (event, { signal, settleWith, emit, waitFor }) => {
    const { deliveryId: id, attempt, batch } = event;
    if (event.platform === "events") {
      // Counted in the commit that settles it.
      return settleWith(effects.add(`handled/${event.id}`, 1));
    }
    if (waits) {
      const { value } = await waitFor<string>(`answer:${id}`);
      // It fails if the answer was there before.
      return settleWith(effects.create(`result/${id}`, value!));
    }
    for (let i = 0; i < emits; i++) emit("jobs", "item", {}, i % 2 === 0 ? { group: `g${i}` } : {});
    if (emits > 0) emit("jobs", "item", {}, { id: id!, delayMs: 50 });
    log("start", { id, attempt, events: batch.length });
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
