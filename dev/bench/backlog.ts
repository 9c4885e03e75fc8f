import { MEDIAN_BODY } from "./delivery.ts";
import { openEventStore } from "../../mod.ts";
import { parseForgeDelivery } from "../../webhook/mod.ts";
import { EDGE_BASE, type Subject } from "./subjects.ts";

/** Takes one event in, under a number of its own. */
type TakeIn = (number: number) => Promise<unknown>;

/** Number of events that are taken in at the same time. */
const AT_ONCE = 256;

/**
 * Makes a store in which events wait, as the subject's own intake would have left it. It is made once,
 * and copied for each run.
 *
 * @returns The folder it is in; undefined for no events.
 */
export function createBacklog(
  subject: Subject,
  count: number,
): () => Promise<string | undefined> {
  let folder: Promise<string> | undefined;
  return () => count === 0 ? Promise.resolve(undefined) : folder ??= fill(subject, count);
}

async function fill(subject: Subject, count: number): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "backlog-" });
  using kv = await Deno.openKv(`${folder}/kv.db`);
  const takeIn = subject === EDGE_BASE ? await storeEvents(kv) : enqueueEvents(kv);
  let next = 0;
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (next < count) await takeIn(next++);
  }));
  return folder;
}

async function storeEvents(kv: Deno.Kv): Promise<TakeIn> {
  const store = await openEventStore(kv, { namespace: "forge" });
  const { headers } = EDGE_BASE.sign(MEDIAN_BODY);
  return (number) => {
    const all = new Headers({ ...headers, "X-GitHub-Delivery": `backlog-${number}` });
    return store.accept(parseForgeDelivery(all, MEDIAN_BODY));
  };
}

function enqueueEvents(kv: Deno.Kv): TakeIn {
  const event = JSON.parse(new TextDecoder().decode(MEDIAN_BODY));
  return () => kv.enqueue({ ...event, receivedAt: Date.now() });
}
