import process from "node:process";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SharedTimer, sleep, Timeouts, withDeadline } from "../../core/timeouts.ts";
import { Simulation } from "../events/worker/_simulation.ts";

const SIXTY = Array.from({ length: 60 }, (_, i) => i);

Deno.test("Timeouts end in their order, each after its time, but for those that are cancelled", async () => {
  using simulation = new Simulation(1);
  const timeouts = new Timeouts(1_000);
  const ended: [number, number][] = [];
  const started: number[] = [];
  await simulation.run((async () => {
    for (const i of SIXTY) {
      started.push(performance.now());
      const timeout = timeouts.start(() => ended.push([i, performance.now() - started[i]!]));
      if (i % 3 === 0) timeout.cancel();
      if (i % 4 === 1) await pause(7 * simulation.random());
      if (i % 10 === 5) setTimeout(() => timeout.cancel(), 500);
    }
    await pause(3_000);
  })());
  const left = SIXTY.filter((i) => i % 3 !== 0 && i % 10 !== 5);
  assertEquals(ended.map(([i]) => i), left);
  assertEquals(ended.filter(([, ms]) => ms < 1_000 || ms > 1_002), []);
});

Deno.test("Timeouts leave no timer behind once all are cancelled", () => {
  const timeouts = new Timeouts(10_000);
  const started = SIXTY.map(() => timeouts.start(() => {}));
  for (const timeout of started) timeout.cancel();
  for (const timeout of started.toReversed()) timeout.cancel();
});

Deno.test("Timeouts of several lengths share a timer, and end each after its time", async () => {
  using simulation = new Simulation(2);
  const timer = new SharedTimer();
  const lists = [30, 1_000, 100].map((ms) => ({ ms, timeouts: new Timeouts(ms, timer) }));
  const ended: [number, number][] = [];
  const late: number[] = [];
  await simulation.run((async () => {
    for (const i of SIXTY) {
      const { ms, timeouts } = simulation.oneOf(lists);
      const start = performance.now();
      const timeout = timeouts.start(() => {
        ended.push([i, start + ms]);
        late.push(performance.now() - start - ms);
      });
      if (i % 3 === 0) setTimeout(() => timeout.cancel(), ms - 1);
      await pause(40 * simulation.random());
    }
    await pause(3_000);
  })());
  assertEquals(ended.map(([i]) => i).sort((a, b) => a - b), SIXTY.filter((i) => i % 3 !== 0));
  const ends = ended.map(([, end]) => end);
  assertEquals(ends, ends.toSorted((a, b) => a - b));
  assertEquals(late.filter((ms) => ms < 0 || ms > 2), []);
});

Deno.test("Timeouts set no timer anew while others wait", () => {
  const timer = new SharedTimer();
  const [short, long] = [new Timeouts(1_000, timer), new Timeouts(10_000, timer)];
  const { setTimeout } = globalThis;
  let timers = 0;
  globalThis.setTimeout = ((...args: Parameters<typeof setTimeout>) => {
    timers++;
    return setTimeout(...args);
  }) as typeof setTimeout;
  try {
    const held = long.start(() => {});
    for (let i = 0; i < 100; i++) short.start(() => {}).cancel();
    held.cancel();
  } finally {
    globalThis.setTimeout = setTimeout;
  }
  assertEquals(timers, 2);
});

Deno.test("Timeouts can be cancelled and started by a timeout", async () => {
  const timeouts = new Timeouts(5);
  const ended: string[] = [];
  const done = Promise.withResolvers<void>();
  timeouts.start(() => {
    ended.push("first");
    second.cancel();
    timeouts.start(() => {
      ended.push("third");
      done.resolve();
    });
  });
  await pause(1);
  const second = timeouts.start(() => ended.push("second"));
  await done.promise;
  assertEquals(ended, ["first", "third"]);
});

Deno.test("limit() gives what a promise comes to, or gives it up", async () => {
  const timeouts = new Timeouts(20);
  assertEquals(await timeouts.limit(Promise.resolve(1)), 1);
  await assertRejects(() => timeouts.limit(Promise.reject(new TypeError("no"))), TypeError, "no");
  const never = timeouts.limit(new Promise(() => {}));
  await assertRejects(() => never, Error, "No answer within 20 ms");
});

Deno.test("sleep() waits for a time, or until its signal is aborted", async () => {
  using simulation = new Simulation(1);
  await simulation.run((async () => {
    const { signal } = new AbortController();
    const start = performance.now();
    await sleep(1_000, signal);
    const tookMs = performance.now() - start;
    assert(tookMs >= 1_000 && tookMs < 60_000);
    const ending = new AbortController();
    const reason = new TypeError("Ctrl-C");
    setTimeout(() => ending.abort(reason), 10);
    await assertRejects(() => sleep(60_000, ending.signal), TypeError, "Ctrl-C");
    await assertRejects(() => sleep(1, ending.signal), TypeError, "Ctrl-C");
  })());
});

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

Deno.test("withDeadline() does not wait if the time is over, and has Deno warn of nothing", async () => {
  const warnings: string[] = [];
  const note = (warning: Error) => void warnings.push(warning.name);
  process.on("warning", note);
  const never = Promise.withResolvers<void>();
  await assertRejects(() => withDeadline(never.promise, -5), Error, "No answer within 0 ms");
  await pause(0); // warnings come a turn later
  process.off("warning", note);
  assertEquals(warnings, []);
});
