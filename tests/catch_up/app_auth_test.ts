import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { generateKeyPairSync } from "node:crypto";
import { catchUp, type CatchUpOptions } from "../../catch_up/mod.ts";
import { openEventStore } from "../../events/mod.ts";
import { testWith } from "../_permissions.ts";
import { FakeGithub } from "./_fake_github.ts";

const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });

/** Forms of the key: GitHub hands out the first one, and other tools convert it to the second one. */
const FORMS = ["pkcs1", "pkcs8"] as const;
const pem = (type: typeof FORMS[number]) => privateKey.export({ type, format: "pem" }).toString();

const APP = [{ app: true }] as const;

/** Runs a catch-up as the app of the id 4711, at a GitHub that verifies its tokens. */
async function runAs(
  auth: object,
  hooks: CatchUpOptions["hooks"] = APP,
  { insteadOf = [], clockMs = 0 }: Partial<Pick<FakeGithub, "insteadOf" | "clockMs">> = {},
): Promise<{ result: Awaited<ReturnType<typeof catchUp>>; github: FakeGithub }> {
  await using github = new FakeGithub("https://bot.test/webhook");
  github.insteadOf.push(...insteadOf);
  github.clockMs = clockMs;
  github.signedBy = { appId: "4711", publicKey };
  github.pushOld("a", 503);
  using kv = await Deno.openKv(":memory:");
  const store = await openEventStore(kv);
  const result = await catchUp(store, {
    ...{ hooks, sinceMs: 2 * 3_600_000, paceMs: 0 },
    github: { api: github.url, ...auth } as CatchUpOptions["github"],
  });
  return { result, github };
}

for (const form of FORMS) {
  testWith(
    ["net"],
    `a GitHub App signs its calls with a key as ${form}`,
    async () => {
      const { result, github } = await runAs({ appId: 4711, privateKey: pem(form) });
      assertEquals([result.asked, result.problems], [["a"], []]);
      assertEquals(github.deviations, []);
      assertEquals(
        github.calls.map(({ method, path }) => `${method} ${path.replace(/\d{9,}/, "N")}`),
        [
          "GET /app/hook/deliveries?per_page=100",
          "POST /app/hook/deliveries/N/attempts",
        ],
      );
    },
  );
}

testWith(["net"], "a GitHub App reads a repository's webhook by its installation", async () => {
  const auth = { appId: "4711", privateKey: pem("pkcs1"), installationId: 12 };
  const { result, github } = await runAs(auth, [{ repository: "acme/site" }]);
  assertEquals([result.asked, result.problems], [["a"], []]);
  assertEquals(github.callsOf(/installations\/12\/access_tokens$/, "POST").length, 1);
  assertEquals(github.deviations, []);
});

for (const clockMs of [-3_600_000, 3_600_000]) {
  testWith(["net"], `a GitHub App signs by GitHub's clock, ${clockMs} ms off`, async () => {
    const auth = { appId: 4711, privateKey: pem("pkcs8"), installationId: 12 };
    for (const hooks of [APP, [{ repository: "acme/site" }]]) {
      const { result } = await runAs(auth, hooks, { clockMs });
      assertEquals([result.asked, result.problems], [["a"], []]);
    }
  });
}

testWith(["net"], "catchUp() says that a GitHub App's id or key is wrong", async () => {
  const other = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey;
  const stranger = other.export({ type: "pkcs8", format: "pem" }).toString();
  for (
    const auth of [{ appId: 4711, privateKey: stranger }, { appId: 1, privateKey: pem("pkcs8") }]
  ) {
    const { result } = await runAs(auth);
    assertStringIncludes(result.problems[0]!, "the app's id or its private key is wrong");
    assertEquals(result.asked, []);
  }
});

testWith(["net"], "catchUp() says at once that a GitHub App's key is no key", async () => {
  for (const key of ["no key", pem("pkcs8").slice(0, 200), "-----BEGIN PRIVATE KEY-----\nno\n"]) {
    const start = performance.now();
    await assertRejects(
      () => runAs({ appId: 4711, privateKey: key }),
      TypeError,
      "Cannot catch up, in 'github': 'privateKey' must be a private RSA key in the form PEM",
    );
    assertEquals(performance.now() - start < 900, true);
  }
});

testWith(
  ["net"],
  "a GitHub App's request for an installation's token follows no redirect",
  async () => {
    const seen: string[] = [];
    const quiet = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
    await using elsewhere = Deno.serve(quiet, (request) => {
      seen.push(request.url);
      return Response.json({});
    });
    const { port } = elsewhere.addr;
    const headers = { Location: `http://127.0.0.1:${port}/` };
    const auth = { appId: "4711", privateKey: pem("pkcs1"), installationId: 12 };
    const { result } = await runAs(auth, [{ repository: "acme/site" }], {
      insteadOf: [[/access_tokens/, () => new Response(null, { status: 307, headers })]],
    });
    assertStringIncludes(result.problems[0]!, `answers 307, a redirect to 127.0.0.1:${port}`);
    assertEquals([result.asked, seen], [[], []]);
  },
);
