/** Alerts of errors: which are told, and their ends. */
import { assertEquals, assertMatch } from "@std/assert";
import type { EventStore } from "../../events/mod.ts";
import { openAlarm, type OpenedAlarm } from "../../watch/alarm.ts";
import type { Alert } from "../../watch/alert.ts";
import { WallClock } from "../_wall_clock.ts";
import { claimOne, delivery } from "../events/store/_events.ts";
import { testAging, testStoreOnce } from "../events/store/contract/_contract.ts";

const HOUR = 3_600_000;

/** Has events die by an error. */
async function bury(store: EventStore, error: string, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    await store.accept(delivery(`${error} ${i}`));
    await store.bury(await claimOne(store), new Error(error));
  }
}

/** Names an error without a digit, since errors that differ by numbers are the same. */
function nameOf(i: number): string {
  return `no ${"ghijklmnop"[Math.floor(i / 10)]}${"ghijklmnop"[i % 10]}`;
}

/** Alarm of a process on a store, and what it has told of problems. */
class ProblemAlarm implements AsyncDisposable {
  readonly told: Alert[] = [];
  readonly #alarm: OpenedAlarm;

  constructor(store: EventStore) {
    this.#alarm = openAlarm("bot", store, () => {}, (alert) => void this.told.push(alert));
  }

  look(): Promise<void> {
    return this.#alarm.look();
  }

  /** Lists what was told: the errors, or what else. */
  get words(): string[] {
    return this.told.map(({ text, state }) => `${text.split(": ").at(-1)} ${state}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#alarm.stop();
  }
}

testAging("an error that is new is told however many others have more events", async (sut) => {
  const { store, place } = sut as unknown as { store: EventStore; place: typeof sut.place };
  for (let i = 0; i < 55; i++) await bury(store, nameOf(i), 2);
  await place.pass(2 * HOUR);
  await using alarm = new ProblemAlarm(store);
  await alarm.look();
  assertEquals(alarm.words, []);
  await bury(store, "no luck", 1);
  await alarm.look();
  assertEquals(alarm.words, ["no luck begun"]);
  assertMatch(alarm.told[0]!.text, /^A new error of push: Error: no luck$/);
  // It is not over as long as its event is there.
  using clock = new WallClock();
  await place.pass(2 * HOUR);
  for (let i = 0; i < 4; i++) {
    clock.advance(95_000);
    await alarm.look();
  }
  assertEquals(alarm.words, ["no luck begun"]);
  await store.purge({ ids: ["no luck 0"] });
  for (let i = 0; i < 2; i++) {
    await alarm.look();
    clock.advance(95_000);
  }
  assertEquals(alarm.words, ["no luck begun", "no luck ended"]);
});

testStoreOnce("of too many new errors only the number is told", async ({ store }) => {
  for (let i = 0; i < 53; i++) await bury(store, nameOf(i), 1);
  await using alarm = new ProblemAlarm(store);
  for (let i = 0; i < 3; i++) await alarm.look();
  assertEquals(alarm.words.length, 51);
  assertEquals(alarm.words.slice(-1), ["3 more errors are new begun"]);
  assertEquals(new Set(alarm.words).size, 51);
});
