import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { forgeDelivery } from "../_deliveries.ts";
import { fuzzRuns } from "../_fuzz_runs.ts";
import { testWith } from "../_permissions.ts";
import { bytes, exchange2, type Field, request } from "./_http2.ts";
import { exchange, serveForge } from "./_served.ts";

/** A twentieth of what is sent in the process: 5,000 of 100,000. */
const RUNS = fuzzRuns(10_000) / 20;

/** A connection that waits for the rest of what is broken is given up on after this. */
const OPEN_MS = 60;

const STATUSES: ReadonlySet<unknown> = new Set([100, 200, 400, 401, 404, 405, 408, 413, 415]);

/** Damage to the bytes of a request, each at a point between its start and its end. */
const damage = fc.array(
  fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    take: fc.nat({ max: 12 }),
    put: fc.oneof(
      fc.constantFrom(
        "\r\n",
        "\n",
        "\r\n\r\n",
        ":",
        " ",
        "\0",
        ",",
        "0",
        "Host: x\r\n",
        "\x7f",
        "%",
      ),
      fc.constantFrom("Transfer-Encoding: chunked\r\n", "Content-Length: 7\r\n", "HTTP/1.0"),
      fc.uint8Array({ maxLength: 6 }).map((put) => String.fromCharCode(...put)),
    ),
  }),
  { minLength: 1, maxLength: 4 },
);

type Damage = { at: number; take: number; put: string }[];

function damaged(sent: string, damage: Damage): string {
  for (const { at, take, put } of damage) {
    const place = Math.floor(at * sent.length);
    sent = `${sent.slice(0, place)}${put}${sent.slice(place + take)}`;
  }
  return sent;
}

testWith(
  ["net"],
  `HTTP/1.1: ${RUNS} damaged deliveries break nothing, and none is forged`,
  async () => {
    await using forge = await serveForge({ bodyTimeoutMs: OPEN_MS / 2 });
    const { headers } = await forgeDelivery("{}", { "X-Forge-Delivery": "d1" });
    const lines = [...headers].map(([name, value]) => `${name}: ${value}\r\n`).join("");
    const whole = `POST /webhook HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${lines}` +
      "Content-Length: 2\r\n\r\n{}";
    const property = fc.asyncProperty(damage, async (damage) => {
      const { statuses } = await exchange(forge.port, damaged(whole, damage), OPEN_MS);
      for (const status of statuses) assert(STATUSES.has(status), String(status));
    });
    await fc.assert(property, { numRuns: RUNS });
    await assertUnharmed(forge);
  },
);

testWith(
  ["net"],
  `HTTP/2: ${RUNS} damaged deliveries break nothing, and none is forged`,
  async () => {
    await using forge = await serveForge({ bodyTimeoutMs: OPEN_MS / 2 });
    const { headers } = await forgeDelivery("{}", { "X-Forge-Delivery": "d1" });
    const head: Field[] = [
      ...[[":method", "POST"], [":scheme", "http"], [":authority", "localhost"]] as Field[],
      ...[[":path", "/webhook"]] as Field[],
      ...headers,
    ];
    const whole = String.fromCharCode(...request(1, head, "{}"));
    const property = fc.asyncProperty(damage, async (damage) => {
      const answers = await exchange2(forge.port, bytes(damaged(whole, damage)), 1, OPEN_MS);
      for (const answer of answers) {
        assert(typeof answer === "string" || STATUSES.has(answer), String(answer));
      }
    });
    await fc.assert(property, { numRuns: RUNS });
    await assertUnharmed(forge);
  },
);

/** Still there, without an error, and with nothing stored but what was signed. */
async function assertUnharmed(forge: Awaited<ReturnType<typeof serveForge>>): Promise<void> {
  assert(await forge.isHealthy());
  assertEquals(forge.records.filter(({ level }) => level === "error"), []);
  for (const body of await forge.bodies()) assertEquals(body, "{}");
}
