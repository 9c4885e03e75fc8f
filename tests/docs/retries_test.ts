import { assertEquals } from "@std/assert";
import { retryDelay } from "../../events/worker/retry_policy.ts";
import { testWith } from "../_permissions.ts";
import { read } from "./_documents.ts";

/** Time from the first attempt to the last one, with the least and the most jitter, in milliseconds. */
function untilDead(maxAttempts?: number): readonly [number, number] {
  const of = (random: number) => {
    let ms = 0;
    for (let attempt = 1;; attempt++) {
      const delay = retryDelay(maxAttempts === undefined ? {} : { maxAttempts }, attempt, random);
      if (delay === null) return ms;
      ms += delay;
    }
  };
  return [of(0), of(1)];
}

const rangeOf = (range: readonly [number, number], unitMs: number, unit: string) =>
  range.map((ms) => Math.round(ms / unitMs)).join(" to ") + ` ${unit}`;

/** Documents and modules that say when an event is dead. */
const DEFAULT_IN = [
  ...["README.md", "docs/handlers.md", "docs/limits.md"],
  ...["docs/configuration.md", "docs/operating.md", "app/define_app.ts"],
  "events/worker/retry_policy.ts",
];

testWith(["read"], "the documents say how long it takes until an event is dead", async () => {
  const text = async (path: string) => (await read(path)).replaceAll(/[\s*]+/g, " ");
  const [byDefault, withTwelve] = [
    rangeOf(untilDead(), 3_600_000, "hours"),
    rangeOf(untilDead(12), 60_000, "minutes"),
  ];
  for (const path of DEFAULT_IN) {
    assertEquals([path, (await text(path)).includes(byDefault)], [path, true]);
  }
  assertEquals((await text("docs/configuration.md")).includes(withTwelve), true);
});

testWith(["read"], "no example looks for dead events by an age at which few are dead", async () => {
  const texts = await Promise.all(["docs/operating.md", "cli/_commands.ts"].map(read));
  const ages = texts.join("\n").matchAll(
    /events (?:list --state dead|replay)[^\n`#]*--newer-than (\S+)/g,
  );
  const [, most] = untilDead();
  const found = [...ages].filter(([line]) => !line.includes("--state done"));
  assertEquals(found.length >= 4, true);
  for (const [line, age] of found) {
    const days = Number(/^(\d+)d/.exec(age!)?.[1]);
    assertEquals([line, days * 86_400_000 > most], [line, true]);
  }
});
