/** Store and process: what is taken is kept, and handled once and within bounds. See `_rows.ts`. */
import { DatabaseSync } from "node:sqlite";
import { forgeDelivery } from "../_deliveries.ts";
import { statusOf } from "../apps/_raw.ts";
import { denokvPath, startDenokv } from "../events/store/kv/_denokv.ts";
import { inFile, task, testRow } from "./_rows.ts";
import { pause } from "../../dev/harness/until.ts";

testRow({
  what: "an event whose process was killed is taken over within a lease and a second",
  probe: inFile({ worker: { leaseMs: 2_000 } }, async (first, again) => {
    const second = await again();
    await first.send(task("a", 60_000));
    while ([...first.starts(), ...second.starts()].length === 0) await pause(10);
    const [busy, idle] = first.starts().length > 0 ? [first, second] : [second, first];
    busy.process.kill("SIGKILL");
    await busy.ended;
    const end = performance.now() + 5_000;
    while (idle.starts().length === 0 && performance.now() < end) await pause(10);
    return idle.starts();
  }),
  wanted: ["a"],
  baseline: [],
});

testRow({
  what: "60 events at once are handled 10 at a time",
  probe: inFile({}, async (subject) => {
    const send = async (_: unknown, i: number) => await subject.send(task(`${i}`, 60_000));
    await Promise.all(Array.from({ length: 60 }, send));
    return (await subject.settled(10)).length;
  }),
  wanted: 10,
  baseline: 60,
});

testRow({
  what: "a delivery that cannot be stored is answered 503 with Retry-After",
  probe: inFile({}, async (subject, _, path) => {
    const other = new DatabaseSync(path, { timeout: 5_000 });
    other.exec("BEGIN IMMEDIATE");
    const answer = await subject.send(task("a", 0));
    other.exec("ROLLBACK");
    other.close();
    const retry = answer?.headers.has("Retry-After") ? "to be sent again" : "without a hint";
    return [answer?.status, retry];
  }),
  wanted: [503, "to be sent again"],
  baseline: [500, "without a hint"],
});

const END = new TextEncoder().encode("}");

testRow({
  what: "an upload that is still arriving is answered when the app is told to end",
  probe: inFile({}, async ({ port, process, ended }) => {
    const { headers } = forgeDelivery("{}");
    const head = [...headers].map(([name, value]) => `${name}: ${value}\r\n`).join("");
    using peer = await Deno.connect({ hostname: "127.0.0.1", port });
    const text = `POST /webhook HTTP/1.1\r\nHost: x\r\n${head}Content-Length: 2\r\n\r\n{`;
    await peer.write(new TextEncoder().encode(text));
    await pause(200);
    process.kill("SIGTERM");
    await pause(200);
    await peer.write(END).catch(() => {});
    const status = await statusOf(peer);
    await ended;
    const { code, signal } = await process.status;
    return [status, code, signal];
  }),
  wanted: [200, 0, null],
  baseline: [undefined, 143, "SIGTERM"],
});

if (denokvPath() !== undefined) {
  testRow({
    what: "events are handled from a KV without queues",
    probe: async (start) => {
      await using server = await startDenokv();
      await using subject = await start({ env: { KV_URL: server.url } });
      const answer = await subject!.send(task("a", 0));
      return [answer?.status, await subject!.settled(answer?.status === 200 ? 1 : 0)];
    },
    wanted: [200, ["a"]],
    baseline: [500, []],
  });
}
