import { assertEquals } from "@std/assert";
import { ON_DENO_2_5 } from "../_deno_version.ts";
import { testWith } from "../_permissions.ts";
import { until } from "../../dev/harness/until.ts";
import { APP_NEEDS, type RunningApp, spawnOwnApp } from "./_app.ts";
import { deliver } from "./_deliver.ts";

/** More connections than the app has descriptors for. */
const CONNECTIONS = 130;

const SAID = "connection not accepted, listening again";

/** Sends heads that do not end, until the app takes no more connections. */
async function holdOpen(app: RunningApp): Promise<Deno.Conn[]> {
  const { hostname, port } = new URL(await app.url);
  const open: Deno.Conn[] = [];
  for (let i = 0; i < CONNECTIONS; i++) {
    try {
      const connection = await Deno.connect({ hostname, port: Number(port) });
      open.push(connection);
      await connection.write(new TextEncoder().encode("POST /webhook HTTP/1.1\r\nHo"));
    } catch {
      break; // Nothing listens for a moment.
    }
  }
  return open;
}

/** Tells whether a connection of its own is answered. */
async function isAnswered(app: RunningApp): Promise<boolean> {
  const { hostname, port } = new URL(await app.url);
  const request = "GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  try {
    using connection = await Deno.connect({ hostname, port: Number(port) });
    await connection.write(new TextEncoder().encode(request));
    return (await new Response(connection.readable).text()).startsWith("HTTP/1.1 200");
  } catch {
    return false; // Nothing listens for a moment.
  }
}

if (Deno.build.os !== "windows") {
  testWith(
    APP_NEEDS,
    "runApp() serves again once it has file descriptors again, and says once that it had none",
    async () => {
      await using app = spawnOwnApp({}, { KV_URL: ":memory:" }, "ulimit -n 96");
      const said = () => app.line(({ message }) => message === SAID);
      for (let i = 0; i < 2; i++) {
        const open = await holdOpen(app);
        // Deno 2.5 tells it only once the connections that are open have ended.
        if (!ON_DENO_2_5) await said();
        for (const connection of open) connection.close();
        await said();
        await until(() => isAnswered(app), 10_000);
      }
      assertEquals((await deliver(app, "d1")).status, 200);
      assertEquals(app.count(SAID), 1);
      assertEquals([await app.stop(), await app.ended], [0, ""]);
    },
  );
}
