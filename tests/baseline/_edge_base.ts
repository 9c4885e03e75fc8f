/**
 * Apps made of the package, with the same routes and the same handler as those in
 * `dev/bench/baseline/`. Its argument is JSON, see `SubjectOptions`.
 */
import { HTTPException } from "@hono/hono/http-exception";
import { defineApp, forge, type JsonObject, messenger, runApp } from "../../mod.ts";
import type { SubjectOptions } from "./_subject.ts";

const { app: name = "forge", intake = {}, worker = {} }: SubjectOptions = JSON.parse(Deno.args[0]!);

const app = defineApp({
  name,
  worker,
  platform: name === "forge" ? forge<object>(intake) : messenger<object>(intake),
  routes: (app) => {
    app.get("/fails/error", () => {
      throw new Error("a cause");
    });
    app.get("/fails/text", () => {
      throw "a cause";
    });
    app.get("/fails/response", () => {
      throw new HTTPException(403, { res: new Response("<h1>a cause</h1>", { status: 403 }) });
    });
  },
});

app.onAny(async ({ payload }) => {
  const { id = payload.update_id, handlerMs, fails } = payload as JsonObject;
  console.log(`start ${id}`);
  await new Promise((resolve) => setTimeout(resolve, Number(handlerMs ?? 0)));
  if (fails) throw new Error("The handler was told to fail");
  console.log(`end ${id}`);
});

await runApp(app);
