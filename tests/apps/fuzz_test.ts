import { assert, assertEquals, assertGreater } from "@std/assert";
import fc from "fast-check";
import { createForgeApp } from "../../apps/forge.ts";
import { createMessengerApp } from "../../apps/messenger.ts";
import { type EventStore, openEventStore } from "../../mod.ts";
import { FORGE_SECRET, MESSENGER_SECRET } from "../_deliveries.ts";
import { fuzzRuns } from "../_fuzz_runs.ts";
import { forgeRequest, type Fuzzed, messengerRequest } from "./_fuzz.ts";

/** 100,000 take a minute and a half: `deno task fuzz`. */
const RUNS = fuzzRuns(10_000);

/** What is documented to be answered, but for 408 and 503: here bodies arrive, and the store works. */
const STATUSES: ReadonlySet<number> = new Set([200, 400, 401, 403, 404, 405, 413, 415, 429]);

type Answer = (request: Request, remoteAddr: Deno.Addr | undefined) => Response | Promise<Response>;

const context = { ready: () => {}, trustedProxyHops: 0, log: () => {} };

/** Answers requests as `apps/forge.ts` does. */
function forge(kv: Deno.Kv, store: EventStore): Answer {
  const app = createForgeApp({ secrets: [FORGE_SECRET], tokens: [] }, { ...context, kv, store });
  return (request, remoteAddr) => app.fetch(request, { remoteAddr });
}

/** Answers requests as `apps/messenger.ts` does. */
function messenger(kv: Deno.Kv, store: EventStore): Answer {
  const app = createMessengerApp([MESSENGER_SECRET], { ...context, kv, store });
  return (request, remoteAddr) => app.fetch(request, { remoteAddr, MESSENGER_ALLOWED_USERS: "42" });
}

/** Makes addresses, each a client of its own. */
function addresses(): () => Deno.Addr {
  let count = 0;
  return () => {
    count++;
    const hostname = `10.${count >> 16}.${(count >> 8) & 255}.${count & 255}`;
    return { transport: "tcp", hostname, port: 50_000 };
  };
}

async function assertDocumented(request: Request, response: Response): Promise<void> {
  const { status, headers } = response;
  const body = await response.text();
  assert(STATUSES.has(status), `${status} ${body}`);
  assertEquals(headers.get("X-Content-Type-Options"), "nosniff");
  assertEquals(headers.get("Cache-Control"), "no-store");
  if (status === 200 || request.method === "HEAD") return;
  const { error, ...others } = JSON.parse(body);
  assert(typeof error === "string" && Object.keys(others).length === 0, body);
  assert(/^[A-Z_0-9]+$/.test(headers.get("X-Error-Code") ?? ""));
  assert(!/[/\\]|\bat\b|\d+\.\d+\.\d+/.test(body.replace("application/json", "")), body);
}

for (
  const [name, requests, create] of [
    ["apps/forge.ts", forgeRequest, forge],
    ["apps/messenger.ts", messengerRequest, messenger],
  ] as const
) {
  Deno.test(`${name} answers ${RUNS} requests out of nowhere as documented, and stores only what is proved`, async () => {
    using kv = await Deno.openKv(":memory:");
    const store = await openEventStore(kv);
    const [answer, next] = [create(kv, store), addresses()];
    const [proved, statuses] = [new Set<string>(), new Map<number, number>()];
    const property = fc.asyncProperty(requests as fc.Arbitrary<Fuzzed>, async (fuzzed) => {
      const { request, remoteAddr = next(), isProved } = fuzzed;
      const response = await answer(request, remoteAddr);
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
      if (isProved) proved.add(response.headers.get("X-Request-Id")!);
      await assertDocumented(request, response);
      const isTaken = response.status === 200 && request.method === "POST";
      assert(isProved || !isTaken, "taken without a proof");
    });
    await fc.assert(property, { numRuns: RUNS });
    /*X*/ console.log(statuses);
    let events = 0;
    for await (const event of store.list()) {
      events++;
      assert(
        event.state !== "unreadable" && proved.has(event.requestId ?? ""),
        "stored without a proof",
      );
    }
    // Else it would not have come far enough to find anything.
    assertGreater(events, RUNS / 50);
    for (const status of [200, 400, 401, 404, 405, 413, 415]) {
      assertGreater(statuses.get(status) ?? 0, RUNS / 1_000, `${status} is hardly tried`);
    }
  });
}
