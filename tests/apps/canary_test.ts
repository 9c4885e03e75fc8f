import { assert, assertEquals } from "@std/assert";
import { sign } from "../../dev/harness/sign.ts";
import { foundIn, foundInFolder } from "../_canaries.ts";
import { withFolder } from "../_folder.ts";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS, type RunningApp, runToEnd, spawnApp } from "./_app.ts";
import { ANYWHERE, CANARIES, REQUESTS } from "./_canary_requests.ts";

const SECRETS = {
  forge: {
    FORGE_WEBHOOK_SECRET: CANARIES.forgeSecret,
    FORGE_WEBHOOK_SECRET_PREVIOUS: CANARIES.forgePrevious,
    FORGE_WEBHOOK_TOKEN: CANARIES.forgeToken,
  },
  messenger: {
    MESSENGER_SECRET_TOKEN: CANARIES.messengerToken,
    MESSENGER_SECRET_TOKEN_PREVIOUS: CANARIES.messengerPrevious,
    MESSENGER_ALLOWED_USERS: "42",
  },
};

/** Sends all, and returns all that was answered: statuses, headers and bodies. */
async function sendAll(app: RunningApp, name: keyof typeof REQUESTS): Promise<string[]> {
  const answers: string[] = [];
  for (const [path, init] of [...REQUESTS[name], ...ANYWHERE]) {
    const response = await fetch(`${await app.url}${path}`, init);
    const headers = JSON.stringify([...response.headers]);
    answers.push(`${response.status} ${headers} ${await response.text()}`);
  }
  return answers;
}

for (const name of ["forge", "messenger"] as const) {
  testWith(
    APP_NEEDS,
    `apps/${name}.ts shows no secret, signature, payload or query`,
    async () => {
      await withFolder(async (folder) => {
        await using app = spawnApp(name, { ...SECRETS[name], KV_URL: `${folder}/kv.db` });
        const answers = await sendAll(app, name);
        assert(
          answers.some((each) => each.startsWith("200 ")) &&
            answers.some((each) => each.startsWith("401 ")),
        );
        await app.line(({ message }) => message === "event handled");
        app.process.kill("SIGTERM");
        const errors = await app.ended;
        const signature = sign(JSON.stringify({ text: CANARIES.payload }), CANARIES.forgeSecret)
          .slice(7);
        const texts = { ...CANARIES, signature };
        assertEquals(foundIn(answers.join("\n"), texts), [], "in the answers");
        assertEquals(foundIn(JSON.stringify(app.lines) + errors, texts), [], "in the log");
        const { payload: _, ...unstored } = texts;
        assertEquals(await foundInFolder(folder, unstored), []);
      });
    },
  );

  testWith(APP_NEEDS, `apps/${name}.ts shows no secret when it cannot start`, async () => {
    const bad: Record<string, string>[] = [
      { PORT: "no" },
      { KV_URL: `/no/such/${CANARIES.query}/kv.db` },
      { KV_URL: `http://user:${CANARIES.query}@127.0.0.1:9/` },
      { KV_URL: `http://user:a/${CANARIES.query}@127.0.0.1:9/` },
      { DENO_TRUST_PROXY_HEADERS: CANARIES.query },
    ];
    for (const env of bad) {
      const { code, stderr } = await runToEnd(name, { ...SECRETS[name], ...env });
      assertEquals(code, 1);
      assertEquals(foundIn(stderr, CANARIES), [], stderr);
    }
  });
}
