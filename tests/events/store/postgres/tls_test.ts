import { assertEquals, assertRejects } from "@std/assert";
import { run } from "../../../../dev/harness/run.ts";
import { defineApp, forge, openApp } from "../../../../mod.ts";
import { postgres } from "../../../../events/store/postgres/mod.ts";
import { findProgram, testWith } from "../../../_permissions.ts";
import { POSTGRES } from "../engines/postgres.ts";
import { OwnPostgres } from "./_own_server.ts";

const { needs, missing } = POSTGRES.kinds[0];

const OPENSSL = findProgram("openssl");

/** Makes an authority, and certificates of it for this machine and another one. The server reads them as its own user. */
const CERTIFICATES = `
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.crt
openssl req -newkey rsa:2048 -nodes -subj /CN=server -keyout server.key -out request
sign() {
  printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\n' "$2" > extensions
  openssl x509 -req -in request -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 \
    -extfile extensions -out "$1"
}
sign here.crt IP:127.0.0.1
sign elsewhere.crt DNS:elsewhere
chmod 600 server.key
`;

/** Opens an app, and asks whether its connection is encrypted. */
async function isEncrypted(url: string, ca?: string): Promise<boolean> {
  const bot = defineApp({ name: "bot", platform: forge(), store: postgres({ ca }) });
  const FORGE_WEBHOOK_SECRET = "It's a Secret to Everybody, of 32 characters";
  const env = { FORGE_WEBHOOK_SECRET, DATABASE_URL: url };
  await using app = await openApp(bot, { env, log: () => {} });
  const sql = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
  return (await app.db.query<{ ssl: boolean }>(sql)).rows[0]!.ssl;
}

testWith(
  needs,
  "postgres() trusts the authority of 'ca', and no certificate that nobody has signed",
  async () => {
    await using server = await OwnPostgres.start();
    const { folder, user: { uid, gid } } = server;
    const { code, stderr } = await run("sh", ["-euc", CERTIFICATES], { cwd: folder });
    assertEquals(code, 0, stderr);
    if (uid !== undefined) await Deno.chown(`${folder}/server.key`, uid, gid!);
    const restart = async (certificate: string) => {
      await server.stop("fast");
      const files = [`ssl_cert_file=${folder}/${certificate}`, `ssl_key_file=${folder}/server.key`];
      await server.start(["ssl=on", ...files]);
    };
    await restart("here.crt");
    const ca = await Deno.readTextFile(`${folder}/ca.crt`);
    const url = server.direct;
    assertEquals(await isEncrypted(url), false);
    assertEquals(await isEncrypted(url, ca), true);
    assertEquals(await isEncrypted(`${url}?sslmode=no-verify`), true);
    const unknown = () => isEncrypted(`${url}?sslmode=require`);
    await assertRejects(
      unknown,
      Error,
      "its certificate is not trusted: give that of its authority",
    );
    await restart("elsewhere.crt");
    await assertRejects(() => isEncrypted(url, ca), Error, "cannot be used: ");
  },
  missing ?? (OPENSSL === undefined ? "needs openssl" : undefined),
);
