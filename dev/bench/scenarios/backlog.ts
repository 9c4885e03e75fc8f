import type { AppProcess } from "../app_process.ts";
import { type EventStore, kv, sqlite } from "../../../mod.ts";
import { parseForgeDelivery } from "../../../webhook/mod.ts";
import { MEDIAN_BODY } from "../delivery.ts";
import { runArrivals } from "../load/open_loop.ts";
import { DATABASE, untilHandled, withApp } from "../loaded_app.ts";
import type { BenchSettings, Run, Scenario, Values } from "../scenario.ts";
import { openStore } from "../servers/_store.ts";
import { BASELINE, EDGE_BASE, EDGE_BASE_SQLITE, type Subject } from "../subjects.ts";

/** Load that arrives while the backlog is worked off: the app is in use. */
const ARRIVALS_PER_SECOND = 500;

/** Time that the backlog is given, in lengths of the arrivals. */
const PATIENCE = 3;

/** Number of events that are taken in at the same time. */
const AT_ONCE = 256;

/** Stores in which events wait when the app starts. */
export const backlog: Scenario = {
  name: "backlog",
  title: "A backlog when the app starts",
  what:
    "The store is filled through the subject's own intake, then the app starts, and deliveries " +
    `(7.7 KB) arrive at ${ARRIVALS_PER_SECOND}/s. Compared with a store in which nothing waits. ` +
    "Handled per second counts from the first event that is handled, as long as the backlog lasts.",
  compare: "rows",
  measures: [
    { key: "startMs", title: "start to first answer, ms", digits: 0, ratio: true },
    { key: "p50Ms", title: "answered after, p50, ms", digits: 1, ratio: true },
    { key: "p99Ms", title: "answered after, p99, ms", digits: 1, ratio: true },
    { key: "failed", title: "not answered 200", digits: 0 },
    { key: "firstSecond", title: "handled in the first second", digits: 0 },
    { key: "slowestSecond", title: "handled in the slowest second", digits: 0 },
    { key: "handledPerSecond", title: "handled/s until none waits", digits: 0, chart: "line" },
    { key: "left", title: "of the backlog left in the end", digits: 0 },
    { key: "startMb", title: "memory at the first answer, MB", digits: 0 },
    { key: "peakMb", title: "memory at its peak, MB", digits: 0 },
    { key: "endMb", title: "memory in the end, MB", digits: 0 },
  ],
  runs: (settings) =>
    [0, settings.backlog, 2 * settings.backlog].flatMap((count) =>
      [BASELINE, EDGE_BASE, EDGE_BASE_SQLITE].map((subject): Run => {
        const from = createBacklog(subject, count);
        return {
          row: `${count.toLocaleString("en")} waiting`,
          subject,
          measure: async () => await measure(subject, count, await from(), settings),
        };
      })
    ),
};

function measure(
  subject: Subject,
  count: number,
  from: string | undefined,
  { seconds }: BenchSettings,
): Promise<Values> {
  return withApp(subject, async (app) => {
    const startMb = app.memory().rssMb;
    const { p50Ms, p99Ms, requests, failed } = await runArrivals({
      url: app.url,
      delivery: subject.sign(MEDIAN_BODY),
      perSecond: ARRIVALS_PER_SECOND,
      seconds,
    });
    const drained = await drain(
      app,
      count,
      1 + requests - failed,
      seconds * (PATIENCE - 1) * 1_000,
    );
    const { rssMb: endMb, peakMb } = app.memory();
    return { startMs: app.startMs, p50Ms, p99Ms, failed, ...drained, startMb, peakMb, endMb };
  }, { from });
}

/** Pace at which the backlog goes, and the deliveries that arrived in the meantime. */
async function drain(app: AppProcess, count: number, arrived: number, withinMs: number) {
  const { count: handled, perSecond } = await untilHandled(app, count + arrived, withinMs);
  if (count === 0) return {};
  const seconds = whileWaiting(perSecond, count);
  return {
    firstSecond: perSecond[0] ?? 0,
    slowestSecond: Math.min(...seconds),
    handledPerSecond: seconds.reduce((sum, each) => sum + each, 0) / seconds.length,
    left: Math.max(0, count - handled),
  };
}

/** The whole seconds in which some of the backlog was left; the first one in any case. */
function whileWaiting(perSecond: readonly number[], count: number): readonly number[] {
  let handled = 0;
  const last = perSecond.slice(0, -1).findIndex((each) => (handled += each) >= count);
  return perSecond.slice(0, Math.max(1, last < 0 ? perSecond.length - 1 : last));
}

/** Takes one event in, under a number of its own. */
type TakeIn = (number: number) => Promise<unknown>;

/**
 * Makes a store in which events wait, as the subject's own intake would have left it. It is made once,
 * and copied for each run.
 *
 * @returns The folder it is in; undefined for no events.
 */
function createBacklog(
  subject: Subject,
  count: number,
): () => Promise<string | undefined> {
  let folder: Promise<string> | undefined;
  return () => count === 0 ? Promise.resolve(undefined) : folder ??= fill(subject, count);
}

async function fill(subject: Subject, count: number): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "backlog-" });
  await using into = await fillable(subject, `${folder}/${DATABASE}`);
  let next = 0;
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (next < count) await into.takeIn(next++);
  }));
  return folder;
}

/** A store that is open to be filled. */
type Fillable = { readonly takeIn: TakeIn } & AsyncDisposable;

async function fillable(subject: Subject, path: string): Promise<Fillable> {
  if (subject === BASELINE) {
    const db = await Deno.openKv(path);
    return { takeIn: enqueueEvents(db), [Symbol.asyncDispose]: () => Promise.resolve(db.close()) };
  }
  const definition = subject === EDGE_BASE_SQLITE ? sqlite() : kv();
  const opened = await openStore(definition, { KV_URL: path, SQLITE_FILE: path });
  return { ...opened, takeIn: storeEvents(opened.store) };
}

function storeEvents(store: EventStore): TakeIn {
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
