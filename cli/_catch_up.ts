import { catchUp, type CatchUpOptions, type CatchUpResult } from "../catch_up/mod.ts";
import { KEPT_MS } from "../catch_up/options.ts";
import type { EventStore } from "../events/mod.ts";
import type { CatchUpArguments } from "./_catch_up_options.ts";
import type { CliOptions } from "./_options.ts";
import { oneLine } from "../core/log.ts";
import { hiderOf } from "./_secrets.ts";
import { type CliWorld, InterruptedError, UsageError } from "./_world.ts";

/** Asks GitHub again for what failed, and says what was done. */
export async function runCatchUp(
  store: EventStore,
  { catchUp: given, json }: CliOptions,
  { env, out, err, onInterrupt }: CliWorld,
): Promise<boolean> {
  const { hook, sinceMs, limit, paceMs, intake, dryRun } = given!;
  const [github, secrets] = authOf(given!, env);
  if (sinceMs > KEPT_MS) err("GitHub keeps deliveries for 3 days: older ones are lost");
  const ending = new AbortController();
  const forget = onInterrupt(() => ending.abort(new InterruptedError()));
  const hide = hiderOf(secrets);
  const result = await catchUp(store, {
    ...{ sinceMs, limit, paceMs, intake, dryRun, hooks: [hook], github, signal: ending.signal },
  }).catch((error) => {
    throw new Error(hide(error instanceof Error ? error.message : String(error)));
  }).finally(forget);
  if (json) out(hide(JSON.stringify({ ...result, dryRun })));
  else for (const line of linesOf(result, dryRun)) out(hide(oneLine(line)));
  for (const problem of result.problems) err(hide(problem));
  if (result.interrupted) throw new InterruptedError();
  const { failed, left, problems } = result;
  return failed.length === 0 && left.length === 0 && problems.length === 0;
}

function authOf(
  { hook, api }: CatchUpArguments,
  env: CliWorld["env"],
): [CatchUpOptions["github"], readonly string[]] {
  const names = "app" in hook ? ["GITHUB_APP_ID", "GITHUB_APP_PRIVATE_KEY"] : ["GITHUB_TOKEN"];
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
