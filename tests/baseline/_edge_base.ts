/**
 * Apps made of the package, with the same routes and the same handler as those in
 * `dev/bench/baseline/`. Its argument is JSON, see `SubjectOptions`.
 */
import { HTTPException } from "@hono/hono/http-exception";
import {
  bindEnv,
  createBaseApp,
  createForgeIntake,
  createMessengerIntake,
  type JsonObject,
  readAllowedUsers,
  readSecrets,
  runApp,
} from "../../mod.ts";
import type { SubjectOptions } from "./_subject.ts";

const { app: name = "forge", intake = {}, worker = {} }: SubjectOptions = JSON.parse(Deno.args[0]!);

await runApp({
  name,
  ...worker,
  handler: async ({ payload }) => {
    const { id = payload.update_id, handlerMs, fails } = payload as JsonObject;
    console.log(`start ${id}`);
    await new Promise((resolve) => setTimeout(resolve, Number(handlerMs ?? 0)));
    if (fails) throw new Error("The handler was told to fail");
    console.log(`end ${id}`);
  },
  setup: (variables) => {
    const isForge = name === "forge";
    const secrets = readSecrets(
      variables,
      isForge ? "FORGE_WEBHOOK_SECRET" : "MESSENGER_SECRET_TOKEN",
    );
    const env = isForge
      ? {}
      : { MESSENGER_ALLOWED_USERS: readAllowedUsers(variables, "MESSENGER_ALLOWED_USERS") };
    return ({ store, ready, log }) => {
      const rateLimit = { limit: 100, window: 60_000, failedOnly: true };
      const app = createBaseApp({ name, ready, logger: { log }, rateLimit });
      const options = { secrets, store, ...intake };
      app.route("/", isForge ? createForgeIntake(options) : createMessengerIntake(options));
      app.get("/fails/error", () => {
        throw new Error("a cause");
      });
      app.get("/fails/text", () => {
        throw "a cause";
      });
      app.get("/fails/response", () => {
        throw new HTTPException(403, { res: new Response("<h1>a cause</h1>", { status: 403 }) });
      });
      return bindEnv(app, env);
    };
  },
});
