/**
 * Measures how long pages of the console take with many stored events, without HTTP:
 * `deno run -A --unstable-kv dev/tools/console_pages.ts kv 100000`. The first argument is an engine (`kv`, `sqlite`,
 * `postgres`), the second one the number of events: half of them are done, and nearly all others dead of 20 problems, of
 * which one has most. It prints the median and the longest time of 11 requests for each page, in milliseconds.
 *
 * @module
 */
import { ConsoleData } from "../../console/_console_data.ts";
import type { EventStore, PortableEvent } from "../../events/mod.ts";
import { openBoard, VIEWER } from "../../tests/console/_board.ts";
import { event } from "../../tests/events/store/_moving.ts";
import { ENGINES } from "../../tests/events/store/engines/mod.ts";

/** Number of requests for each page. */
const REQUESTS = 11;

/** Number of events that are stored at the same time. */
const AT_ONCE = 500;

/** Id of the problem that most events have. */
const LARGE = "large";

const PAGES = [
  ...["/", "/deliveries", "/deliveries?state=dead", "/deliveries?state=queued"],
  ...[
    "/deliveries?state=done",
    "/deliveries?type=none",
    "/deliveries?q=none-has-this",
    "/problems",
  ],
  ...[`/problem?id=${LARGE}`, `/problem?id=${LARGE}&state=queued`, "/problem?id=p3"],
  "/problem?id=p3&state=queued",
];

const [name = "sqlite", count = "100000"] = Deno.args;

/** Makes an event. */
function eventOf(number: number, now: number): PortableEvent {
  const receivedAt = now - 86_400_000 + Math.floor(number * 86_400_000 / Number(count));
  const settledAt = receivedAt + 1_000;
  const times = { startedAt: receivedAt + 500, endedAt: settledAt };
  const about = {
    ...{ id: `github:${number.toString(16).padStart(8, "0")}-cc78`, receivedAt, attempt: 1 },
    ...{ intake: "github", action: "opened", deliveryId: `${number}`, description: `#${number}` },
    repository: { id: 7, fullName: "octo/hello", owner: "octo", name: "hello" },
  };
  const kind = number % 100;
  if (kind < 50) {
    const done = { state: "done", outcome: "handled", settledAt, dueAt: null };
    return event({ ...about, ...done }, null);
  }
  const failed = {
    attempts: [{ attempt: 1, outcome: "failed", error: "Error: no luck", ...times }],
    problem: kind < 85 || kind >= 98 ? LARGE : `p${number % 19}`,
  };
  const end = kind < 98
    ? { state: "dead", outcome: "failed", settledAt, dueAt: null }
    : { state: "queued", dueAt: now + 3_600_000 };
  return event({ ...about, ...failed, ...end });
}

async function fill(store: EventStore): Promise<void> {
  const now = Date.now();
  for (let from = 0; from < Number(count); from += AT_ONCE) {
    const numbers = Array.from({ length: AT_ONCE }, (_, i) => from + i);
    await Promise.all(numbers.map((number) => store.restore(eventOf(number, now))));
  }
}

async function measure(store: EventStore): Promise<void> {
  const data = new ConsoleData(store, () => {});
  await using board = await openBoard({ store, data });
  const headers = { Cookie: await board.login(VIEWER) };
  for (const page of PAGES) {
    const times: number[] = [];
    for (let i = 0; i < REQUESTS; i++) {
      const start = performance.now();
      await (await board.get(page, headers)).text();
      times.push(performance.now() - start);
    }
    times.sort((a, b) => a - b);
    const [median, longest] = [times[REQUESTS >> 1]!, times.at(-1)!];
    console.log(page.padEnd(34), median.toFixed(1).padStart(8), longest.toFixed(1).padStart(8));
  }
  await data.stop();
}

const engine = ENGINES.find((each) => each.name === name);
if (!engine) throw new TypeError(`Give an engine: ${ENGINES.map(({ name }) => name).join(", ")}`);
await using place = await engine.shared.open();
const store = await place.open({ log: () => {} });
await fill(store);
await measure(store);
