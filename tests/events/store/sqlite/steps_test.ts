import { assertLess } from "@std/assert";
import { claimOne, delivery } from "../_events.ts";
import { noteStep } from "../_stepping.ts";
import { testFile } from "./_stores.ts";

const STEPS = 20;

/** Bytes that a step of 2 KB adds to the write-ahead log: pages of its event, its result and their keys. */
const MAX_BYTES = 32_000;

testFile("a step leaves the indexes of its event as they are", async ({ store, path }) => {
  await store.accept(delivery("d1"));
  let lease = await claimOne(store);
  const log = async () => (await Deno.stat(`${path}-wal`)).size;
  const before = await log();
  for (let i = 0; i < STEPS; i++) {
    lease = (await noteStep(store, lease, `s${i}`, JSON.stringify("x".repeat(2_000))))!;
  }
  assertLess((await log() - before) / STEPS, MAX_BYTES);
});
