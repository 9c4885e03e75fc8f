import { type ClientHttp2Session, connect } from "node:http2";
import { assertEquals, assertLess } from "@std/assert";
import { ON_DENO_2_5 } from "../_deno_version.ts";
import { FORGE_SECRET } from "../_deliveries.ts";
import { testWith, UNLESS_LINUX } from "../_permissions.ts";
import { APP_NEEDS, type RunningApp, spawnApp } from "./_app.ts";
import { memoryOf } from "./_memory.ts";

/** Most tries to find what logins cost. */
const TRIES = 3;

const TOKEN = "0f9e8d7c6b5a49382716f0e9d8c7b6a5";

const ENV = {
  FORGE_WEBHOOK_SECRET: FORGE_SECRET,
  KV_URL: ":memory:",
  CONSOLE_OPERATOR_TOKEN: TOKEN,
  TRUSTED_PROXY_HOPS: "1",
};

/** Headers of a login from an address of its own. */
const headersOf = (origin: string, i: number) => ({
  Origin: origin,
  "Content-Type": "application/x-www-form-urlencoded",
  "X-Forwarded-For": `198.51.${i >> 8}.${i & 255}`,
});

/** Begins logins over HTTP/1.1 of which one byte comes, and returns what ends them. */
async function begin1(origin: string, count: number): Promise<() => Promise<void>> {
  const { hostname, port } = new URL(origin);
  const peers: Deno.TcpConn[] = [];
  for (let i = 0; i < count; i++) {
    const peer = await Deno.connect({ hostname, port: Number(port) });
    peers.push(peer);
    const headers = {
      Host: `${hostname}:${port}`,
      "Content-Length": "999",
      ...headersOf(origin, i),
    };
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`).join("");
    const head = `POST /console/login HTTP/1.1\r\n${lines}\r\nt`;
    await peer.write(new TextEncoder().encode(head));
  }
  return () => Promise.resolve(peers.forEach((peer) => peer.close()));
}

/** Begins logins over HTTP/2 of which one byte comes, and returns what ends them. */
async function begin2(origin: string, count: number): Promise<() => Promise<void>> {
  const sessions: ClientHttp2Session[] = [];
  for (let i = 0; i < count;) {
    const session = connect(origin);
    session.on("error", () => {});
    sessions.push(session);
    await new Promise<void>((resolve) => session.once("connect", () => resolve()));
    for (const last = i + 100; i < last; i++) {
      const form = { ":method": "POST", ":path": "/console/login", ...headersOf(origin, i) };
      const stream = session.request(form);
      stream.on("error", () => {});
      stream.write("t");
    }
  }
  return async () => {
    const closed = sessions.map((session) =>
      new Promise<void>((resolve) => session.once("close", () => resolve()))
    );
    sessions.forEach((session) => session.destroy());
    await Promise.all(closed);
  };
}

/** Ways to begin logins, with the most memory that each may cost, in KiB: one of Deno's own buffers takes 64. */
const WAYS = { "HTTP/1.1": [begin1, 80], "HTTP/2": [begin2, 50] } as const;

for (const [name, [begin, kib]] of Object.entries(WAYS)) {
  const what = `logins of one byte over ${name} cost an app no buffer each, and keep nobody out`;
  // The client of Deno 2.5 leaves operations behind when a session over HTTP/2 ends.
  const missing = begin === begin2 && ON_DENO_2_5 ? "needs Deno 2.6" : UNLESS_LINUX;
  testWith(APP_NEEDS, what, async () => {
    const most = 1_500 * kib / 1_024 + 20;
    const costs: number[] = [];
    // A busy machine collects garbage late, which only adds: what it cannot do without is the least of some tries.
    while (costs.length < TRIES && !costs.some((cost) => cost < most)) {
      costs.push(await costOf(begin));
    }
    assertLess(Math.min(...costs), most);
  }, missing);
}

/** Finds what 1,500 logins of one byte cost an app, in MB, and that another one gets in beside them. */
async function costOf(begin: typeof begin1): Promise<number> {
  await using app: RunningApp = spawnApp("forge", ENV);
  const origin = await app.url;
  const { peak } = await memoryOf(app.process);
  const end = await begin(origin, 1_500);
  const login = await fetch(`${origin}/console/login`, {
    method: "POST",
    headers: headersOf(origin, 65_535),
    body: new URLSearchParams({ token: TOKEN }),
    redirect: "manual",
  });
  await login.body?.cancel();
  assertEquals(login.status, 303);
  const cost = (await memoryOf(app.process)).peak - peak;
  await end();
  return cost;
}
