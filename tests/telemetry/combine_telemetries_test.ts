import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { combineTelemetries, type Telemetry } from "../../telemetry/mod.ts";

const EVENT = { id: "a", platform: "forge", type: "push", attempt: 1, receivedAt: 1 };
const DELIVERY = { platform: "forge", bytes: 2 };

/** Telemetry that notes each call, and hands a trace on if it has one. */
function noting(name: string, calls: string[], traceparent?: string): Telemetry {
  const note = (call: string) => void calls.push(`${name} ${call}`);
  return {
    nameRequest: (method) => note(`request ${method}`),
    storing: (_, store) => {
      note("storing");
      return store(traceparent);
    },
    countDelivery: ({ outcome }) => note(outcome),
    countStep: ({ is }) => note(is),
    attempt: () => {
      note("attempt");
      return {
        run: (part) => {
          note("run");
          return part();
        },
        handlerEnded: () => note("ended"),
        settled: (outcome) => note(outcome),
      };
    },
    watchOldestDue: () => {
      note("watch");
      return () => note("unwatch");
    },
  };
}

/** Telemetry that throws wherever it can: before the part that it wraps, or after. */
function broken(when: "before" | "after"): Telemetry {
  const fail = (): never => {
    throw new Error("broken");
  };
  return {
    nameRequest: fail,
    storing: async (_, store) => {
      if (when === "after") await store("trace of the broken one");
      return fail();
    },
    countDelivery: fail,
    countStep: fail,
    attempt: () => ({
      run: (part) => {
        if (when === "after") part();
        return fail();
      },
      handlerEnded: fail,
      settled: fail,
    }),
    watchOldestDue: fail,
  };
}

/** Tells a telemetry everything. Returns how often the parts that it wraps have run. */
async function tellAll(telemetry: Telemetry): Promise<number> {
  let runs = 0;
  telemetry.nameRequest("POST", "/");
  assertEquals(await telemetry.storing(DELIVERY, () => Promise.resolve(++runs)), 1);
  telemetry.countDelivery({ platform: "forge", outcome: "accepted" });
  telemetry.countStep({ is: "emitted", source: "jobs", type: "job" });
  const attempt = telemetry.attempt(EVENT);
  assertEquals(attempt.run(() => ++runs), 2);
  attempt.handlerEnded();
  attempt.settled("handled");
  telemetry.watchOldestDue(() => Promise.resolve(null))();
  return runs;
}

const ALL = [
  ...["request POST", "storing", "accepted", "emitted", "attempt", "run", "ended", "handled"],
  ...["watch", "unwatch"],
];

Deno.test("combineTelemetries() tells both everything", async () => {
  const calls: string[] = [];
  await tellAll(combineTelemetries(noting("a", calls), noting("b", calls)));
  assertEquals(calls, ALL.flatMap((call) => [`a ${call}`, `b ${call}`]));
});

Deno.test("combineTelemetries() keeps what one throws from the other and from the app", async () => {
  for (const when of ["before", "after"] as const) {
    for (const isFirst of [true, false]) {
      const calls: string[] = [];
      const both = [broken(when), noting("a", calls)] as const;
      const telemetry = combineTelemetries(both[isFirst ? 0 : 1], both[isFirst ? 1 : 0]);
      assertEquals(await tellAll(telemetry), 2);
      assertEquals(calls, ALL.map((call) => `a ${call}`));
    }
  }
});

Deno.test("combineTelemetries() hands on what storing and handling throw", async () => {
  const telemetry = combineTelemetries(noting("a", []), noting("b", []));
  const failed = () => Promise.reject(new RangeError("full"));
  await assertRejects(() => telemetry.storing(DELIVERY, failed), RangeError, "full");
  const fail = () => {
    throw new RangeError("no");
  };
  assertThrows(() => telemetry.attempt(EVENT).run(fail), RangeError, "no");
});

Deno.test("combineTelemetries() hands on the trace of the one that has one", async () => {
  const trace = (telemetry: Telemetry) =>
    telemetry.storing(DELIVERY, (traceparent) => Promise.resolve(traceparent));
  const [none, a, b] = [noting("n", []), noting("a", [], "A"), noting("b", [], "B")];
  assertEquals(await trace(combineTelemetries(a, b)), "A");
  assertEquals(await trace(combineTelemetries(none, b)), "B");
  assertEquals(await trace(combineTelemetries(a, none)), "A");
});
