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

Deno.test("clientIp() is the address of the socket", async () => {
  assertEquals(await socketIp("192.0.2.1"), "192.0.2.1");
  assertEquals(await socketIp("2001:db8::1"), "2001:db8::1");
});

Deno.test("clientIp() does not look at X-Forwarded-For by default", async () => {
  for (const forwarded of ["198.51.100.7", "198.51.100.7, 203.0.113.9"]) {
    assertEquals(await ipOf(tcp("192.0.2.1"), forwarded), "192.0.2.1");
    assertEquals(await ipOf(UNIX, forwarded), null);
  }
});

Deno.test("clientIp() counts trusted hops from the right", async () => {
  const forwarded = "198.51.100.1, 198.51.100.2,198.51.100.3";
  for (const trustedProxyHops of [1, 2, 3]) {
    const ip = await ipOf(tcp("192.0.2.1"), forwarded, { trustedProxyHops });
    assertEquals(ip, `198.51.100.${4 - trustedProxyHops}`);
  }
});

Deno.test("clientIp() takes the trusted hop's word behind a unix socket", async () => {
  assertEquals(await ipOf(UNIX, "198.51.100.7", { trustedProxyHops: 1 }), "198.51.100.7");
});

Deno.test("clientIp() falls back on the socket where the trusted hop names no address", async () => {
  const cases = ["", " ", "unknown", "_hidden", "198.51.100.7,", "198.51.100.7, 999.1.1.1", "a:b"];
  for (const forwarded of [undefined, ...cases]) {
    const ip = await ipOf(tcp("192.0.2.1"), forwarded, { trustedProxyHops: 1 });
    assertEquals(ip, "192.0.2.1", forwarded);
  }
});

Deno.test("clientIp() falls back on the socket where hops are missing", async () => {
  const ip = await ipOf(tcp("192.0.2.1"), "198.51.100.7", { trustedProxyHops: 2 });
  assertEquals(ip, "192.0.2.1");
});

Deno.test("clientIp() does not look at X-Forwarded-For where there is no connection either", async () => {
  assertEquals(await ipOf(undefined, "198.51.100.7"), null);
  assertEquals(await ipOf(undefined, "198.51.100.7", { trustedProxyHops: 0 }), null);
  assertEquals(await ipOf(undefined, "198.51.100.7", { trustedProxyHops: 1 }), "198.51.100.7");
});

Deno.test("clientIp() is undefined where there is no address", async () => {
  assertEquals(await ipOf(), null);
  assertEquals(await ipOf(undefined, "unknown"), null);
  assertEquals(await ipOf(UNIX), null);
});

Deno.test("clientIp() turns an IPv4-mapped address into IPv4", async () => {
  for (const ip of ["::ffff:192.0.2.1", "::FFFF:c000:201", "0:0:0:0:0:ffff:192.0.2.1"]) {
    assertEquals(await socketIp(ip), "192.0.2.1", ip);
  }
});

Deno.test("clientIp() spells an IPv6 address in one way", async () => {
  const spellings = ["2001:DB8::1", "2001:0db8:0:0:0:0:0:1", "[2001:db8::1]", "2001:db8::1%eth0"];
  for (const ip of [...spellings, "[2001:db8::1]:443"]) {
    assertEquals(await socketIp(ip), "2001:db8::1", ip);
  }
});

Deno.test("clientIp() leaves out the port that some proxies append", async () => {
  assertEquals(await socketIp("192.0.2.1:50000"), "192.0.2.1");
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

Deno.test("ipNetwork() widens an IPv6 address to its /64", () => {
  assertEquals(ipNetwork("2001:db8::1"), ipNetwork("2001:db8::ffff:ffff:ffff:ffff"));
  assertEquals(ipNetwork("2001:db8::1"), "2001:0db8:0000:0000::/64");
});

Deno.test("ipNetwork() tells networks apart", () => {
  const networks = ["2001:db8::1", "2001:db8:0:1::1", "::1", "1::", "fe80::1"].map((ip) =>
    ipNetwork(ip)
  );
  assertEquals(new Set(networks).size, 5);
});

Deno.test("ipNetwork() widens to other lengths", () => {
  assertEquals(ipNetwork("2001:db8:1:2:3:4:5:6", 16), "2001::/16");
  assertEquals(ipNetwork("2001:db8:1:2:3:4:5:6", 48), "2001:0db8:0001::/48");
  assertEquals(ipNetwork("2001:db8::6", 48), ipNetwork("2001:db8:0:9::7", 48));
});

Deno.test("ipNetwork() leaves an IPv4 address as it is", () => {
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
