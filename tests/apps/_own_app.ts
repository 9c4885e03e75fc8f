/** An app as a user writes one with `defineApp`. Its argument is JSON, see `OwnAppOptions`. */
import { byRepository, consoleSink, defineApp, forge, runApp, writeLog } from "../../mod.ts";
import { STORES } from "../_stores.ts";
import type { OwnAppOptions } from "./_app.ts";

const given: OwnAppOptions = JSON.parse(Deno.args[0]!);
const { handlerMs = 0, leaves = [], fails = false, isAsync = false } = given;
const { engine = "kv", enqueues = false, mark, marksConsole = false, graceMs } = given;
const { namespace, retentionMs, concurrency, leaseMs, pollMs, timeoutMs, retry } = given;

const throwLeft = () => {
  throw new Error("Nobody waits for this");
};

if (marksConsole) {
  const { log } = console;
  console.log = (line: string) => log(JSON.stringify({ ...JSON.parse(line), byConsole: true }));
}

/** Computes until a file is there: nothing else runs meanwhile. Returns false if it does not come. */
function compute(path: string, maxMs: number): boolean {
  for (const end = performance.now() + maxMs; performance.now() < end;) {
    try {
      Deno.statSync(path);
      return true;
    } catch {
      // Not yet.
    }
  }
  return false;
}

const log = (message: string, id: string) => writeLog(consoleSink, "info", message, { id });

const app = defineApp({
  name: "own",
  platform: forge({ groupBy: byRepository }),
  store: STORES[engine]!(),
  resources: ({ db }) => enqueues ? db.enqueue("mine") : undefined,
  routes: () => isAsync ? Promise.resolve() : undefined,
  ...{ namespace, retentionMs, worker: { concurrency, leaseMs, pollMs, timeoutMs, retry } },
});

app.onAny(async ({ deliveryId: id = "", payload }, { signal }) => {
  log("start", id);
  const { computesUntil, maxMs } = payload;
  if (computesUntil !== undefined && !compute(String(computesUntil), Number(maxMs))) {
    log("computed in vain", id);
  }
  if (leaves.includes("promise")) Promise.resolve().then(throwLeft);
  if (leaves.includes("timer")) setTimeout(throwLeft, 300);
  const onAbort = () => log("aborted", id);
  signal.addEventListener("abort", onAbort);
  const ms = Number(payload.handlerMs ?? handlerMs);
  if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
  signal.removeEventListener("abort", onAbort);
  if (fails) throw new Error("The handler was told to fail");
  log("end", id);
});

await runApp(app, {
  graceMs,
  ...(mark === undefined ? {} : { log: (record) => consoleSink({ ...record, mark }) }),
});
