import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { forgeDelivery } from "../_deliveries.ts";
import { until } from "../../dev/harness/until.ts";
import { type ShownSettings, testFront } from "./_front.ts";

const TOKEN = "0f9e8d7c6b5a49382716f0e9d8c7b6a5";

/** The part of nginx's settings in docs/console.md, in a server that says that it is reached over https. */
const SHOWN: ShownSettings = {
  page: "docs/console.md",
  replacements: (_, upstream) => [
    ["http://127.0.0.1:8000/", `http://127.0.0.1:${upstream}/`],
    ["$scheme", "https"],
  ],
  server: (settings, port) => `server { listen 127.0.0.1:${port};\n${settings}}`,
  env: { CONSOLE_OPERATOR_TOKEN: TOKEN },
};

testFront("nginx", "the console is reached below a prefix, and acts", async ({ port, app }) => {
  const base = `http://127.0.0.1:${port}/bots/triage/console/`;
  const Origin = `https://127.0.0.1:${port}`;
  const ask = async (path: string, headers: HeadersInit = {}, form?: Record<string, string>) => {
    const body = form ? new URLSearchParams(form) : null;
    const method = form ? "POST" : "GET";
    const response = await fetch(`${base}${path}`, { method, headers, body, redirect: "manual" });
    return { response, text: await response.text() };
  };
  const { body, headers } = forgeDelivery("{}");
  const sent = await fetch(`${await app.url}/webhook`, { method: "POST", body, headers });
  await sent.body?.cancel();

  const first = (await ask("")).response;
  assertEquals([first.status, first.headers.get("Location")], [303, "login?next=.%2F"]);
  const [, style] = /href="(style-[^"]+)"/.exec((await ask("login")).text) ?? [];
  assertEquals((await ask(style!)).response.status, 200);
  const login = (await ask("login", { Origin }, { token: TOKEN })).response;
  assertEquals([login.status, login.headers.get("Location")], [303, "./"]);
  const cookie = login.headers.get("Set-Cookie")!;
  assert(cookie.startsWith("__Secure-") && cookie.endsWith("; Secure"), cookie);
  assert(!/; path=/i.test(cookie), cookie);
  const session = { Cookie: cookie.split(";")[0]!, Origin };

  let id: string | undefined;
  await until(async () => {
    const { text } = await ask("deliveries?state=done", session);
    id = /href="delivery\?id=([^"]+)"/.exec(text)?.[1];
    return id !== undefined;
  }, 20_000);
  const form = { kind: "purge", id: decodeURIComponent(id!) };
  const refused = await ask("act", { ...session, Origin: "https://127.0.0.1" }, form);
  assertEquals(refused.response.status, 403);
  const done = (await ask("act", session, form)).response;
  assertEquals(done.status, 303);
  const { text } = await ask(done.headers.get("Location")!, session);
  assertStringIncludes(text, "The event was deleted");
  assertEquals((await ask(`delivery?id=${id}`, session)).response.status, 404);
}, SHOWN);
