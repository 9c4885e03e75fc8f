import { assertEquals, assertNotEquals, assertRejects, assertThrows } from "@std/assert";
import { timingSafeEqual } from "@std/crypto/timing-safe-equal";
import { FakeTime } from "@std/testing/time";

// What the stand-ins refuse, as the originals do: these tests pass on both.

Deno.test("FakeTime calls all timers that are due before promises go on", async () => {
  using time = new FakeTime();
  const seen: string[] = [];
  setTimeout(async () => {
    seen.push("first");
    await Promise.resolve();
    seen.push("after the first");
  }, 1);
  setTimeout(() => seen.push("second"), 2);
  await time.tickAsync(2);
  assertEquals(seen.slice(0, 2), ["first", "second"]);
});

Deno.test("FakeTime does not wait for what its timers have started", async () => {
  using time = new FakeTime();
  let hops = 0;
  setTimeout(async () => {
    while (hops < 100) await Promise.resolve(hops++);
  }, 1);
  await time.tickAsync(1);
  assertEquals(hops < 100, true);
  await time.tickAsync();
  assertEquals(hops, 100);
});

Deno.test("FakeTime is installed once at a time", () => {
  using _time = new FakeTime();
  assertThrows(() => new FakeTime());
});

Deno.test("FakeTime calls timers in the order they are due, intervals again and again", () => {
  using time = new FakeTime(0);
  const seen: [string, number][] = [];
  const note = (name: string) => seen.push([name, Date.now()]);
  setTimeout(note, 25, "late");
  const interval = setInterval(note, 10, "interval");
  setTimeout(note, 10, "same");
  clearTimeout(setTimeout(note, 5, "cleared"));
  time.tick(20);
  clearInterval(interval);
  time.tick(20);
  const expected = [["interval", 10], ["same", 10], ["interval", 20], ["late", 25]];
  assertEquals(seen, expected as [string, number][]);
  assertEquals([time.now, new Date().getTime()], [40, 40]);
});

Deno.test("assertRejects() takes no function that throws at once, or returns no promise", async () => {
  const throwing = (): Promise<void> => {
    throw new TypeError("at once");
  };
  await assertRejects(() => assertRejects(throwing, TypeError));
  const returning = (() => undefined) as unknown as () => Promise<void>;
  await assertRejects(() => assertRejects(returning));
});

class Hidden {
  readonly #value: number;

  constructor(value: number) {
    this.#value = value;
  }

  get value(): number {
    return this.#value;
  }
}

const UNEQUAL: Record<string, readonly [unknown, unknown]> = {
  "what only getters tell apart": [new Hidden(1), new Hidden(2)],
  "errors of two places": [new Error("no"), new Error("no")],
  "a missing property and an undefined one": [{}, { a: undefined }],
  "a hole and undefined": [[, 1], [undefined, 1]],
  "other bytes": [Uint8Array.of(1), Uint8Array.of(2)],
  "bytes and an array": [Uint8Array.of(1), [1]],
  "maps of other values": [new Map([["a", 1]]), new Map([["a", 2]])],
  "sets of other values": [new Set([1]), new Set([2])],
  "other times": [new Date(1), new Date(2)],
};

for (const [name, [actual, expected]] of Object.entries(UNEQUAL)) {
  Deno.test(`assertEquals() fails for ${name}`, () => {
    assertThrows(() => assertEquals(actual, expected));
  });
}

const EQUAL: Record<string, readonly [unknown, unknown]> = {
  "0 and -0": [0, -0],
  "NaN and NaN": [NaN, NaN],
  "an object and one without a prototype": [{ a: 1 }, Object.assign(Object.create(null), { a: 1 })],
  "equal data": [
    { a: [1, { b: new Date(1) }], c: new Map([["d", new Set([2])]]), e: Uint8Array.of(3) },
    { e: Uint8Array.of(3), c: new Map([["d", new Set([2])]]), a: [1, { b: new Date(1) }] },
  ],
};

for (const [name, [actual, expected]] of Object.entries(EQUAL)) {
  Deno.test(`assertEquals() passes, and assertNotEquals() fails, for ${name}`, () => {
    assertEquals(actual, expected);
    assertThrows(() => assertNotEquals(actual, expected));
  });
}

Deno.test("timingSafeEqual() throws for buffers of different lengths", () => {
  assertThrows(() => timingSafeEqual(Uint8Array.of(1), Uint8Array.of(1, 2)), TypeError);
  assertEquals(timingSafeEqual(Uint8Array.of(1, 2), Uint8Array.of(1, 2)), true);
  assertEquals(timingSafeEqual(Uint8Array.of(1, 2), Uint8Array.of(1, 3)), false);
});
