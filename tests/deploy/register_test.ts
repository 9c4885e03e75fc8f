import { assertEquals } from "@std/assert";
import { run } from "../../dev/harness/run.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";

/** The tokens and secrets that the commands use, each of which must be kept out of sight. */
const SECRETS = {
  GITEA_TOKEN: "token-of-gitea",
  GITLAB_TOKEN: "token-of-gitlab",
  GITEA_WEBHOOK_SECRET: "secret-of-the-bot-at-gitea",
  GITLAB_WEBHOOK_SECRET: "whsec_c2VjcmV0+of/the/bot=",
};

const { GITEA_TOKEN, GITLAB_TOKEN, ...BOT } = SECRETS;
const TOKENS = { GITEA_TOKEN, GITLAB_TOKEN };
const URL_OF_BOT = "https://bot.example.com/webhook";
const EVENTS = { events: ["push", "issues"] };
const config = (secret: string) => ({ url: URL_OF_BOT, content_type: "json", secret });

interface Expected {
  readonly path: string;
  readonly token: readonly [header: string, value: string];
  readonly body: unknown;
}

const EXPECTED: Readonly<Record<string, Expected>> = {
  "gitea.example.com": {
    path: "/api/v1/repos/OWNER/REPO/hooks",
    token: ["authorization", "token token-of-gitea"],
    body: { type: "gitea", active: true, ...EVENTS, config: config(BOT.GITEA_WEBHOOK_SECRET) },
  },
  "gitlab.example.com": {
    path: "/api/v4/projects/GROUP%2FPROJECT/hooks",
    token: ["private-token", "token-of-gitlab"],
    body: {
      url: URL_OF_BOT,
      ...{ push_events: true, issues_events: true, enable_ssl_verification: true },
      signing_token: BOT.GITLAB_WEBHOOK_SECRET,
    },
  },
};

/** The commands of the document, by the host that they talk to. */
async function commands(): Promise<Map<string, string>> {
  const text = await Deno.readTextFile(new URL("../../docs/deploying.md", import.meta.url));
  const blocks = [...text.matchAll(/^```sh register\n(.*?)^```$/gms)].map(([, block]) => block!);
  return new Map(blocks.map((block) => [/^url = "https:\/\/([^/]+)/m.exec(block)![1]!, block]));
}

/** The commands are for a shell, and so is the `curl` of the tests. */
const HAS_SHELL = Deno.build.os !== "windows";

/** Runs a command where its host is this machine. `curl` is one that notes its arguments. */
async function register(command: string, host: string, server: string): Promise<string> {
  return await withFolder(async (folder) => {
    await Deno.mkdir(`${folder}/bin`);
    const env = Object.entries(BOT).map(([name, secret]) => `${name}=${secret}\n`).join("");
    await Deno.writeTextFile(`${folder}/bot.env`, env);
    const path = Deno.env.get("PATH");
    const curl = `#!/bin/sh\necho "$@" > '${folder}/seen'\nPATH='${path}' exec curl "$@"\n`;
    await Deno.writeTextFile(`${folder}/bin/curl`, curl, { mode: 0o755 });
    const { code, stderr } = await run("sh", ["-euc", command.replace(`https://${host}`, server)], {
      cwd: folder,
      env: { ...TOKENS, HOME: folder, PATH: `${folder}/bin:${path}` },
    });
    assertEquals([code, stderr], [0, ""]);
    return await Deno.readTextFile(`${folder}/seen`);
  });
}

testWith(
  ["read"],
  "docs/deploying.md registers with the senders that the tool does not know",
  async () => {
    assertEquals([...(await commands()).keys()], Object.keys(EXPECTED));
  },
);

for (const [host, { path, token, body }] of Object.entries(HAS_SHELL ? EXPECTED : {})) {
  testWith(
    ["net", "read", "write", "run", "env"],
    `docs/deploying.md registers with ${host}, and shows no secret to other processes`,
    async () => {
      const got: { method: string; path: string; headers: Headers; body: unknown }[] = [];
      const options = { port: 0, hostname: "127.0.0.1", onListen: () => {} };
      await using server = Deno.serve(options, async (request) => {
        const { method, url, headers } = request;
        const { pathname } = new URL(url);
        got.push({
          method,
          path: pathname,
          headers: new Headers(headers),
          body: await request.json(),
        });
        return new Response("{}", { status: 201 });
      });
      const command = (await commands()).get(host)!;
      const seen = await register(command, host, `http://127.0.0.1:${server.addr.port}`);
      assertEquals(got.map(({ headers: _, ...request }) => request), [{
        method: "POST",
        path,
        body,
      }]);
      assertEquals(got[0]!.headers.get(token[0]), token[1]);
      assertEquals(Object.values(SECRETS).filter((secret) => seen.includes(secret)), []);
    },
  );
}
