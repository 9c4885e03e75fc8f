import { assertEquals, assertLess } from "@std/assert";
import { runDeno } from "../../dev/harness/run.ts";
import { ON_DENO_2_5 } from "../_deno_version.ts";
import { forgeDelivery } from "../_deliveries.ts";
import { until } from "../../dev/harness/until.ts";
import { exchange } from "../webhook/_served.ts";
import { DEADLINE_MS, type Front, testFront } from "./_front.ts";

const FRONTS = ["nginx", "caddy"] as const;

const MIB = 1024 * 1024;
const HOST = "Host: localhost\r\n";

/** The headers of a genuine delivery of `{}`. */
function signed(): string {
  const { headers } = forgeDelivery("{}");
  return [...headers].map(([name, value]) => `${name}: ${value}\r\n`).join("");
}

/** A genuine delivery as text: the header that describes its body, and the body. */
function post(framing: string, body: string, target = "/webhook", host = HOST) {
  const headers = `${host}Connection: close\r\n${signed()}${framing}`;
  return `POST ${target} HTTP/1.1\r\n${headers}\r\n${body}`;
}

/** The requests that have reached the app, once one of the test's own has. */
async function reached({ app }: Front): Promise<string[]> {
  const mark = `/mark-${crypto.randomUUID()}`;
  await (await fetch(`${await app.url}${mark}`)).body?.cancel();
  await app.line(({ path }) => path === mark);
  return app.lines.filter(({ message, path }) =>
    message === "request" && !String(path).startsWith("/mark-")
  ).map(({ method, path }) => `${method} ${path}`);
}

/** Sends a delivery from another address of this machine, and returns the status. */
async function deliverFrom(localAddress: string, port: number, forwarded: string) {
  const { headers, body } = forgeDelivery("{}", { "X-Forwarded-For": forwarded });
  const options = { host: "127.0.0.1", port, localAddress, path: "/webhook", method: "POST" };
  const script = new URL("./_send_from.ts", import.meta.url).href;
  const sent = JSON.stringify({ ...options, headers: Object.fromEntries(headers) });
  // The tests may connect to 127.0.0.1, and be nobody else.
  const args = ["run", "--cached-only", "--quiet", "-A", script, sent, String(body)];
  return Number((await runDeno(args)).stdout);
}

// The sender is a process of Deno, and that of 2.5 cannot choose its own address.
for (const name of ON_DENO_2_5 ? [] : FRONTS) {
  testFront(name, "the app knows a client's address, whatever the client says", async (front) => {
    assertEquals(await deliverFrom("127.0.0.7", front.port, "203.0.113.9"), 200);
    const { ip } = await front.app.line(({ message }) => message === "request");
    assertEquals(ip, "127.0.0.7");
  });
}

/** A second request, hidden in the first one's body. */
const HIDDEN = `GET /health HTTP/1.1\r\n${HOST}Connection: close\r\n\r\n`;

const CHUNKED = "Transfer-Encoding: chunked\r\n";

/**
 * Requests that front and back could read in two ways; how nginx answers, and Caddy; 401 is the
 * app's.
 */
const SHAPES: readonly (readonly [
  what: string,
  sent: () => string,
  statuses: Readonly<Record<typeof FRONTS[number], number>>,
])[] = [
  [
    "a length and chunks",
    () => post(`Content-Length: 5\r\n${CHUNKED}`, `0\r\n\r\n${HIDDEN}`),
    { nginx: 400, caddy: 401 },
  ],
  [
    "chunks and a length",
    () => post(`${CHUNKED}Content-Length: 5\r\n`, `0\r\n\r\n${HIDDEN}`),
    { nginx: 400, caddy: 401 },
  ],
  [
    "chunks and another coding after",
    () => post(`${CHUNKED}Transfer-Encoding: x\r\n`, `0\r\n\r\n${HIDDEN}`),
    { nginx: 400, caddy: 501 },
  ],
  [
    "another coding before chunks",
    () => post("Transfer-Encoding: x, chunked\r\n", `2\r\n{}\r\n0\r\n\r\n${HIDDEN}`),
    { nginx: 501, caddy: 501 },
  ],
  [
    "a space before the colon",
    () => post("Transfer-Encoding : chunked\r\n", `0\r\n\r\n${HIDDEN}`),
    { nginx: 400, caddy: 400 },
  ],
  [
    "a line feed in a chunk extension",
    () => post(CHUNKED, `2;a\nb\r\n{}\r\n0\r\n\r\n${HIDDEN}`),
    { nginx: 400, caddy: 502 },
  ],
  [
    "two lengths",
    () => post("Content-Length: 2\r\nContent-Length: 3\r\n", `{}${HIDDEN}`),
    { nginx: 400, caddy: 400 },
  ],
  [
    "two equal lengths",
    () => post("Content-Length: 2\r\nContent-Length: 2\r\n", `{}${HIDDEN}`),
    { nginx: 400, caddy: 200 },
  ],
  [
    "bare line feeds",
    () => post("Content-Length: 2\r\n", "{}").replaceAll("\r\n", "\n") + HIDDEN,
    { nginx: 200, caddy: 200 },
  ],
  [
    "a target with a host in it",
    () => post("Content-Length: 2\r\n", `{}${HIDDEN}`, "http://example.com/webhook"),
    { nginx: 200, caddy: 200 },
  ],
  [
    "no host",
    () => post("Content-Length: 2\r\n", `{}${HIDDEN}`, "/webhook", ""),
    { nginx: 400, caddy: 400 },
  ],
  [
    "a host that brings a path",
    () => post("Content-Length: 2\r\n", `{}${HIDDEN}`, "/public", "Host: x/webhook?\r\n"),
    { nginx: 400, caddy: 400 },
  ],
  ...["256.256.256.256", "1.2.3.4.5", "a:99999", "xn--"].map((host) =>
    [
      `a host that no URL can have, ${host}`,
      () => post("Content-Length: 2\r\n", "{}", "/webhook?token=%20", `Host: ${host}\r\n`),
      // nginx takes a port that is none off.
      { nginx: host === "a:99999" ? 200 : 400, caddy: 400 },
    ] as const
  ),
  [
    "a control character in a value",
    () => post("X: a\x01b\r\nContent-Length: 2\r\n", "{}"),
    { nginx: 400, caddy: 400 },
  ],
];

for (const name of FRONTS) {
  testFront(name, "each request reaches the app in one reading, or not at all", async (front) => {
    const seen: [string, number | undefined][] = [];
    for (const [what, sent] of SHAPES) {
      seen.push([what, (await exchange(front.port, sent())).statuses.at(-1)]);
    }
    assertEquals(seen, SHAPES.map(([what, , statuses]) => [what, statuses[name]]));
    const requests = await reached(front);
    assertEquals(requests.filter((each) => each !== "POST /webhook"), []);
    assertLess(requests.length, SHAPES.length);
  });

  testFront(name, "nothing but the webhook reaches the app", async (front) => {
    for (const path of ["/", "/health", "/health/ready", "/webhook/x", "/index.html"]) {
      const response = await fetch(`http://127.0.0.1:${front.port}${path}`);
      await response.body?.cancel();
      assertEquals(response.status, 404, path);
    }
    assertEquals(await reached(front), []);
  });

  testFront(name, "a head that is too large does not reach the app", async (front) => {
    const fields = Array.from({ length: 60 }, (_, i) => `X-${i}: ${"x".repeat(1_000)}\r\n`);
    for (const head of [`X: ${"x".repeat(65 * 1024)}\r\n`, fields.join("")]) {
      const sent = post(`${head}Content-Length: 2\r\n`, "{}");
      const { statuses, ended } = await exchange(front.port, sent);
      assertEquals([statuses, ended], [[name === "nginx" ? 400 : 431], "closed"]);
    }
    assertEquals(await reached(front), []);
  });

  testFront(name, "a head that comes slowly is ended at the deadline", async ({ port, app }) => {
    using peer = await Deno.connect({ hostname: "127.0.0.1", port });
    const ended = peer.read(new Uint8Array(1_024)).catch(() => null).then(() => "ended");
    const dripping = drip(peer, "POST /webhook HTTP/1.1\r\nX: ").then(() => "took all of it");
    assertEquals(await Promise.race([ended, dripping]), "ended");
    await dripping;
    assertEquals(app.count("request"), 0);
  });

  testFront(name, "the largest delivery is taken, and a larger one is not", async (front) => {
    const url = `http://127.0.0.1:${front.port}/webhook`;
    const statuses: number[] = [];
    for (const size of [25 * MIB, 25 * MIB + 1]) {
      const body = JSON.stringify({ text: "x".repeat(size - `{"text":""}`.length) });
      const response = await fetch(url, forgeDelivery(body));
      await response.body?.cancel();
      statuses.push(response.status);
    }
    // The proxy may find the connection closed before it finds the answer.
    const cutOff = name === "caddy" && ON_DENO_2_5 && statuses[1] === 502;
    assertEquals(statuses, [200, cutOff ? 502 : 413]);
    // nginx itself refuses it, by its declared size.
    await reached(front);
    const answered = front.app.lines.filter(({ path }) => path === "/webhook");
    assertEquals(answered.map(({ status }) => status), name === "nginx" ? [200] : [200, 413]);
  });
}

testFront("nginx", "a body that comes slowly does not reach the app", async (front) => {
  using peer = await Deno.connect({ hostname: "127.0.0.1", port: front.port });
  const ended = peer.read(new Uint8Array(1_024)).catch(() => null);
  await peer.write(new TextEncoder().encode(post("Content-Length: 100\r\n", "{")));
  await drip(peer, "x".repeat(10));
  assertEquals(await ended, null);
  assertEquals(await reached(front), []);
});

testFront("nginx", "an address has no more than 50 requests at once", async ({ port }) => {
  const half = new TextEncoder().encode(post("Content-Length: 100\r\n", "{"));
  const peers: Deno.TcpConn[] = [];
  const upload = async () => {
    peers.push(await Deno.connect({ hostname: "127.0.0.1", port }));
    await peers.at(-1)!.write(half);
  };
  const status = async () =>
    (await exchange(port, post("Content-Length: 2\r\n", "{}"))).statuses[0];
  for (let i = 0; i < 49; i++) await upload();
  assertEquals(await status(), 200);
  await upload();
  await until(async () => await status() === 503, DEADLINE_MS / 2);
  for (const peer of peers) peer.close();
});

testFront("caddy", "a body that comes slowly is answered by the app's deadline", async (front) => {
  const half = post("Content-Length: 100\r\n", "{");
  const { statuses, ended } = await exchange(front.port, half, 12_000);
  assertEquals([statuses, ended], [[408], "closed"]);
  assertEquals(await reached(front), ["POST /webhook"]);
});

/** Writes a text a character at a time, until the peer has had enough. */
async function drip(peer: Deno.TcpConn, text: string): Promise<void> {
  for (const character of text) {
    await new Promise((resolve) => setTimeout(resolve, DEADLINE_MS / 5));
    try {
      await peer.write(new TextEncoder().encode(character));
    } catch {
      return;
    }
  }
}
