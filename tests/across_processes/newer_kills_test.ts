/** Runs of handlers that hear of newer events, in processes that are killed at any moment. */
import { assertEquals } from "@std/assert";
import { pause, until } from "../../dev/harness/until.ts";
import type { Delivery, EventStore } from "../../events/mod.ts";
import { delivery } from "../events/store/_events.ts";
import { byLength } from "../_length.ts";
import { untilSettled } from "./_kills.ts";
import { testShared } from "./_shared.ts";
import { LEASE_MS } from "./_step_calls.ts";
import { type Answer, Herd } from "./_step_service.ts";

/** Number of runs that are killed in the midst, at least. */
const KILLED = byLength(1_000, 20);

/** Number of runs that a process has when it is killed, at least: two share those of all chats. */
const AT_ONCE = 10;

/** Number of chats: half of them interrupt, the others steer. */
const CHATS = 60;

/** Time between two messages, in milliseconds. */
const MESSAGE_MS = 20;

/** A message of a chat. */
function message(id: string): Delivery {
  const chat = Math.floor(Math.random() * CHATS);
  const newer = chat % 2 === 0 ? "interrupt" : "steer";
  const text = JSON.stringify({ newer });
  const rule = newer === "interrupt"
    ? { newer, interrupt: { steps: chat % 4 === 0 ? "keep" : "drop" }, maxInterrupts: 3 } as const
    : { newer } as const;
  return { ...delivery(id, text, `chat${chat}`), ...rule, payload: JSON.parse(text) };
}

/** Sends messages until the signal says so, and returns their ids. */
async function send(store: EventStore, signal: AbortSignal): Promise<string[]> {
  const ids: string[] = [];
  while (!signal.aborted) {
    const id = `m${ids.length}`;
    await store.accept(message(id));
    ids.push(id);
    await pause(MESSAGE_MS);
  }
  return ids;
}

testShared(
  `each message is part of one run that was settled, though ${KILLED} runs are killed`,
  async ({ at, place }) => {
    const store = await place.open({ log: () => {} });
    const ending = new AbortController();
    const options = { at, leaseMs: LEASE_MS, steps: 0 };
    const running = new Map<number, number>();
    const report: Answer = (_path, asked) => void running.set(asked.pid, asked.running as number);
    await using herd = new Herd(options, report, "./_newer_worker.ts");
    const sending = send(store, ending.signal);
    sending.catch(() => {});
    try {
      for (let killed = 0; killed < KILLED;) {
        const [pid] = herd.running;
        await until(() => (running.get(pid!) ?? 0) >= AT_ONCE, 60_000);
        await pause(Math.random() * 300);
        killed += running.get(pid!)!;
        await herd.kill(pid!);
      }
    } finally {
      ending.abort();
    }
    const ids = await sending;
    await untilSettled(store);
    const settled = await place.effects.all("settled");
    assertEquals(settled, new Map(ids.map((id) => [id, 1])));
  },
);
