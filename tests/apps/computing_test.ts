/** Handlers that compute before they first await something: nothing else runs in the process meanwhile. */
import { assertEquals, assertLessOrEqual } from "@std/assert";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS, spawnOwnApp } from "./_app.ts";
import { deliver } from "./_deliver.ts";

const ended = ({ message }: Record<string, unknown>) => message === "end";
const computing = (ms: number) => JSON.stringify({ computesMs: ms });

testWith(APP_NEEDS, "a delivery is answered before its handler computes", async () => {
  await using app = spawnOwnApp({}, { KV_URL: ":memory:" });
  for (const id of ["d1", "d2"]) {
    const { status } = await deliver(app, id, computing(1_000));
    assertEquals([status, app.count("end")], [200, id === "d1" ? 0 : 1]);
    await app.line(ended);
  }
});

testWith(
  APP_NEEDS,
  "ten deliveries at once are answered before their handlers have computed",
  async () => {
    await using app = spawnOwnApp({}, { KV_URL: ":memory:" });
    await deliver(app, "first");
    await app.line(ended);
    const ids = Array.from({ length: 10 }, (_, i) => `d${i}`);
    const answers = await Promise.all(ids.map((id) => deliver(app, id, computing(400))));
    assertEquals(answers.map(({ status }) => status), ids.map(() => 200));
    // One may have started before the last one came, and one more on the way of the answers to here.
    assertLessOrEqual(app.count("end"), 1 + 2);
  },
);
