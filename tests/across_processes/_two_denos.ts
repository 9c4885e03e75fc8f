/**
 * An app in a process of its own that uses all that a store keeps: groups, batches, waits, states, effects and
 * events of its own. Its argument is JSON: the address of the store, the secret and the length of a lease.
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
import { forgeIntake } from "../webhook/_intakes.ts";

/** A payload: what its handler does. */
export interface Work {
  /** Ordering group. */
  readonly group: string;
  /** Number within the group, counted by its sender. */
  readonly number: number;
  /** Set if its group's events are handled together. */
  readonly quiet?: boolean;
  /** Set if it waits for an answer. */
  readonly waits?: boolean;
  /** Set if it emits an event with an id of its own. */
  readonly emits?: boolean;
}

const { at, secret, leaseMs } = JSON.parse(Deno.args[0]!);

const log = (message: string, fields: Record<string, unknown>) =>
  writeLog(consoleSink, "info", message, fields);

const { store } = await openAt(at);
const app = createBaseApp({ name: "process", logger: false });
const groupBy = ({ payload }: Delivery) => {
  const { group, quiet } = payload as unknown as Work;
  return quiet ? { key: group, quietMs: 20, maxWaitMs: 200 } : group;
};
app.route("/", forgeIntake({ secrets: [secret], store, groupBy }));

const worker = startWorker(store, async (event, { waitFor, state, emit }) => {
  const works = event.batch.map(({ payload }) => payload as unknown as Work);
  const { group, number, waits, emits } = works.at(-1)!;
  if (event.platform === "events") return log("emitted", { id: event.id });
  const value = waits ? (await waitFor(`answer:${event.deliveryId}`)).value : undefined;
  const count = await state<number>(`count:${group}`);
  count.set((count.value ?? 0) + works.length);
  if (emits) emit("jobs", "item", { group, number }, { id: `${group}-${number}` });
  const startedAt = Date.now();
  await new Promise((resolve) => setTimeout(resolve, number % 3));
  const numbers = works.map((each) => each.number);
  log("handled", { group, numbers, value, startedAt, endedAt: Date.now() });
}, { leaseMs });

const server = Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ hostname, port }) => log("listening", { hostname, port }),
}, bindEnv(app, {}));

Deno.addSignalListener("SIGTERM", async () => {
  await Promise.all([server.shutdown(), worker.stop()]);
  Deno.exit(0);
});
