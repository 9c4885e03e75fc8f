/** Bodies: too large, too slow, cut off, or not what they ought to be. See `_rows.ts`. */
import { memoryOf } from "../apps/_memory.ts";
import { UNLESS_LINUX } from "../_permissions.ts";
import { forgeDelivery } from "../_deliveries.ts";
import { connect, FORGED, pour, statusOf } from "../apps/_raw.ts";
import { exchange } from "../webhook/_served.ts";
import { running, statuses, testRow } from "./_rows.ts";
import { pause } from "../../dev/harness/until.ts";
import type { Start } from "./_subject.ts";

const MIB = 1024 * 1024;

const [[NAME, VALUE]] = Object.entries(FORGED) as [[string, string]];
const HEAD = `POST /webhook HTTP/1.1\r\nHost: localhost\r\n${NAME}: ${VALUE}\r\n`;

testRow({
  what: "a body that is declared too large is answered 413 before it comes",
  probe: running(async ({ port }) =>
    (await exchange(port, `${HEAD}Content-Length: ${400 * MIB}\r\n\r\n{`)).statuses
  ),
  wanted: [413],
  baseline: [],
});

/** Sends a body of 200 MiB in chunks; tells the status and by how many MiB the process has grown. */
const inChunks = running(async (subject) => {
  const { peak } = await memoryOf(subject.process);
  const chunked = { ...FORGED, "Transfer-Encoding": "chunked" };
  using peer = await connect(subject, chunked);
  const status = statusOf(peer);
  const chunk = new TextEncoder().encode(`100000\r\n${"x".repeat(MIB)}\r\n`);
  await pour(peer, chunk, 200);
  await pour(peer, new TextEncoder().encode("0\r\n\r\n"), 1);
  const grown = async () => (await memoryOf(subject.process)).peak - peak;
  return [
    await status,
    await grown() < 25 + 32 ? "within the limit and 32 MiB" : "without a bound",
  ];
});

if (UNLESS_LINUX === undefined) {
  testRow({
    what: "a body in chunks costs no more than the limit",
    probe: inChunks,
    wanted: [413, "within the limit and 32 MiB"],
    baseline: [401, "without a bound"],
  });
}

testRow({
  what: "a body that does not come in time is answered 408",
  probe: async (start: Start) => {
    await using subject = await start({ intake: { bodyTimeoutMs: 200 } });
    return (await exchange(subject!.port, `${HEAD}Content-Length: 9\r\n\r\n{`, 2_000)).statuses;
  },
  wanted: [408],
  baseline: [],
});

testRow({
  what: "clients that are gone in mid-body leave no error in the log",
  probe: running(async ({ url, output, send }) => {
    for (let i = 0; i < 20; i++) {
      using _ = await connect({ url }, { ...FORGED, "Content-Length": "9" });
      await pause(10);
    }
    await pause(200);
    const answer = await send({}, "/health");
    const failed = output.some((line) => /\bat |Error|"level":"error"/.test(line));
    return [answer?.status, failed ? "errors" : "no error"];
  }),
  wanted: [200, "no error"],
  baseline: [200, "errors"],
});

testRow({
  what: "a genuine body that is no JSON object is answered 400",
  probe: statuses([
    ...["", "no JSON", "null", "7", "[]", `{"a":`.repeat(5_000) + "1" + "}".repeat(5_000)]
      .map((body) => () => forgeDelivery(body)),
    () => forgeDelivery("{}"),
  ]),
  wanted: [400, 400, 400, 400, 400, 400, 200],
  baseline: [500, 500, 200, 200, 200, 500, 200],
});

const SIZES: readonly string[] = [
  "x".repeat(65_400),
  "x".repeat(65_536),
  `${"x".repeat(33_000)}\u{1f600}`,
  "x".repeat(70_000),
  "x".repeat(1_000_000),
  "x".repeat(25 * MIB - `{"text":""}`.length),
];

testRow({
  what: "a delivery of any size up to 25 MiB is taken",
  probe: statuses(SIZES.map((text) => () => forgeDelivery(JSON.stringify({ text })))),
  wanted: [200, 200, 200, 200, 200, 200],
  baseline: [200, 500, 500, 500, 500, 500],
});
