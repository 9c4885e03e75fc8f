/** Handlers that compute before they first await something: nothing else runs in the process meanwhile. */
import { assertEquals, assertLessOrEqual } from "@std/assert";
import { forgeDelivery } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS, type RunningApp, spawnOwnApp } from "./_app.ts";
import { deliver } from "./_deliver.ts";
import { connect, pour, statusOf } from "./_raw.ts";

/** The payload of a delivery whose handler computes until a file is there, and gives up after a time. */
const computing = (computesUntil: string, maxMs: number) =>
  JSON.stringify({ computesUntil, maxMs });

const letGo = (path: string) => Deno.writeTextFile(path, "");

/** Waits for the ends of the handlers of some deliveries. */
async function ended(app: RunningApp, ids: readonly string[]): Promise<void> {
  for (const id of ids) await app.line((line) => line.message === "end" && line.id === id);
}

/** Sends a delivery, whether the app reads it or not. */
async function send(app: RunningApp, id: string, body: string): Promise<Deno.TcpConn> {
  const bytes = new TextEncoder().encode(body);
  const headers = { "X-Forge-Delivery": id, "Content-Length": String(bytes.byteLength) };
  const signed = Object.fromEntries(forgeDelivery(body, headers).headers);
  const connection = await connect(app, { ...signed, Connection: "close" });
  await pour(connection, bytes, 1);
  return connection;
}

testWith(
  APP_NEEDS,
  "a delivery is answered before its handler computes",
  () =>
    withFolder(async (folder) => {
      await using app = spawnOwnApp({}, { KV_URL: ":memory:" });
      for (const id of ["d1", "d2"]) {
        const { status } = await deliver(app, id, computing(`${folder}/${id}`, 20_000));
        await letGo(`${folder}/${id}`);
        await ended(app, [id]);
        assertEquals([status, app.count("computed in vain")], [200, 0]);
      }
    }),
);

testWith(
  APP_NEEDS,
  "ten deliveries at once are answered before their handlers have computed",
  () =>
    withFolder(async (folder) => {
      await using app = spawnOwnApp({}, { KV_URL: ":memory:" });
      const ids = Array.from({ length: 10 }, (_, i) => `d${i}`);
      // Meanwhile the app reads nothing, so that all of them are there when it does.
      await deliver(app, "first", computing(`${folder}/first`, 20_000));
      const all = computing(`${folder}/all`, 1_000);
      const connections = await Promise.all(ids.map((id) => send(app, id, all)));
      await letGo(`${folder}/first`);
      assertEquals(await Promise.all(connections.map(statusOf)), ids.map(() => 200));
      await letGo(`${folder}/all`);
      await ended(app, ["first", ...ids]);
      for (const connection of connections) connection.close();
      // One may have started before the last one was read.
      assertLessOrEqual(app.count("computed in vain"), 1);
    }),
);
