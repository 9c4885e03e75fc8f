import { assertEquals } from "@std/assert";
import { killNow } from "../../dev/harness/follow_app.ts";
import { appCommand } from "../../dev/harness/start_app.ts";
import { until } from "../../dev/harness/until.ts";
import { openEventStore } from "../../mod.ts";
import { FORGE_SECRET, forgeDelivery } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { assertWithin } from "../_within.ts";
import { APP_NEEDS } from "./_app.ts";

/** An app whose log is read up to the line that says where it listens. */
interface UnreadApp extends AsyncDisposable {
  readonly url: string;
  readonly process: Deno.ChildProcess;
  readonly log: ReadableStreamDefaultReader<Uint8Array>;
}

async function startUnread(kv = ":memory:"): Promise<UnreadApp> {
  const env = { FORGE_WEBHOOK_SECRET: FORGE_SECRET, KV_URL: kv };
  const command = appCommand({
    script: new URL("../../apps/forge.ts", import.meta.url),
    env: { ...env, PORT: "0", HOST: "127.0.0.1" },
  }, { stdout: "piped", stderr: "null" });
  const process = command.spawn();
  const log = process.stdout.getReader();
  let text = "";
  let port: string | undefined;
  while (port === undefined) {
    const { value, done } = await log.read();
    if (done) throw new Error(`The app ended before it listened: ${text}`);
    text += new TextDecoder().decode(value);
    port = /"port":(\d+)/.exec(text)?.[1];
  }
  return {
    ...{ process, log, url: `http://127.0.0.1:${port}/webhook` },
    [Symbol.asyncDispose]: async () => {
      killNow(process);
      await log.cancel();
      await process.status;
    },
  };
}

/** Delivers, and tells how many deliveries were answered 200. Their lines are longer than a pipe holds. */
async function deliver({ url }: UnreadApp, count: number): Promise<number> {
  let answered = 0;
  const send = async (worker: number) => {
    for (let i = 0; i < count / 10; i++) {
      const id = `${worker}-${i}-${"d".repeat(100)}`;
      const delivery = forgeDelivery("{}", { "X-Forge-Delivery": id });
      const response = await fetch(url, { ...delivery, signal: AbortSignal.timeout(10_000) });
      await response.body?.cancel();
      if (response.status === 200) answered++;
    }
  };
  await Promise.all(Array.from({ length: 10 }, (_, worker) => send(worker)));
  return answered;
}

/** Tells an app to stop, and returns how it ended and after how long. */
async function end({ process }: UnreadApp): Promise<{ code: number; ms: number }> {
  const start = performance.now();
  process.kill("SIGTERM");
  const { code } = await process.status;
  return { code, ms: performance.now() - start };
}

for (const reader of ["stands still", "is gone"]) {
  const name = `an app answers and ends in order when the reader of its log ${reader}`;
  testWith(APP_NEEDS, name, () =>
    assertWithin(5_000, async () => {
      await using app = await startUnread();
      if (reader === "is gone") await app.log.cancel();
      assertEquals(await deliver(app, 500), 500);
      const { code, ms } = await end(app);
      assertEquals(code, 0);
      return ms;
    }));
}

testWith(
  APP_NEEDS,
  "an app writes what has waited once its log is read again",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/kv.db`;
      await using app = await startUnread(path);
      assertEquals(await deliver(app, 500), 500);
      using kv = await Deno.openKv(path);
      const store = await openEventStore(kv, { namespace: "forge", notifier: "watch" });
      await until(async () => (await store.stats()).done === 500, 20_000);
      const ended = end(app);
      let text = "";
      for (;;) {
        const { value, done } = await app.log.read();
        if (done) break;
        text += new TextDecoder().decode(value);
      }
      assertEquals((await ended).code, 0);
      const lines = text.split("\n").slice(0, -1).map((line) => JSON.parse(line));
      const count = (message: string) => lines.filter((line) => line.message === message).length;
      assertEquals([count("request"), count("event handled")], [500, 500]);
    }),
);
