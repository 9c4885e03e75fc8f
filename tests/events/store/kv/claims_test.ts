import { assert, assertEquals, assertGreater, assertLess, assertRejects } from "@std/assert";
import type { EventStore, Lease } from "../../../../events/mod.ts";
import { claimAll, delivery, idsOf, later } from "../_events.ts";
import { keysOf, recordKey } from "./_keys.ts";
import { withLoggedStore } from "./_stores.ts";
import { changeValue } from "./_values.ts";

/** Long enough to be taken in, short enough to be waited for. */
const LEASE_MS = 200;

/** Fills an event's record up to what a value of a KV holds: no lease fits it. */
async function fill(kv: Deno.Kv, id: string): Promise<void> {
  const key = await recordKey(kv, id);
  for (let length = 65_536;; length -= 10) {
    try {
      await changeValue(kv, key, { requestId: "x".repeat(length) });
      return;
    } catch (error) {
      if (!String(error).includes("too large")) throw error;
    }
  }
}

/** Has deliveries taken in one commit by a worker that dies. */
async function takeInGroup(store: EventStore, ids: readonly string[]): Promise<string[]> {
  const reservation = { owner: "worker", leaseMs: LEASE_MS, take: () => {}, cancel: () => {} };
  store.listen({ wake: () => {}, reserve: () => reservation }).catch(() => {});
  const accepted = await Promise.all(ids.map((id) => store.accept(delivery(id))));
  store.listen({ wake: () => {} }).catch(() => {});
  await later(LEASE_MS + 20);
  return accepted.map(({ id }) => id);
}

const claimNext = (store: EventStore): Promise<Lease[]> =>
  store.claim({ limit: 1, owner: "other", leaseMs: 30_000 });

Deno.test("an event that cannot be leased is put off, logged, and keeps no other waiting", () =>
  withLoggedStore(async ({ kv, store, logged, messages }) => {
    const { id } = await store.accept(delivery("d1"));
    await fill(kv, id);
    await later(2);
    const { id: next } = await store.accept(delivery("d2"));
    assertEquals(idsOf(await claimNext(store)), [next]);
    assertEquals(await claimNext(store), []);
    assertEquals(messages, ["event not leased, put off"]);
    assertEquals(logged[0]!.eventId, id);
    const [due] = (await keysOf(kv, "due")).filter((key) => key.at(-1) === id);
    assertGreater(Number(due!.at(-2)), Date.now() + 200_000);
  }));

Deno.test("an event that cannot be leased lets the others of its key go on", () =>
  withLoggedStore(async ({ kv, store }) => {
    const { id } = await store.accept(delivery("d1", "{}", "key"));
    const { id: next } = await store.accept(delivery("d2", "{}", "key"));
    await fill(kv, id);
    assertEquals(await claimAll(store), []);
    assertEquals(idsOf(await claimAll(store)), [next]);
  }));

Deno.test("an event that can be leased again after it was put off is leased once", () =>
  withLoggedStore(async ({ kv, store }) => {
    const { id } = await store.accept(delivery("d1"));
    const key = await recordKey(kv, id);
    const { value } = await kv.get(key);
    await fill(kv, id);
    assertEquals(await claimAll(store), []);
    await kv.set(key, value);
    const [due] = await keysOf(kv, "due");
    const entry = await kv.get(due!);
    await kv.atomic().delete(due!).set([...due!.slice(0, 2), Date.now() - 1, id], entry.value)
      .commit();
    const [lease] = await claimAll(store);
    assertEquals(await claimAll(store), []);
    assert(await store.complete(lease!));
    assertEquals(await keysOf(kv, "due"), []);
  }));

Deno.test("an event of a group that cannot be leased keeps no other waiting", () =>
  withLoggedStore(async ({ kv, store, messages }) => {
    const ids = await takeInGroup(store, ["d1", "d2", "d3", "d4"]);
    await fill(kv, ids[1]!);
    const { id: next } = await store.accept(delivery("next"));
    const claimed: string[] = [];
    for (let i = 0; i < 6; i++) claimed.push(...idsOf(await claimNext(store)));
    assertEquals(claimed.toSorted(), [ids[0], ids[2], ids[3], next].toSorted());
    assertEquals(messages, ["event not leased, put off"]);
    const due = (await keysOf(kv, "due")).map((key) => key.at(-1));
    assertEquals(due.toSorted(), [...ids, next].toSorted());
  }));

/** Has all commits of a KV fail from now on. */
function failCommits(kv: Deno.Kv): void {
  const atomic = kv.atomic.bind(kv);
  kv.atomic = () => {
    const operation = atomic();
    operation.commit = () => Promise.reject(new Error("disk full"));
    return operation;
  };
}

/** Has each writing of an event's record fail, for no reason that is known. */
function failFor(kv: Deno.Kv, id: string): void {
  const atomic = kv.atomic.bind(kv);
  kv.atomic = () => {
    const operation = atomic();
    const set = operation.set.bind(operation);
    operation.set = (key, ...args) => {
      if (key[1] === "event" && key.at(-1) === id) throw new Error("odd");
      return set(key, ...args);
    };
    return operation;
  };
}

Deno.test("an event that fails to be leased three times is put off for a minute", () =>
  withLoggedStore(async ({ kv, store, logged, messages }) => {
    const { id } = await store.accept(delivery("d1"));
    await later(2);
    const { id: next } = await store.accept(delivery("d2"));
    failFor(kv, id);
    for (let i = 0; i < 2; i++) await assertRejects(() => claimNext(store), Error, "odd");
    assertEquals(logged, []);
    assertEquals(idsOf(await claimNext(store)), [next]);
    assertEquals(messages, ["event not leased, put off"]);
    assertEquals(await claimNext(store), []);
    const [due] = (await keysOf(kv, "due")).filter((key) => key.at(-1) === id);
    assertLess(Number(due!.at(-2)), Date.now() + 61_000);
  }));

/** Errors of a KV that is asked too often, or not reached: they say nothing about an event. */
const OVERLOADED = [
  "KV Connect failed to call 'http://127.0.0.1/v2/atomic_write' (status=429 Too Many Requests): ",
  "KV Connect failed to call 'http://127.0.0.1/v2/atomic_write': Too many open files (os error 24)",
] as const;

Deno.test("an event stays due and in its group while a remote KV refuses requests", async () => {
  for (const message of OVERLOADED) {
    await withLoggedStore(async ({ kv, store, logged }) => {
      const { id } = await store.accept(delivery("d1", "{}", "key"));
      await store.accept(delivery("d2", "{}", "key"));
      let refuses = true;
      const atomic = kv.atomic.bind(kv);
      kv.atomic = () => {
        if (!refuses) return atomic();
        refuses = false;
        const commit = () => Promise.reject(new Error(message));
        return Object.assign(atomic(), { commit });
      };
      await assertRejects(() => claimNext(store), Error, message);
      assertEquals(idsOf(await claimNext(store)), [id]);
      assertEquals(logged, []);
    });
  }
});

/** Has the list of the schedule fail after it was read so many times. */
function failListAfter(kv: Deno.Kv, times: number): void {
  const list = kv.list.bind(kv) as (...args: unknown[]) => AsyncIterable<unknown>;
  let left = times;
  kv.list = async function* (...args: unknown[]) {
    if (left-- <= 0) throw new Error("connection lost");
    yield* list(...args);
  } as never;
}

Deno.test("a claim that fails hands over what it has leased before", () =>
  withLoggedStore(async ({ kv, store, messages }) => {
    const ids = ["d1", "d2", "d3"];
    for (const id of ids) {
      await store.accept(delivery(id));
      await later(2);
    }
    failListAfter(kv, 1);
    const options = { limit: 2, owner: "other", leaseMs: 30_000 };
    const leases = await store.claim({ ...options, holds: (id) => id === "d1" });
    assertEquals(idsOf(leases), ["d2"]);
    assertEquals(messages, ["claim failed"]);
  }));

Deno.test("a claim that has leased nothing fails with its cause, and puts nothing off", () =>
  withLoggedStore(async ({ kv, store, logged }) => {
    await store.accept(delivery("d1"));
    const before = await keysOf(kv, "due");
    failCommits(kv);
    for (let i = 0; i < 5; i++) await assertRejects(() => claimAll(store), Error, "disk full");
    assertEquals([await keysOf(kv, "due"), logged], [before, []]);
  }));
