import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { environmentOf } from "../../dev/harness/environment.ts";
import { freePort } from "../../dev/harness/free_port.ts";
import { type RunningApp, startApp } from "../../dev/harness/start_app.ts";
import { FORGE_SECRET, MESSENGER_SECRET } from "../_deliveries.ts";

/** The apps that have a set of permissions. */
export type AppName = "forge" | "messenger";

/** A set of permissions, as `deno.json` has it. */
export interface PermissionSet {
  readonly env: readonly string[];
  readonly net: readonly string[];
  readonly read: readonly string[];
  readonly write: readonly string[];
}

/**
 * Variables that both apps are started with: the secrets of the other one are in the environment
 * too.
 */
export const SECRETS = {
  FORGE_WEBHOOK_SECRET: FORGE_SECRET,
  FORGE_WEBHOOK_TOKEN: "a-token-that-travels",
  MESSENGER_SECRET_TOKEN: MESSENGER_SECRET,
  MESSENGER_ALLOWED_USERS: "42",
};

const root = new URL("../../", import.meta.url);

async function config() {
  return JSON.parse(await Deno.readTextFile(new URL("deno.json", root)));
}

/** The permissions that `deno.json` gives an app. */
export async function permissionsOf(app: AppName): Promise<PermissionSet> {
  return (await config()).permissions[app];
}

/** Runs a module under an app's permissions, in a folder that stands for the repository's. */
export interface Confinement {
  /** The folder. */
  readonly folder: string;
  /** Runs a module of the repository; `env` adds to the secrets. */
  command(module: string, env?: Readonly<Record<string, string>>): Deno.Command;
  /** Starts the app. */
  start(env?: Readonly<Record<string, string>>): RunningApp;
}

/**
 * Makes a folder with a configuration that is the repository's, but for the port: that one may be taken
 * here. Its paths are the folder's.
 */
export async function confine(app: AppName, folder: string): Promise<Confinement> {
  const { imports, links = [], unstable, permissions } = await config();
  const port = String(freePort());
  const { net, ...set } = permissions[app] as PermissionSet;
  const own = { ...set, net: net.map((address) => address.replace(/:\d+$/, `:${port}`)) };
  // Deno 2.5 takes the path of a link as one that is relative to the configuration.
  const toRoot = relative(folder, fileURLToPath(root)).replaceAll("\\", "/");
  const moved = links.map((link: string) => `${toRoot}/${link}`);
  const json = { imports, unstable, links: moved, permissions: { [app]: own } };
  await Deno.writeTextFile(`${folder}/deno.json`, JSON.stringify(json));
  await Deno.copyFile(new URL("deno.lock", root), `${folder}/deno.lock`);
  await Deno.mkdir(`${folder}/data/${app}`, { recursive: true });
  const variables = { PORT: port, HOST: "127.0.0.1", KV_URL: `./data/${app}/kv.db` };
  // What a module may import is a permission, too: to forbid it by a flag is for apps only.
  const command = (
    module: string,
    env: Readonly<Record<string, string>> = {},
  ) =>
    new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "--quiet", "--no-prompt", "--config", "./deno.json"],
        ...[`-P=${app}`, new URL(module, root).href],
      ],
      cwd: folder,
      clearEnv: true,
      env: environmentOf({ ...SECRETS, ...variables, ...env }),
      stdout: "piped",
      stderr: "piped",
    });
  const start = (env: Readonly<Record<string, string>> = {}) =>
    startApp({
      script: new URL(`apps/${app}.ts`, root),
      flags: ["--config", "./deno.json", `-P=${app}`],
      cwd: folder,
      env: { ...SECRETS, ...variables, ...env },
    });
  return { folder, command, start };
}
