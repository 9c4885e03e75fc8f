import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { HttpError } from "../../middleware/mod.ts";
import { BodyBudget } from "../../webhook/body_budget.ts";

import { Timeouts } from "../../core/timeouts.ts";
import { readBodyWithin } from "../../webhook/read_body.ts";
import { openEventStore } from "../../events/mod.ts";
import { FORGE_SECRET } from "../_deliveries.ts";
import { forgeIntake } from "./_intakes.ts";

/** Shares by name, and which of them were evicted, in order. */
function sharesOf(budget: BodyBudget) {
  const evicted: string[] = [];
  return { evicted, open: (name: string) => budget.open(() => evicted.push(name)) };
}

/** A request whose body is sent bit by bit. */
function upload() {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  const request = new Request("http://localhost/", { method: "POST", body: readable });
  return {
    request,
    send: (bytes: number) => writer.write(new Uint8Array(bytes)),
    end: () => writer.close(),
  };
}

Deno.test("BodyBudget counts what bodies hold, until they are closed", () => {
  const budget = new BodyBudget(1_000);
  const [a, b] = [budget.open(() => {}), budget.open(() => {})];
  a.add(100);
  b.add(200);
  a.add(300);
  assertEquals(budget.bytes, 600);
  a.close();
  a.close();
  assertEquals(budget.bytes, 200);
});

Deno.test("BodyBudget evicts nobody up to its bound", () => {
  const { evicted, open } = sharesOf(new BodyBudget(1_000));
  open("a").add(400);
  open("b").add(600);
  assertEquals(evicted, []);
});

Deno.test("BodyBudget evicts the body that has been large for the longest", () => {
  const { evicted, open } = sharesOf(new BodyBudget(500_000));
  const [small, old, young] = [open("small"), open("old"), open("young")];
  small.add(50_000);
  old.add(200_000);
  young.add(200_000);
  open("new").add(100_000);
  assertEquals([evicted, old.isEvicted, young.isEvicted], [["old"], true, false]);
});

Deno.test("BodyBudget evicts the oldest small body where there is no large one", () => {
  const { evicted, open } = sharesOf(new BodyBudget(100_000));
  open("a").add(50_000);
  open("b").add(50_000);
  open("c").add(50_000);
  assertEquals(evicted, ["a"]);
});

Deno.test("BodyBudget lets a large body in where small ones stand still", () => {
  const { evicted, open } = sharesOf(new BodyBudget(10 * 65_536));
  for (let i = 0; i < 10; i++) open(`small ${i}`).add(65_536);
  const large = open("large");
  for (let i = 0; i < 5; i++) large.add(65_536);
  assertEquals(evicted, ["small 0", "small 1", "small 2", "small 3", "small 4"]);
  assertEquals(large.isEvicted, false);
});

Deno.test("BodyBudget lets a small body in where small and large ones stand still", () => {
  const { evicted, open } = sharesOf(new BodyBudget(10 * 65_536));
  for (let i = 0; i < 4; i++) open(`small ${i}`).add(65_536);
  for (let i = 0; i < 3; i++) open(`large ${i}`).add(2 * 65_536);
  open("genuine").add(65_536);
  assertEquals(evicted, ["large 0"]);
});

Deno.test("BodyBudget counts no more as large what is closed, evicted or kept", () => {
  const { evicted, open } = sharesOf(new BodyBudget(1_000_000));
  const [closed, kept] = [open("closed"), open("kept")];
  closed.add(500_000);
  kept.add(300_000);
  closed.close();
  kept.keep();
  open("evicted").add(700_001);
  open("small").add(60_000);
  open("large").add(70_000);
  for (let i = 0; i < 10; i++) open(`later ${i}`).add(60_000);
  assertEquals(evicted, ["evicted", "small"]);
});

Deno.test("BodyBudget lets a large body in where all is set aside that may be", () => {
  const budget = new BodyBudget(16 * 65_536);
  const { evicted, open } = sharesOf(budget);
  while (budget.reserve(32_768));
  for (let i = 0; i < 16; i++) open(`small ${i}`).add(65_536);
  const large = open("large");
  large.add(6 * 65_536);
  assertEquals([large.isEvicted, evicted.length], [false, 8]);
});

const FLOOR = 65_536;

Deno.test("BodyBudget counts 64 KiB for each body past 64 that arrives, and evicts the oldest", () => {
  const budget = new BodyBudget(10 * FLOOR);
  const { evicted, open } = sharesOf(budget);
  const shares = Array.from({ length: 74 }, (_, i) => open(`${i}`));
  assertEquals(evicted, []);
  for (let i = 74; i < 77; i++) open(`${i}`);
  assertEquals(evicted, ["0", "1", "2"]);
  shares[3]!.close();
  shares[4]!.keep();
  for (let i = 77; i < 80; i++) open(`${i}`);
  assertEquals([evicted, budget.bytes], [["0", "1", "2", "5"], 0]);
});

Deno.test("BodyBudget takes room for the bytes of one body from many that have hardly begun", () => {
  const { evicted, open } = sharesOf(new BodyBudget(100 * FLOOR));
  for (let i = 0; i < 163; i++) open(`${i}`);
  const large = open("large");
  large.add(40 * FLOOR);
  assertEquals([large.isEvicted, evicted.length], [false, 40]);
});

Deno.test("BodyBudget sets no more rooms aside than an eighth of it, while bodies arrive", () => {
  const budget = new BodyBudget(8 * 100 * FLOOR);
  const rooms = Array.from({ length: 100 }, () => budget.reserve(1)!);
  assertEquals(budget.reserve(1), null);
  rooms[0]!.arrived();
  rooms[0]!.arrived();
  assertEquals([budget.reserve(1) !== null, budget.reserve(1), budget.bytes], [true, null, 101]);
});

Deno.test("BodyBudget evicts as many as it takes", () => {
  const { evicted, open } = sharesOf(new BodyBudget(300_000));
  for (const name of ["a", "b", "c"]) open(name).add(100_000);
  open("d").add(150_000);
  assertEquals(evicted, ["a", "b"]);
});

Deno.test("BodyBudget evicts the body that grows too large by itself", () => {
  const budget = new BodyBudget(100_000);
  const { evicted, open } = sharesOf(budget);
  const share = open("a");
  share.add(150_000);
  assertEquals([evicted, share.isEvicted, budget.bytes], [["a"], true, 0]);
  share.add(1);
  share.close();
  assertEquals(budget.bytes, 0);
});

const readWithin = (request: Request, maxBytes: number, budget: BodyBudget, timeoutMs = 10_000) =>
  readBodyWithin(new Timeouts(timeoutMs), request, maxBytes, budget);

Deno.test("readBodyWithin() answers 503 with Retry-After to the body that is evicted, and reads the other", async () => {
  const budget = new BodyBudget(200_000);
  const [slow, quick] = [upload(), upload()];
  const refused = assertRejects(() => readWithin(slow.request, 200_000, budget), HttpError);
  await slow.send(150_000);
  const read = readWithin(quick.request, 200_000, budget);
  await quick.send(150_000);
  const { status, code, headers } = await refused;
  assertEquals([status, code, headers], [503, "OVERLOADED", { "Retry-After": "10" }]);
  await quick.end();
  const body = await read;
  assertEquals([body.bytes.byteLength, budget.bytes], [150_000, 150_000]);
  body.close();
  assertEquals(budget.bytes, 0);
});

Deno.test("readBodyWithin() gives back its share if it fails", async () => {
  const budget = new BodyBudget(200_000);
  const [large, late] = [upload(), upload()];
  const tooLarge = assertRejects(
    () => readWithin(large.request, 1_000, budget),
    HttpError,
    "larger",
  );
  await large.send(1_001);
  await tooLarge;
  const tooLate = assertRejects(
    () => readWithin(late.request, 1_000, budget, 10),
    HttpError,
    "in time",
  );
  await late.send(100);
  await tooLate;
  while (budget.bytes > 0) await new Promise((resolve) => setTimeout(resolve));
});

Deno.test("forge() refuses a total that one body alone may exceed", async () => {
  using kv = await Deno.openKv(":memory:");
  const options = { secrets: [FORGE_SECRET], store: await openEventStore(kv), maxBodyBytes: 1_000 };
  for (const maxTotalBodyBytes of [0, 999, 1_000.5, NaN, Infinity]) {
    const create = () => forgeIntake({ ...options, maxTotalBodyBytes });
    assertThrows(create, RangeError, "'maxTotalBodyBytes'");
  }
  forgeIntake({ ...options, maxTotalBodyBytes: 1_000 });
});
