/**
 * Measures the package side by side with what one would write by hand, and with peers: real processes
 * on real KV files, loaded over HTTP. All is measured once a round, so that a slow minute of the machine
 * falls on all alike. Nothing here fails on a slow day.
 *
 * @module
 */
import { readOptions, USAGE } from "./options.ts";
import { drawChart } from "./report/chart.ts";
import { formatReport } from "./report/report.ts";
import { measureAll } from "./rounds.ts";
import { against } from "./scenarios/against.ts";
import { SCENARIOS } from "./scenarios/mod.ts";

const options = readOptions(Deno.args);
if (options.help) {
  console.log(`${USAGE}\n\nScenarios: ${SCENARIOS.map(({ name }) => name).join(", ")}`);
  Deno.exit(0);
}
const scenarios = options.against === undefined
  ? SCENARIOS.filter(({ name }) => options.only?.includes(name) ?? true)
  : [await against(options.against)];
await withTempFolder(async () => {
  let report = "";
  await measureAll(scenarios, options, async (samples, round) => {
    report = await formatReport(scenarios, samples, options, round);
    if (!options.write) return;
    await Deno.writeTextFile(fileOf("results.md"), report);
    await Deno.writeTextFile(fileOf("results.svg"), drawChart(scenarios, samples));
  });
  console.log(report);
});

function fileOf(name: string): URL {
  return new URL(name, import.meta.url);
}

/**
 * Runs something with a folder for all temporary files, its own and those of the processes it starts:
 * stores of hundreds of megabytes must not be left behind when it is interrupted.
 */
async function withTempFolder(fn: () => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "edge-base-bench-" });
  // A database server may run as another user, who has to find its folder in there.
  await Deno.chmod(folder, 0o711);
  Deno.env.set("TMPDIR", folder);
  const interrupted = () => {
    Deno.removeSync(folder, { recursive: true });
    Deno.exit(130);
  };
  Deno.addSignalListener("SIGINT", interrupted);
  try {
    await fn();
  } finally {
    Deno.removeSignalListener("SIGINT", interrupted);
    await Deno.remove(folder, { recursive: true });
  }
}
