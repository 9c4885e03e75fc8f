import { assert, assertEquals } from "@std/assert";
import { FORGE_SECRET } from "../_deliveries.ts";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS, type RunningApp, spawnApp } from "./_app.ts";
import { telemetryOf } from "./_collector.ts";

/** Heads of requests for a URL that cannot be. */
const HOSTS = ["a b", "[::", "x:99999"];

/** Variables with tracing on: then Deno takes the URL apart before it asks the app. */
const ENV = {
  ...{ FORGE_WEBHOOK_SECRET: FORGE_SECRET, KV_URL: ":memory:" },
  ...telemetryOf("http://127.0.0.1:9"),
};

/** Asks for a path under a host, as it stands. */
async function ask(app: RunningApp, host: string): Promise<Response> {
  const { hostname, port } = new URL(await app.url);
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const head = `GET /health?q=in-the-query HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
  await connection.write(new TextEncoder().encode(head));
  const [start, body] = (await new Response(connection.readable).text()).split("\r\n\r\n");
  const [line, ...fields] = start!.split("\r\n");
  const headers = fields.map((field) => field.split(": ", 2) as [string, string]);
  return new Response(body!, { status: Number(line!.split(" ")[1]), headers });
}

testWith(APP_NEEDS, "a host that no URL can have is refused in the one error shape", async () => {
  await using app = spawnApp("forge", ENV);
  for (const host of HOSTS) {
    const response = await ask(app, host);
    const names = ["X-Error-Code", "X-Content-Type-Options", "Cache-Control", "Content-Type"];
    const [code, ...others] = names.map((name) => response.headers.get(name));
    assertEquals([host, response.status, code], [host, 400, "INVALID_HOST"]);
    assertEquals(others, ["nosniff", "no-store", "application/json"]);
    assertEquals(await response.json(), { error: "Invalid host" });
    const requestId = response.headers.get("X-Request-Id");
    const line = await app.line((each) => each.requestId === requestId);
    assertEquals([line.level, line.status, line.code], ["warn", 400, "INVALID_HOST"]);
  }
  assertEquals([await app.stop(), await app.ended], [0, ""]);
  assert(!JSON.stringify(app.lines).includes("in-the-query"));
});

testWith(APP_NEEDS, "hosts that no URL can have are summed up in the log", async () => {
  await using app = spawnApp("forge", ENV);
  // At once: the log writes the first hundred of a time out in full, and then begins anew.
  const answers = await Promise.all(Array.from({ length: 150 }, () => ask(app, "a b")));
  assertEquals(new Set(answers.map(({ status }) => status)), new Set([400]));
  await app.stop();
  assertEquals(app.lines.filter(({ code }) => code === "INVALID_HOST").length, 101);
});
