import { assert, assertEquals, assertGreater } from "@std/assert";
import fc from "fast-check";
import forge from "../../apps/forge.ts";
import messenger from "../../apps/messenger.ts";
import { formatLogLine } from "../../core/mod.ts";
import { type App, type LogRecord, openApp, type StoreDefinition } from "../../mod.ts";
import { foundIn } from "../_canaries.ts";
import { FORGE_SECRET, MESSENGER_SECRET } from "../_deliveries.ts";
import { fuzzRuns } from "../_fuzz_runs.ts";
import { byLength } from "../_length.ts";
import { envOf, LOCAL_STORES } from "../_stores.ts";
import { forgeRequest, type Fuzzed, messengerRequest } from "./_fuzz.ts";

/** 100,000 take a minute and a half: `deno task fuzz`. */
const RUNS = fuzzRuns(byLength(10_000, 1_000));

const SECRETS = { FORGE_SECRET, MESSENGER_SECRET };

/** Statuses that are documented, but for 408 and 503: here bodies arrive, and the store works. */
const STATUSES: ReadonlySet<number> = new Set([200, 400, 401, 403, 404, 405, 413, 415, 429]);

/** A line of the log: no line break, no control or format character, so none that reorders or hides text. */
const PRINTABLE = /^\{[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]*\}$/u;

/** Makes addresses, each a client of its own. */
function addresses(): () => Deno.Addr {
  let count = 0;
  return () => {
    count++;
    const hostname = `10.${count >> 16}.${(count >> 8) & 255}.${count & 255}`;
    return { transport: "tcp", hostname, port: 50_000 };
  };
}

async function assertDocumented(request: Request, response: Response): Promise<string> {
  const { status, headers } = response;
  const body = await response.text();
  assert(STATUSES.has(status), `${status} ${body}`);
  assertEquals(headers.get("X-Content-Type-Options"), "nosniff");
  assertEquals(headers.get("Cache-Control"), "no-store");
  if (status === 200 || request.method === "HEAD") return body;
  const { error, ...others } = JSON.parse(body);
  assert(typeof error === "string" && Object.keys(others).length === 0, body);
  assert(/^[A-Z_0-9]+$/.test(headers.get("X-Error-Code") ?? ""));
  assert(!/[/\\]|\bat\b|\d+\.\d+\.\d+/.test(body.replace("application/json", "")), body);
  return body;
}

/** An app that answers requests out of nowhere, and is app. */
async function watch(bot: App, store: StoreDefinition) {
  const written: string[] = [];
  const log = (record: LogRecord) => void written.push(formatLogLine(record));
  const app = await openApp(bot, { env: ENV, store, log });
  const next = addresses();
  const [verified, statuses] = [new Set<string>(), new Map<number, number>()];
  return {
    statuses,
    [Symbol.asyncDispose]: () => app.stop(),
    /** Sends a request, and judges how it is answered and what is written. */
    send: async ({ request, remoteAddr = next(), isVerified }: Fuzzed) => {
      const response = await app.fetch(request, { remoteAddr });
      const { status, headers } = response;
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      if (isVerified) verified.add(headers.get("X-Request-Id")!);
      for (const line of written) assert(PRINTABLE.test(line), JSON.stringify(line));
      written.push(await assertDocumented(request, response), JSON.stringify([...headers]));
      assertEquals(foundIn(written.splice(0).join("\n"), SECRETS), [], "a secret is shown");
      assert(
        isVerified || status !== 200 || request.method !== "POST",
        "taken without a signature",
      );
    },
    /** Counts the events, and judges whether each was verified. */
    count: async () => {
      let count = 0;
      for await (const event of app.store.list()) {
        assert(event.state !== "unreadable", "cannot be read");
        assert(verified.has(event.requestId ?? ""), "stored without a signature");
        count++;
      }
      return count;
    },
  };
}

const ENV = {
  FORGE_WEBHOOK_SECRET: FORGE_SECRET,
  MESSENGER_SECRET_TOKEN: MESSENGER_SECRET,
  MESSENGER_ALLOWED_USERS: "42",
  ...envOf(":memory:"),
};

const APPS = {
  "apps/forge.ts": { bot: forge, requests: forgeRequest },
  "apps/messenger.ts": { bot: messenger, requests: messengerRequest },
};

for (const [name, { bot, requests }] of Object.entries(APPS)) {
  for (const [engine, storeOf] of Object.entries(LOCAL_STORES)) {
    Deno.test(`${name} answers ${RUNS} requests out of nowhere as documented, and stores only what is verified [${engine}]`, async () => {
      await using app = await watch(bot, storeOf());
      await fc.assert(fc.asyncProperty(requests, app.send), { numRuns: RUNS });
      // Else it would not have come far enough to find anything.
      assertGreater(await app.count(), RUNS / 50);
      for (const status of [200, 400, 401, 404, 405, 413, 415]) {
        assertGreater(app.statuses.get(status) ?? 0, RUNS / 1_000, `${status} is hardly tried`);
      }
    });
  }
}
