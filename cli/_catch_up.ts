import { catchUp, type CatchUpOptions, type CatchUpResult } from "../catch_up/mod.ts";
import { KEPT_MS } from "../catch_up/options.ts";
import { oneLine } from "../core/log.ts";
import type { CliRun, EventValues } from "./_commands.ts";
import { hiderOf } from "./_secrets.ts";
import { type CliWorld, InterruptedError, interruptible, messageOf, UsageError } from "./_world.ts";

/** Asks GitHub again for what failed, and writes the outcome. */
export async function runCatchUp({ store, values, world }: CliRun): Promise<boolean> {
  const {
    since: sinceMs,
    max: limit,
    pace: paceMs,
    intake,
    json,
    delivered,
    "dry-run": dryRun = false,
  } = values;
  const { env, out, err } = world;
  const [github, secrets] = authOf(values, env);
  if (sinceMs! > KEPT_MS) err("GitHub keeps deliveries for 3 days: older ones are lost");
  const hide = hiderOf(secrets);
  const options = {
    sinceMs: sinceMs!,
    limit,
    paceMs,
    intake,
    delivered,
    dryRun,
    hooks: [hookOf(values)],
    github,
  };
  const result = await interruptible(world, (signal) => catchUp(store, { ...options, signal }))
    .catch((error) => {
      throw new Error(hide(messageOf(error)));
    });
  if (json) out(hide(JSON.stringify({ ...result, dryRun })));
  else for (const line of linesOf(result, dryRun)) out(hide(oneLine(line)));
  for (const problem of result.problems) err(hide(problem));
  if (result.interrupted) throw new InterruptedError();
  const { failed, left, problems } = result;
  return failed.length === 0 && left.length === 0 && problems.length === 0;
}

function hookOf({ repo, org, hook: id, url }: EventValues): CatchUpOptions["hooks"][number] {
  if (repo !== undefined) return { repository: repo, id, url };
  return org === undefined ? { app: true } : { organization: org, id, url };
}

function authOf(
  { "github-app": isApp, api }: EventValues,
  env: CliWorld["env"],
): [CatchUpOptions["github"], readonly string[]] {
  const names = isApp ? ["GITHUB_APP_ID", "GITHUB_APP_PRIVATE_KEY"] : ["GITHUB_TOKEN"];
  const missing = names.filter((name) => !env(name)?.trim());
  if (missing.length > 0) throw new UsageError(`Cannot catch up: set ${missing.join(" and ")}`);
  const [first, key] = names.map((name) => env(name)!.trim());
  if (key === undefined) return [{ api, token: first! }, [first!]];
  return [{ api, appId: first!, privateKey: key }, [key]];
}

function linesOf(result: CatchUpResult, dryRun: boolean): string[] {
  const { asked, stored, delivered, refused, underWay, failed, tooOld, left } = result;
  return [
    `${asked.length} ${dryRun ? "would be asked for" : "asked for again"}${idsOf(asked)}`,
    `${delivered} delivered`,
    `${stored.length} failed, but stored already`,
    `${refused.length} refused by the app with 4xx, left alone${idsOf(refused)}`,
    ...underWay.length > 0 ? [`${underWay.length} under way${idsOf(underWay)}`] : [],
    ...tooOld.length > 0 ? [`${tooOld.length} too old${idsOf(tooOld)}`] : [],
    ...failed.map(({ guid, reason }) => `not asked for: ${guid} (${reason})`),
    ...left.length > 0 ? [`${left.length} left for the next run`] : [],
  ];
}

const idsOf = (ids: readonly string[]) => ids.length === 0 ? "" : `: ${ids.join(", ")}`;
