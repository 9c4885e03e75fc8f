import { assertEquals } from "@std/assert";

/** Counts calls that read a KV, and the records of events that they have read. */
export function countReads(
  kv: Deno.Kv,
): Record<"get" | "getMany" | "list" | "records", number> {
  const counts = { get: 0, getMany: 0, list: 0, records: 0 };
  const [get, getMany, list] = [kv.get.bind(kv), kv.getMany.bind(kv), kv.list.bind(kv)];
  const isRecord = (key: Deno.KvKey) => key[1] === "event";
  kv.get = ((key: Deno.KvKey) => (counts.get++, get(key))) as never;
  kv.getMany = ((keys: readonly Deno.KvKey[]) => {
    counts.getMany++;
    counts.records += keys.filter(isRecord).length;
    return getMany(keys as never);
  }) as never;
  kv.list = async function* (...args: Parameters<Deno.Kv["list"]>) {
    counts.list++;
    for await (const entry of list(...args)) {
      if (isRecord(entry.key)) counts.records++;
      yield entry;
    }
  } as never;
  return counts;
}

/** All keys of the store below a prefix, without the marks of its commits. */
export async function keysOf(kv: Deno.Kv, ...prefix: string[]): Promise<Deno.KvKey[]> {
  const keys = [];
  for await (const { key } of kv.list({ prefix: ["events", ...prefix] })) {
    if (key[1] !== "commit") keys.push(key);
  }
  return keys;
}

/** The key of an event's record. */
export async function recordKey(kv: Deno.Kv, id: string): Promise<Deno.KvKey> {
  const key = (await keysOf(kv, "event")).find((each) => each.at(-1) === id);
  if (!key) throw new Error(`There is no record of ${id}`);
  return key;
}

/** Moves an event's entry in the schedule to another time: one that has passed, unless it is given. */
export async function makeDue(kv: Deno.Kv, id: string, dueAt = Date.now() - 1): Promise<void> {
  const key = (await keysOf(kv, "due")).find((each) => each.at(-1) === id)!;
  const { value } = await kv.get(key);
  await kv.atomic().delete(key).set(["events", "due", dueAt, id], value).commit();
}

/** Checks that the schedule and the ordering groups are empty. */
export async function assertNothingWaits(kv: Deno.Kv): Promise<void> {
  const left = ["due", "lane", "place"].map((each) => keysOf(kv, each));
  assertEquals((await Promise.all(left)).flat(), []);
}
