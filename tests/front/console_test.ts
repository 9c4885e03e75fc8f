import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { forgeDelivery } from "../_deliveries.ts";
import { until } from "../../dev/harness/until.ts";
import { type FrontName, type ShownSettings, testFront } from "./_front.ts";

const TOKEN = "0f9e8d7c6b5a49382716f0e9d8c7b6a5";

/** Settings of each proxy as docs/console.md shows them, and the scheme that it says it is reached by. */
const SHOWN: Readonly<Record<FrontName, ShownSettings & { readonly scheme: string }>> = {
  nginx: {
    page: "docs/console.md",
    replacements: (_, upstream) => [
      ["http://127.0.0.1:8000/", `http://127.0.0.1:${upstream}/`],
      ["$scheme", "https"],
    ],
    server: (settings, port) => `server { listen 127.0.0.1:${port};\n${settings}}`,
    env: { CONSOLE_OPERATOR_TOKEN: TOKEN },
    scheme: "https",
  },
  caddy: {
    page: "docs/console.md",
    replacements: (port, upstream) => [
      ["example.com {", `http://:${port} {`],
      ["127.0.0.1:8000", `127.0.0.1:${upstream}`],
    ],
    server: (settings) => `{\n}\n${settings}`,
    env: { CONSOLE_OPERATOR_TOKEN: TOKEN },
    scheme: "http",
  },
};

/** Headers by which a client claims to have come to another host, or another way. */
const CLAIMS = {
  "X-Forwarded-Host": "evil.example",
  "X-Forwarded-Proto": "gopher",
  "X-Forwarded-For": "203.0.113.9",
};

for (const name of ["nginx", "caddy"] as const) {
  const { scheme, ...shown } = SHOWN[name];

  testFront(name, "the console is reached below a prefix, and acts", async ({ port, app }) => {
    const base = `http://127.0.0.1:${port}/bots/triage/console/`;
    const Origin = `${scheme}://127.0.0.1:${port}`;
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
    const login = (await ask("login", { ...CLAIMS, Origin }, { token: TOKEN })).response;
    assertEquals([login.status, login.headers.get("Location")], [303, "./"]);
    const cookie = login.headers.get("Set-Cookie")!;
    const isSecure = cookie.startsWith("__Secure-") && cookie.endsWith("; Secure");
    assertEquals(isSecure, scheme === "https", cookie);
    assert(!/; path=/i.test(cookie), cookie);
    const session = { Cookie: cookie.split(";")[0]!, Origin };

    let id: string | undefined;
    await until(async () => {
      const { text } = await ask("deliveries?state=done", session);
      id = /href="delivery\?id=([^"]+)"/.exec(text)?.[1];
      return id !== undefined;
    }, 20_000);
    const question = await ask(`act?kind=purge&id=${id}`, session);
    const [, act] = /name="act" value="([^"]+)"/.exec(question.text) ?? [];
    const form = { kind: "purge", id: decodeURIComponent(id!), act: act! };
    const other = scheme === "https" ? "http" : "https";
    for (
      const each of [
        `${scheme}://127.0.0.1`,
        `${other}://127.0.0.1:${port}`,
        "http://evil.example",
        "https://evil.example",
        "gopher://evil.example",
      ]
    ) {
      const refused = await ask("act", { ...session, ...CLAIMS, Origin: each }, form);
      assertEquals(refused.response.status, 403, each);
    }
    const done = (await ask("act", { ...session, ...CLAIMS }, form)).response;
    assertEquals(done.status, 303);
    const { text } = await ask(done.headers.get("Location")!, session);
    assertStringIncludes(text, "The event was deleted");
    assertEquals((await ask(`delivery?id=${id}`, session)).response.status, 404);
    const { by } = await app.line(({ message }) => message === "console act");
    assertMatch(String(by), /^operator [0-9a-f]{4} from 127\.0\.0\.1$/);
  }, shown);

  testFront(name, "wrong tokens are counted by the address that the proxy sees", async (front) => {
    const { port } = front;
    const statuses: number[] = [];
    for (let i = 0; i < 12; i++) {
      const response = await fetch(`http://127.0.0.1:${port}/bots/triage/console/login`, {
        method: "POST",
        headers: { Origin: `${scheme}://127.0.0.1:${port}`, "X-Forwarded-For": `203.0.113.${i}` },
        body: new URLSearchParams({ token: "wrong" }),
      });
      await response.body?.cancel();
      statuses.push(response.status);
    }
    assertEquals(statuses, [...Array<number>(10).fill(403), 429, 429]);
  }, shown);
}
