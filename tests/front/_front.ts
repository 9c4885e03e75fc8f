import { killNow } from "../../dev/harness/follow_app.ts";
import { freePort, listens } from "../../dev/harness/free_port.ts";
import { pause } from "../../dev/harness/until.ts";
import { FORGE_SECRET } from "../_deliveries.ts";
import { withFolder } from "../_folder.ts";
import { findProgram, testWith } from "../_permissions.ts";
import { APP_NEEDS, type RunningApp, spawnApp } from "../apps/_app.ts";

/** A reverse proxy that runs in front of an app. */
export interface Front {
  readonly name: FrontName;
  readonly port: number;
  readonly app: RunningApp;
}

/** The reverse proxies that SECURITY.md shows the settings of. */
export type FrontName = keyof typeof FRONTS;

/** Folders where Debian installs nginx, which is not in everybody's path. */
const FOLDERS = ["/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"];

/** Deadline in the tests that is 10 s in SECURITY.md. */
export const DEADLINE_MS = 1_000;

/** Differences of a proxy's settings in the tests from those of SECURITY.md. */
type Replacements = readonly (readonly [shown: string, used: string])[];

const FRONTS = {
  nginx: {
    replacements: (port: number, upstream: number): Replacements => [
      ["listen 443 ssl;", `listen 127.0.0.1:${port};`],
      ["  ssl_certificate     /etc/ssl/bot.pem;\n", ""],
      ["  ssl_certificate_key /etc/ssl/bot.key;\n", ""],
      ["http://127.0.0.1:8000", `http://127.0.0.1:${upstream}`],
      ["client_header_timeout 10s;", "client_header_timeout 1s;"],
      ["client_body_timeout 10s;", "client_body_timeout 1s;"],
    ],
    // The settings of a site are within those of the server, which say here where its files lie.
    whole: (settings: string, folder: string) => `
      daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/errors;
      events { worker_connections 1024; }
      http {
        access_log off;
        ${
      ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((each) =>
        `${each}_temp_path ${folder}/${each};`
      ).join("\n")
    }
        ${settings}
      }`,
    args: (file: string) => ["-c", file, "-e", "stderr"],
  },
  caddy: {
    replacements: (port: number, upstream: number): Replacements => [
      ["bot.example.com {", `http://:${port} {`],
      ["127.0.0.1:8000", `127.0.0.1:${upstream}`],
      ["read_header 10s", "read_header 1s"],
    ],
    whole: (settings: string) => settings.replace("{", "{\n  admin off\n  auto_https off\n"),
    args: (file: string) => ["run", "--adapter", "caddyfile", "--config", file],
  },
};

/** Settings that another document shows. */
export interface ShownSettings {
  /** Path of the document. */
  readonly page: string;
  /** Differences of the settings in the tests. */
  readonly replacements: (port: number, upstream: number) => Replacements;
  /** Makes the settings of a whole server from those that are shown. */
  readonly server: (settings: string, port: number) => string;
  /** Variables of the app. */
  readonly env: Readonly<Record<string, string>>;
}

/** Registers a test of an app behind one of the proxies, or of both; skipped where that is missing. */
export function testFront(
  name: FrontName,
  what: string,
  fn: (front: Front) => Promise<void>,
  shown: ShownSettings = {
    page: "SECURITY.md",
    replacements: FRONTS[name].replacements,
    server: (settings) => settings,
    env: {},
  },
): void {
  const path = findProgram(name, ...FOLDERS);
  testWith(APP_NEEDS, `${name}: ${what}`, async () => {
    await withFolder(async (folder) => {
      const env = { FORGE_WEBHOOK_SECRET: FORGE_SECRET, TRUSTED_PROXY_HOPS: "1" };
      await using app = spawnApp("forge", { ...env, ...shown.env, KV_URL: ":memory:" });
      const port = freePort();
      const file = `${folder}/settings`;
      await Deno.writeTextFile(file, await settingsOf(name, shown, folder, port, await app.url));
      const process = new Deno.Command(path!, {
        args: FRONTS[name].args(file),
        env: { HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
        stdout: "null",
        stderr: "piped",
      }).spawn();
      const errors = new Response(process.stderr).text();
      try {
        if (!await untilListening(port, process.status)) {
          throw new Error(`${name} does not listen: ${await errors}`);
        }
        await fn({ name, port, app });
      } finally {
        killNow(process);
        await Promise.all([process.status, errors]);
      }
    });
  }, path === undefined ? `needs ${name}` : undefined);
}

/** The settings in a document, with other addresses and shorter times. */
async function settingsOf(
  name: FrontName,
  { page, replacements, server }: ShownSettings,
  folder: string,
  port: number,
  appUrl: string,
): Promise<string> {
  const text = await Deno.readTextFile(new URL(`../../${page}`, import.meta.url));
  const language = name === "caddy" ? "caddyfile" : name;
  let settings = new RegExp("```" + language + "\n(.*?)```", "s").exec(text)?.[1] ?? "";
  for (const [shown, used] of replacements(port, Number(new URL(appUrl).port))) {
    if (!settings.includes(shown)) throw new Error(`${page} does not show '${shown}'`);
    settings = settings.replace(shown, used);
  }
  return FRONTS[name].whole(server(settings, port), folder);
}

/** Waits until the proxy listens; false if it ends instead. */
async function untilListening(port: number, end: Promise<unknown>): Promise<boolean> {
  let ended = false;
  end.then(() => ended = true);
  while (!ended) {
    if (await listens(port)) return true;
    await pause(25);
  }
  return false;
}
