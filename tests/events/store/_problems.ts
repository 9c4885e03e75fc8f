import { assertEquals } from "@std/assert";
import type { EventStore } from "../../../events/mod.ts";

/** The numbers of a problem's events, and those of its attempts in the last hours. */
export interface Counted {
  readonly dead: number;
  readonly retrying: number;
  readonly attempts: number;
}

/** Lists the problems of a store by the beginnings of their errors. */
export async function problemsOf(store: EventStore): Promise<Record<string, Counted>> {
  const { problems } = await store.inspect.problems({ hours: 72 });
  return Object.fromEntries(problems.map(({ error, dead, retrying, hours }) => {
    const attempts = hours.reduce((sum, each) => sum + each, 0);
    return [error.slice(0, 40), { dead: dead.count, retrying: retrying.count, attempts }];
  }));
}

/** Checks that the problems of a store have the events that its records say, in their numbers and in their lists. */
export async function assertProblemsAreExact(store: EventStore): Promise<void> {
  const counts = new Map<string, { dead: number; retrying: number; ids: string[] }>();
  for await (const event of store.list()) {
    if (event.state === "unreadable" || event.problem === undefined) continue;
    const count = counts.get(event.problem) ?? { dead: 0, retrying: 0, ids: [] };
    counts.set(event.problem, count);
    count[event.state === "dead" ? "dead" : "retrying"]++;
    count.ids.push(event.id);
  }
  const { problems } = await store.inspect.problems();
  const found = problems.map(({ id, dead, retrying }) =>
    [id, { dead: dead.count, retrying: retrying.count }] as const
  );
  const expected = [...counts].map(([id, { dead, retrying }]) => [id, { dead, retrying }] as const);
  assertEquals(Object.fromEntries(found), Object.fromEntries(expected));
  for (const [problem, { ids }] of counts) {
    assertEquals(await Array.fromAsync(store.list({ problem }), ({ id }) => id), ids);
  }
}
