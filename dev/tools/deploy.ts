/**
 * Runs all checks, and then `deno deploy` for one of the apps: `deploy.ts forge --org ORG --app APP`.
 * `--preview` deploys to a preview instead of production, `--dry-run` only shows the last command.
 *
 * The entrypoint is not among the arguments: it belongs to the app, from `deno deploy create` on.
 *
 * @module
 */
import { parseArgs } from "node:util";

const OPTIONS = {
  org: { type: "string" },
  app: { type: "string" },
  preview: { type: "boolean" },
  "dry-run": { type: "boolean" },
} as const;

/** Runs Deno, and tells whether it succeeded. */
async function deno(...args: string[]): Promise<boolean> {
  return (await new Deno.Command(Deno.execPath(), { args }).spawn().status).success;
}

function fail(reason: string, code: number): never {
  console.error(`Not deployed: ${reason}`);
  Deno.exit(code);
}

function parse() {
  try {
    return parseArgs({ options: OPTIONS, allowPositionals: true });
  } catch (error) {
    fail(error instanceof Error ? error.message : String(error), 2);
  }
}

function readArguments(): { target: string[]; dryRun: boolean } {
  const { values, positionals } = parse();
  const [name] = positionals;
  if (positionals.length !== 1 || (name !== "forge" && name !== "messenger")) {
    fail(`the one argument is 'forge' or 'messenger', got '${positionals.join(" ")}'`, 2);
  }
  // Not DENO_DEPLOY_APP, which deno deploy reads: it would be the same for both apps.
  const variables = { org: "DENO_DEPLOY_ORG", app: `DENO_DEPLOY_${name.toUpperCase()}_APP` };
  const valueOf = (option: "org" | "app") => {
    const value = values[option] || Deno.env.get(variables[option]);
    return value || fail(`no --${option}, and ${variables[option]} is not set`, 2);
  };
  const target = ["--org", valueOf("org"), "--app", valueOf("app")];
  if (!values.preview) target.push("--prod");
  return { target, dryRun: values["dry-run"] ?? false };
}

const { target, dryRun } = readArguments();
if (!await deno("task", "ok")) fail("the checks have failed", 1);
if (dryRun) console.log(["deno", "deploy", ...target].join(" "));
else if (!await deno("deploy", ...target)) fail("deno deploy has failed", 1);
