import { type CatchUpOptions, FORMS, MAX_PACE_MS } from "../catch_up/options.ts";
import type { OptionName } from "./_commands.ts";
import { apiOf } from "./_connect_options.ts";
import { UsageError } from "./_world.ts";

/** Options of `events catch-up`. */
export interface CatchUpArguments {
  readonly hook: CatchUpOptions["hooks"][number];
  readonly sinceMs: number;
  readonly limit: number;
  readonly paceMs: number;
  readonly api: string | undefined;
  readonly intake: string | undefined;
  readonly dryRun: boolean;
}

/** Reads what `events catch-up` asks for. */
export function readCatchUp(
  values: ReadonlyMap<OptionName, string>,
  ageOf: (option: string, text: string) => number,
): CatchUpArguments {
  const since = values.get("since");
  if (since === undefined) {
    throw new UsageError("Give the age of the oldest deliveries: --since 2h");
  }
  const [repo, org, isApp] = [values.get("repo"), values.get("org"), values.has("github-app")];
  if ([repo !== undefined, org !== undefined, isApp].filter((given) => given).length !== 1) {
    throw new UsageError("Give one of --repo OWNER/REPO, --org NAME and --github-app");
  }
  if (repo !== undefined && !FORMS.repository.test(repo)) {
    throw new UsageError(`--repo must be OWNER/REPO, such as acme/site, got ${repo}`);
  }
  if (org !== undefined && !FORMS.organization.test(org)) {
    throw new UsageError(`--org must be the name of an organization, got ${org}`);
  }
  const [id, url, api] = [values.get("hook"), values.get("url"), values.get("api")];
  if (id !== undefined && !FORMS.id.test(id)) {
    throw new UsageError(`--hook must be the id of a webhook, got ${id}`);
  }
  if (isApp && (id ?? url) !== undefined) {
    throw new UsageError("--github-app goes with neither --hook nor --url: an app has one webhook");
  }
  if (id !== undefined && url !== undefined) throw new UsageError("Give --hook or --url, not both");
  if (url !== undefined && !/^https?:$/.test(URL.parse(url)?.protocol ?? "")) {
    throw new UsageError("--url must be a URL with http or https");
  }
  const max = values.get("max") ?? "1000";
  if (!/^[1-9]\d{0,4}$/.test(max)) {
    throw new UsageError(`--max must be a number from 1 to 99999, got ${max}`);
  }
  const pace = values.get("pace") ?? "250";
  if (!/^\d{1,5}$/.test(pace) || Number(pace) > MAX_PACE_MS) {
    throw new UsageError(`--pace must be a number of milliseconds from 0 to 60000, got ${pace}`);
  }
  const sinceMs = ageOf("since", since);
  if (sinceMs === 0) throw new UsageError("--since must be longer than 0");
  const own = { id, url };
  const hook = repo !== undefined
    ? { repository: repo, ...own }
    : org !== undefined
    ? { organization: org, ...own }
    : { app: true as const };
  return {
    ...{
      hook,
      sinceMs,
      limit: Number(max),
      paceMs: Number(pace),
      api: api && apiOf("github", api),
    },
    ...{ intake: values.get("intake"), dryRun: values.has("dry-run") },
  };
}
