/** An app as a user writes one with `runApp`. Its argument is JSON, see `OwnAppOptions`. */
import {
  type AppHandler,
  bindEnv,
  byRepository,
  consoleSink,
  createBaseApp,
  createForgeIntake,
  readSecrets,
  runApp,
  writeLog,
} from "../../mod.ts";
import type { OwnAppOptions } from "./_app.ts";

const given: OwnAppOptions = JSON.parse(Deno.args[0]!);
const { handlerMs = 0, leaves = [], fails = false, unbound = false } = given;
const { enqueues = false, mark, marksConsole = false, ...options } = given;

const throwLeft = () => {
  throw new Error("Nobody waits for this");
};

if (marksConsole) {
  const { log } = console;
  console.log = (line: string) => log(JSON.stringify({ ...JSON.parse(line), byConsole: true }));
}

const log = (message: string, id: string) => writeLog(consoleSink, "info", message, { id });

await runApp({
  name: "own",
  ...options,
  ...(mark === undefined ? {} : { log: (record) => consoleSink({ ...record, mark }) }),
  handler: async ({ deliveryId: id = "", payload }, { signal }) => {
    log("start", id);
    if (leaves.includes("promise")) Promise.resolve().then(throwLeft);
    if (leaves.includes("timer")) setTimeout(throwLeft, 300);
    const onAbort = () => log("aborted", id);
    signal.addEventListener("abort", onAbort);
    const ms = Number(payload.handlerMs ?? handlerMs);
    if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
    signal.removeEventListener("abort", onAbort);
    if (fails) throw new Error("The handler was told to fail");
    log("end", id);
  },
  setup: (variables) => {
    const secrets = readSecrets(variables, "FORGE_WEBHOOK_SECRET");
    return ({ store, kv, ready, telemetry }) => {
      if (enqueues) kv.enqueue("mine");
      const app = createBaseApp({ name: "own", ready, logger: false, telemetry });
      app.route("/", createForgeIntake({ secrets, store, orderBy: byRepository, telemetry }));
      return unbound ? app as unknown as AppHandler : bindEnv(app, {});
    };
  },
});
