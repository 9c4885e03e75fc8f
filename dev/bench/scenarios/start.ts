import { withApp } from "../loaded_app.ts";
import type { Scenario, Values } from "../scenario.ts";
import { EDGE_BASE, type Subject, SUBJECTS } from "../subjects.ts";

/** Starts of one run, of which the median counts. */
const STARTS = 5;

const ROW = "empty store";

/** Bundles so far, by the script that they were made of. */
const made = new Map<URL, Promise<URL>>();

/** Time from the start of the process to its first `OK`. */
export const start: Scenario = {
  name: "start",
  title: "Start to first answer",
  what:
    "From the start of the process, on an empty store, to its first 200 for a delivery. The code " +
    `is in Deno's cache. The median of ${STARTS} starts a round. Bundled is the same as one file, as ` +
    "`deno bundle --minify` makes it.",
  compare: "columns",
  measures: [
    { key: "startMs", title: "start to first answer, ms", digits: 0, ratio: true },
    { key: "rssMb", title: "memory then, MB", digits: 0, ratio: true },
  ],
  runs: () => [
    ...SUBJECTS.map((subject) => ({ row: ROW, subject, measure: () => measure(subject) })),
    {
      row: ROW,
      column: `${EDGE_BASE.name}, bundled`,
      subject: EDGE_BASE,
      measure: async () => await measure(await bundled(EDGE_BASE)),
    },
  ],
};

async function measure(subject: Subject): Promise<Values> {
  const startMs: number[] = [];
  const rssMb: number[] = [];
  for (let i = 0; i < STARTS; i++) {
    await withApp(subject, (app) => {
      startMs.push(app.startMs);
      rssMb.push(app.memory().rssMb);
      return Promise.resolve();
    });
  }
  return { startMs: medianOf(startMs), rssMb: medianOf(rssMb) };
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!;
}

/** The subject as one file, which `deno bundle` makes of its modules the first time it is asked for. */
async function bundled(subject: Subject): Promise<Subject> {
  const script = made.get(subject.script) ?? bundle(subject.script);
  made.set(subject.script, script);
  return { ...subject, script: await script };
}

async function bundle(script: URL): Promise<URL> {
  const file = `${await Deno.makeTempDir({ prefix: "edge-base-bundle-" })}/server.js`;
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["bundle", "--quiet", "--minify", "--output", file, script.href],
    cwd: new URL("..", import.meta.url),
    stdout: "null",
    stderr: "piped",
  }).output();
  if (!success) throw new Error(`Cannot bundle ${script}: ${new TextDecoder().decode(stderr)}`);
  return new URL(`file://${file}`);
}
