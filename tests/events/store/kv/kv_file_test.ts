import { assertEquals } from "@std/assert";
import { defineApp, type LogRecord, openApp } from "../../../../mod.ts";
import { forge } from "../../../../webhook/mod.ts";
import { FORGE_SECRET, forgeDelivery } from "../../../_deliveries.ts";
import { withFolder } from "../../../_folder.ts";
import { testWith } from "../../../_permissions.ts";
import { until } from "../../worker/_worker.ts";

const NEEDS = ["read", "write"] as const;

/** Opens an app on a file, and asks it. */
async function openOn(path: string) {
  const records: LogRecord[] = [];
  const env = { FORGE_WEBHOOK_SECRET: FORGE_SECRET, KV_URL: path };
  const bot = defineApp({ name: "bot", platform: forge() });
  const app = await openApp(bot, { env, log: (record) => void records.push(record) });
  const isReady = async () => {
    const { ok, body } = await app.fetch(new Request("http://localhost/health/ready"));
    await body?.cancel();
    return ok;
  };
  const deliver = async (id: string) => {
    const request = await forgeDelivery("{}", { "X-Forge-Delivery": id });
    const response = await app.fetch(new Request("http://localhost/webhook", request));
    await response.body?.cancel();
    return [response.status, response.headers.get("X-Error-Code")];
  };
  const lines = (start: string) =>
    records.filter(({ message }) => message.startsWith(start)).map(({ level, what }) => [
      level,
      what,
    ]);
  return { isReady, deliver, lines, [Symbol.asyncDispose]: () => app.stop({ graceMs: 0 }) };
}

const REFUSED = [503, "QUEUE_UNAVAILABLE"];

/** Takes a file away. It is not removed: a run that keeps what tests have written would leave it there. */
const lose = (path: string) => Deno.rename(path, `${path}.lost`);

const LOSSES: Readonly<Record<string, (path: string) => Promise<void>>> = {
  deleted: lose,
  "deleted but for its database": (path) => lose(`${path}-wal`),
  replaced: async (path) => {
    await Deno.copyFile(path, `${path}.new`);
    await Deno.rename(`${path}.new`, path);
  },
};

for (const [what, loseAs] of Object.entries(LOSSES)) {
  testWith(
    NEEDS,
    `an app whose KV file is ${what} takes nothing more, and says so once`,
    async () => {
      if (Deno.build.os === "windows") return;
      await withFolder(async (folder) => {
        await using app = await openOn(`${folder}/kv.db`);
        assertEquals([await app.isReady(), await app.deliver("d1")], [true, [200, null]]);
        await loseAs(`${folder}/kv.db`);
        await until(async () => !await app.isReady());
        assertEquals([await app.deliver("d2"), await app.deliver("d3")], [REFUSED, REFUSED]);
        assertEquals(app.lines("file of the database"), [["error", what.split(" ")[0]]]);
      });
    },
  );
}

testWith(NEEDS, "an app whose KV file is put back takes deliveries again", async () => {
  if (Deno.build.os === "windows") return;
  await withFolder(async (folder) => {
    await using app = await openOn(`${folder}/kv.db`);
    await Deno.rename(`${folder}/kv.db`, `${folder}/elsewhere.db`);
    await until(async () => !await app.isReady());
    await Deno.rename(`${folder}/elsewhere.db`, `${folder}/kv.db`);
    await until(app.isReady);
    assertEquals(await app.deliver("d1"), [200, null]);
  });
});
