import { assertEquals } from "@std/assert";
import { Hono } from "@hono/hono";
import { clientIp, ipNetwork, type LoggerOptions } from "../../middleware/mod.ts";

/** Another end of a connection. */
const tcp = (hostname: string): Deno.Addr => ({ transport: "tcp", hostname, port: 50_000 });

const UNIX: Deno.Addr = { transport: "unix", path: "/run/app.sock" };

/** The address that is reported for a connection and an `X-Forwarded-For`. */
async function ipOf(
  remoteAddr?: Deno.Addr,
  forwarded?: string,
  options?: LoggerOptions,
): Promise<string | null> {
  const app = new Hono().get("/", (c) => c.json(clientIp(c, options) ?? null));
  const headers = forwarded === undefined ? {} : { "X-Forwarded-For": forwarded };
  const response = await app.request("/", { headers }, remoteAddr && { remoteAddr });
  return await response.json();
}

/** The address that is reported for this hostname of the socket. */
const socketIp = (hostname: string) => ipOf(tcp(hostname));

Deno.test("clientIp() counts trusted hops from the right", async () => {
  const forwarded = "198.51.100.1, 198.51.100.2,198.51.100.3";
  for (const trustedProxyHops of [1, 2, 3]) {
    const ip = await ipOf(tcp("192.0.2.1"), forwarded, { trustedProxyHops });
    assertEquals(ip, `198.51.100.${4 - trustedProxyHops}`);
  }
});

Deno.test("clientIp() falls back on the socket where the trusted hop names no address, or is missing", async () => {
  const cases = ["", " ", "unknown", "_hidden", "198.51.100.7,", "198.51.100.7, 999.1.1.1", "a:b"];
  for (const forwarded of [undefined, ...cases]) {
    const ip = await ipOf(tcp("192.0.2.1"), forwarded, { trustedProxyHops: 1 });
    assertEquals(ip, "192.0.2.1", forwarded);
  }
  const ip = await ipOf(tcp("192.0.2.1"), "198.51.100.7", { trustedProxyHops: 2 });
  assertEquals(ip, "192.0.2.1");
});

Deno.test("clientIp() looks at X-Forwarded-For only if a hop is trusted, whatever the connection is", async () => {
  for (const remoteAddr of [undefined, UNIX]) {
    for (const forwarded of [undefined, "unknown", "198.51.100.7", "198.51.100.7, 203.0.113.9"]) {
      assertEquals(await ipOf(remoteAddr, forwarded), null);
      assertEquals(await ipOf(tcp("192.0.2.1"), forwarded), "192.0.2.1");
    }
    assertEquals(await ipOf(remoteAddr, "198.51.100.7", { trustedProxyHops: 0 }), null);
    assertEquals(await ipOf(remoteAddr, "198.51.100.7", { trustedProxyHops: 1 }), "198.51.100.7");
  }
});

/** Addresses of sockets, by the address that is reported. */
const SPELLINGS: Readonly<Record<string, readonly string[]>> = {
  "192.0.2.1": [
    ...["192.0.2.1", "192.0.2.1:50000"],
    ...["::ffff:192.0.2.1", "::FFFF:c000:201", "0:0:0:0:0:ffff:192.0.2.1"],
  ],
  "2001:db8::1": [
    ...[
      "2001:db8::1",
      "2001:DB8::1",
      "2001:0db8:0:0:0:0:0:1",
      "[2001:db8::1]",
      "[2001:db8::1]:443",
    ],
    "2001:db8::1%eth0",
  ],
};

Deno.test("clientIp() is the address of the socket, spelled in one way and without a port", async () => {
  for (const [ip, spellings] of Object.entries(SPELLINGS)) {
    for (const spelling of spellings) assertEquals(await socketIp(spelling), ip, spelling);
  }
});

Deno.test("clientIp() takes nothing else for an address", async () => {
  const texts = [
    "",
    "localhost",
    "1.2.3",
    "1.2.3.4.5",
    "256.1.1.1",
    "01.2.3.4",
    "1.2.3.4:",
    "::1::",
  ];
  for (const text of [...texts, ":", "g::1", "1:2:3:4:5:6:7:8:9", "1.2.3.4\n", "f".repeat(9999)]) {
    assertEquals(await socketIp(text), null, text);
  }
});

Deno.test("ipNetwork() widens an IPv6 address to its /64, or to another length", () => {
  assertEquals(ipNetwork("2001:db8::1"), ipNetwork("2001:db8::ffff:ffff:ffff:ffff"));
  assertEquals(ipNetwork("2001:db8::1"), "2001:0db8:0000:0000::/64");
  const ips = ["2001:db8::1", "2001:db8:0:1::1", "::1", "1::", "fe80::1"];
  assertEquals(new Set(ips.map((ip) => ipNetwork(ip))).size, 5);
  assertEquals(ipNetwork("2001:db8:1:2:3:4:5:6", 16), "2001::/16");
  assertEquals(ipNetwork("2001:db8:1:2:3:4:5:6", 48), "2001:0db8:0001::/48");
  assertEquals(ipNetwork("192.0.2.1"), "192.0.2.1");
});

/** The address that is reported for bindings as another runtime's server makes them. */
async function ipWith(bindings: object, options?: LoggerOptions): Promise<string | null> {
  const app = new Hono().get("/", (c) => c.json(clientIp(c, options) ?? null));
  const headers = { "X-Forwarded-For": "198.51.100.7" };
  return await (await app.request("/", { headers }, bindings)).json();
}

Deno.test("clientIp() is the address of the socket under Node's server and Bun's", async () => {
  const node = { incoming: { socket: { remoteAddress: "::ffff:192.0.2.1" } }, outgoing: {} };
  assertEquals(await ipWith(node), "192.0.2.1");
  assertEquals(await ipWith(node, { trustedProxyHops: 1 }), "198.51.100.7");
  const bun = { requestIP: () => ({ address: "2001:db8::1", family: "IPv6", port: 50_000 }) };
  assertEquals(await ipWith(bun), "2001:db8::1");
  assertEquals(await ipWith({ requestIP: () => null }), null);
});
