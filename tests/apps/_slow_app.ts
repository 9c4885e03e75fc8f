/** An app by `runApp` for the tests of its end: its handler takes the milliseconds of its argument. */
import {
  bindEnv,
  consoleSink,
  createBaseApp,
  createForgeIntake,
  readSecrets,
  runApp,
  writeLog,
} from "../../mod.ts";

const log = (message: string) => writeLog(consoleSink, "info", message, {});

await runApp({
  name: "slow",
  handler: async (_event, { signal }) => {
    log("start");
    signal.addEventListener("abort", () => log("aborted"));
    await new Promise((resolve) => setTimeout(resolve, Number(Deno.args[0])));
  },
  setup: (variables) => {
    const secrets = readSecrets(variables, "FORGE_WEBHOOK_SECRET");
    return ({ store, ready }) => {
      const app = createBaseApp({ name: "slow", ready });
      app.route("/", createForgeIntake({ secrets, store }));
      return bindEnv(app, {});
    };
  },
});
