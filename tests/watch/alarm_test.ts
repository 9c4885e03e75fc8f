import { assertEquals, assertMatch } from "@std/assert";
import type { LogRecord } from "../../core/mod.ts";
import { withDeadline } from "../../core/timeouts.ts";
import type { EventStore } from "../../events/mod.ts";
import { Alarm } from "../../watch/alarm.ts";
import type { Alert } from "../../watch/alert.ts";
import type { Health } from "../../watch/health.ts";
import { WallClock } from "../_wall_clock.ts";
import { testStoreOnce } from "../events/store/contract/_contract.ts";

const HEALTHY: Health = {
  ...{ at: 0, processes: [], isCut: false, oldestDue: null, activity: null },
  stillDead: { count: 0, isMore: false },
  problems: [],
};

/** Lists the notes in a store. */
function notesIn(store: EventStore) {
  return Array.fromAsync(store.alertNotes.list());
}

/** Alarms of several processes on one store, and what they have told. */
class Alarms {
  readonly told: (Alert & { readonly by: number })[] = [];
  readonly logs: LogRecord[] = [];
  health = HEALTHY;
  /** Error of whoever is told. */
  error: Error | undefined;
  readonly #store: EventStore;
  #count = 0;

  constructor(store: EventStore) {
    this.#store = store;
  }

  /** Starts a process. */
  start(): Alarm {
    const by = ++this.#count;
    return new Alarm({
      app: "bot",
      notes: this.#store.alertNotes,
      read: () => Promise.resolve({ ...this.health, at: Date.now() }),
      tell: (alert) => {
        if (this.error) throw this.error;
        this.told.push({ ...alert, by });
      },
      log: (record) => void this.logs.push(record),
    });
  }

  /** Makes an event that has been due for a while, or none. */
  due(ms: number | undefined): void {
    const oldestDue = ms === undefined
      ? null
      : { id: "github:1", at: Date.now() - ms, record: undefined };
    this.health = { ...HEALTHY, oldestDue };
  }

  /** Lists what was told, in a few words. */
  get words(): string[] {
    return this.told.map(({ key, state }) => `${key} ${state}`);
  }
}

testStoreOnce(
  "what is wrong is told once, with its end, by one of several processes",
  async ({ store }) => {
    using clock = new WallClock();
    const sut = new Alarms(store);
    const all = [sut.start(), sut.start(), sut.start()];
    const look = () => Promise.all(all.map((alarm) => alarm.look()));
    await look();
    assertEquals([sut.words, await notesIn(store)], [[], []]);
    sut.due(120_000);
    for (let i = 0; i < 3; i++) await look();
    assertEquals(sut.words, ["oldest_due begun"]);
    // As long as nothing changes, nothing is written.
    const before = await notesIn(store);
    await look();
    assertEquals(await notesIn(store), before);
    const { app, kind, text, since, endedAt } = sut.told[0]!;
    assertEquals([app, kind, endedAt], ["bot", "oldest_due", undefined]);
    assertMatch(text, /^An event has been due for 2 min, and nobody has taken it: github:1$/);
    assertEquals(Math.abs(Date.now() - 120_000 - since) < 5_000, true);
    // A process that is started anew does not tell it again.
    all.push(sut.start());
    await look();
    sut.due(undefined);
    await look();
    clock.advance(60_000);
    await look();
    // It is back before it was over.
    sut.due(120_000);
    await look();
    assertEquals(sut.words, ["oldest_due begun"]);
    sut.due(undefined);
    await look();
    clock.advance(95_000);
    for (let i = 0; i < 3; i++) await look();
    assertEquals(sut.words, ["oldest_due begun", "oldest_due ended"]);
    assertEquals(typeof sut.told[1]!.endedAt, "number");
    // It comes again.
    sut.due(120_000);
    await look();
    assertEquals(sut.words.slice(2), ["oldest_due begun"]);
    assertEquals(sut.logs, []);
  },
);

testStoreOnce(
  "what could not be told is told later, also by another process",
  async ({ store }) => {
    using clock = new WallClock();
    const sut = new Alarms(store);
    const first = sut.start();
    sut.error = new Error("Slack is down");
    sut.due(120_000);
    await first.look();
    await first.look();
    assertEquals(sut.logs.map(({ message, key, retryInMs }) => [message, key, retryInMs]), [
      ["alert not told, to be tried again", "oldest_due", 15_000],
    ]);
    await first.stop();
    sut.error = undefined;
    const second = sut.start();
    await second.look();
    assertEquals(sut.words, []);
    clock.advance(16_000);
    await second.look();
    assertEquals(sut.told.map(({ by, state }) => [by, state]), [[2, "begun"]]);
    // An end, as well.
    sut.due(undefined);
    await second.look();
    clock.advance(95_000);
    sut.error = new Error("Slack is down again");
    await second.look();
    sut.error = undefined;
    clock.advance(16_000);
    await second.look();
    assertEquals(sut.words, ["oldest_due begun", "oldest_due ended"]);
    assertEquals(await notesIn(store), []);
  },
);

testStoreOnce(
  "the end is told also if no process lives as long as that takes",
  async ({ store }) => {
    using clock = new WallClock();
    const sut = new Alarms(store);
    sut.due(120_000);
    await sut.start().look();
    sut.due(undefined);
    for (const ms of [0, 60_000, 20_000]) {
      clock.advance(ms);
      await sut.start().look();
      assertEquals(sut.words, ["oldest_due begun"]);
    }
    clock.advance(10_001);
    await sut.start().look();
    assertEquals(sut.words, ["oldest_due begun", "oldest_due ended"]);
    assertEquals(await notesIn(store), []);
  },
);

/** Makes an app in which platforms have refused deliveries. */
function refusing(...sources: readonly string[]): Health {
  const unverified = sources.map((source) => ({
    ...{ source, code: "INVALID_SIG", count: 3, since: 0 },
  }));
  const attempts = { attempts: 0, failed: 0 };
  const activity = { recent: attempts, before: attempts, lastFailedAt: null, dead: 0, unverified };
  return { ...HEALTHY, at: Date.now(), activity };
}

testStoreOnce(
  "whoever takes long to be told is told by one process all the same",
  async ({ store }) => {
    using clock = new WallClock();
    const told: string[] = [];
    const start = () =>
      new Alarm({
        ...{ app: "bot", notes: store.alertNotes, log: () => {} },
        read: () => Promise.resolve(refusing("a", "b", "c")),
        tell: async ({ key }) => {
          told.push(key);
          clock.advance(25_000);
          if (told.length === 3) await start().look();
        },
      });
    await start().look();
    clock.advance(15_000);
    await start().look();
    assertEquals(told, ["refused:a", "refused:b", "refused:c"]);
  },
);

testStoreOnce("an alarm that is stopped tells no more, and waits for nobody", async ({ store }) => {
  const told: string[] = [];
  const began = Promise.withResolvers<void>();
  const alarm = new Alarm({
    ...{ app: "bot", notes: store.alertNotes, log: () => {} },
    read: () => Promise.resolve(refusing("a", "b")),
    tell: ({ key }) => {
      told.push(key);
      began.resolve();
      return new Promise(() => {});
    },
  });
  const looking = alarm.look();
  await began.promise;
  await withDeadline(Promise.all([alarm.stop(), looking]), 5_000);
  assertEquals(told, ["refused:a"]);
});

testStoreOnce("of what is over before anybody was told nobody is told", async ({ store }) => {
  using clock = new WallClock();
  const sut = new Alarms(store);
  const alarm = sut.start();
  sut.error = new Error("no");
  sut.due(120_000);
  await alarm.look();
  sut.error = undefined;
  sut.due(undefined);
  clock.advance(16_000);
  for (let i = 0; i < 3; i++) await alarm.look();
  assertEquals([sut.words, await notesIn(store)], [[], []]);
});

testStoreOnce(
  "what a process was about to tell when it was killed is told by another",
  async ({ store }) => {
    using clock = new WallClock();
    const sut = new Alarms(store);
    const killed = new Alarm({
      ...{ app: "bot", notes: store.alertNotes, log: () => {} },
      read: () => Promise.resolve({ ...sut.health, at: Date.now() }),
      tell: () => new Promise(() => {}),
    });
    sut.due(120_000);
    killed.look();
    while ((await notesIn(store)).length === 0) {
      await new Promise((next) => setTimeout(next, 5));
    }
    const other = sut.start();
    await other.look();
    assertEquals(sut.words, []);
    clock.advance(61_000);
    await other.look();
    assertEquals(sut.words, ["oldest_due begun"]);
    await killed.stop();
  },
);

Deno.test("a note of another version is left alone, and nobody is told twice because of it", async () => {
  const writes: unknown[] = [];
  const told: Alert[] = [];
  const alarm = new Alarm({
    app: "bot",
    notes: {
      async *list() {
        yield* [{ key: "oldest_due", value: undefined, version: "1" }];
      },
      write: (...written) => (writes.push(written), Promise.resolve("2")),
      problems: () => Promise.resolve([]),
    },
    read: () =>
      Promise.resolve({ ...HEALTHY, at: 1e12, oldestDue: { id: "a", at: 0, record: undefined } }),
    tell: (alert) => void told.push(alert),
    log: () => {},
  });
  await alarm.look();
  assertEquals([writes, told], [[], []]);
});

testStoreOnce("clocks that differ tell nobody twice", async ({ store }) => {
  using clock = new WallClock();
  const told: string[] = [];
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
  const start = (by: string) =>
    new Alarm({
      ...{ app: "bot", notes: store.alertNotes, log: () => {} },
      read: () => Promise.resolve(refusing("a")),
      tell: async () => {
        told.push(by);
        if (by === "slow") await answered;
      },
    });
  const [slow, ahead] = [start("slow"), start("ahead")];
  const looking = slow.look();
  while (told.length === 0) await new Promise((next) => setTimeout(next, 5));
  // The other process has another time. It looks twice while the first one tells.
  clock.advance(600_000);
  await ahead.look();
  clock.advance(15_000);
  await ahead.look();
  assertEquals(told, ["slow"]);
  clock.advance(-615_000);
  answer();
  await looking;
  clock.advance(600_000);
  await ahead.look();
  assertEquals(told, ["slow"]);
});

testStoreOnce("a clock that is ahead ends nothing early", async ({ store }) => {
  using clock = new WallClock();
  const sut = new Alarms(store);
  const [right, ahead] = [sut.start(), sut.start()];
  sut.due(120_000);
  for (const each of [right, ahead]) await each.look();
  sut.due(undefined);
  await right.look();
  clock.advance(600_000);
  await ahead.look();
  clock.advance(-600_000);
  assertEquals(sut.words, ["oldest_due begun"]);
  clock.advance(95_000);
  await right.look();
  assertEquals(sut.words, ["oldest_due begun", "oldest_due ended"]);
});

testStoreOnce("while the counts are not read nothing that they tell is over", async ({ store }) => {
  using clock = new WallClock();
  const sut = new Alarms(store);
  const alarm = sut.start();
  sut.health = refusing("a");
  await alarm.look();
  const before = await notesIn(store);
  sut.health = HEALTHY;
  for (let i = 0; i < 3; i++) {
    await alarm.look();
    clock.advance(95_000);
  }
  assertEquals(await notesIn(store), before);
  sut.health = refusing();
  for (let i = 0; i < 2; i++) {
    await alarm.look();
    clock.advance(95_000);
  }
  assertEquals(sut.words, ["refused:a begun", "refused:a ended"]);
});

/** Notes that somebody was told of problems. */
async function noteProblems(store: EventStore, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, (_, i) => String(i).padStart(4, "0"));
  const about = { v: 1, kind: "problem", text: "A new error", since: 1, state: "begun", tries: 0 };
  for (const id of ids) await store.alertNotes.write(`problem:${id}`, about, null);
  return ids;
}

testStoreOnce("problems that somebody was told of are asked about by turns", async ({ store }) => {
  using clock = new WallClock();
  const ids = await noteProblems(store, 250);
  const asked: string[][] = [];
  const words: string[] = [];
  const alarm = new Alarm({
    ...{ app: "bot", notes: store.alertNotes, log: () => {} },
    read: (some) => {
      asked.push([...some]);
      return Promise.resolve({ ...HEALTHY, at: Date.now() });
    },
    tell: ({ key, state }) => void words.push(`${key} ${state}`),
  });
  for (let i = 0; i < 3; i++) await alarm.look();
  assertEquals(asked.map(({ length }) => length), [100, 100, 100]);
  assertEquals([...new Set(asked.flat())], ids);
  // The end of each is told all the same.
  for (let i = 0; i < 6; i++) {
    clock.advance(95_000);
    await alarm.look();
  }
  assertEquals(words.sort(), ids.map((id) => `problem:${id} ended`));
});

testStoreOnce(
  "of many problems only the number is told, however old they are",
  async ({ store }) => {
    await noteProblems(store, 999);
    const sut = new Alarms(store);
    const [one, two, three] = ["a", "b", "c"].map((id, i) => ({
      ...{ id, error: id, handler: "push", since: Date.now() + i, failed: 9 },
      ...{ isBack: false, isNew: true, hasDead: true },
    }));
    sut.health = { ...HEALTHY, problems: [one!, two!, three!] };
    await sut.start().look();
    assertEquals(sut.words, ["problem:a begun", "problems begun"]);
    assertEquals(sut.told[1]!.text, "2 more errors are new");
  },
);
