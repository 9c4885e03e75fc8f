import { assert, assertEquals, assertRejects } from "@std/assert";
import { HttpError } from "../../middleware/mod.ts";
import { doesWithoutNodeCrypto, loadWantedNodeCrypto } from "../../core/node_crypto.ts";
import { verifySignedAsync } from "../../webhook/verify_forge_delivery.ts";
import { verifySignature, verifySignatureAsync } from "../../webhook/verify_signature.ts";
import { FORGE_SECRET, sign } from "../_deliveries.ts";
import { testWith } from "../_permissions.ts";

const APPS = ["mod.ts", "apps/forge.ts", "apps/messenger.ts"];

/** What `deno info` tells of a module. `code` is there unless only types are imported. */
interface Module {
  readonly specifier: string;
  readonly dependencies?: readonly { readonly specifier: string; readonly code?: unknown }[];
}

/** The modules of Node that an app imports, which Deno loads before it starts. */
async function nodeModulesOf(app: string): Promise<string[]> {
  const path = new URL(`../../${app}`, import.meta.url).pathname;
  const command = new Deno.Command(Deno.execPath(), { args: ["info", "--json", path] });
  const { stdout } = await command.output();
  const { modules }: { modules: Module[] } = JSON.parse(new TextDecoder().decode(stdout));
  assert(modules.some(({ specifier }) => specifier.endsWith("/webhook/verify_signature.ts")));
  return modules.flatMap(({ dependencies = [] }) => dependencies)
    .filter(({ code, specifier }) => code && specifier.startsWith("node:"))
    .map(({ specifier }) => specifier);
}

for (const app of APPS) {
  testWith(["read", "run"], `${app} starts without modules of Node`, async () => {
    assertEquals(await nodeModulesOf(app), []);
  });
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

Deno.test("nodeCrypto() is done without for a while, and then loaded", async () => {
  loadWantedNodeCrypto();
  await pause(10);
  assertEquals(doesWithoutNodeCrypto(), true);
  assertEquals(doesWithoutNodeCrypto(), true);
  await pause(120);
  assertEquals(doesWithoutNodeCrypto(), false);
});

testWith(["read"], "loadWantedNodeCrypto() loads what was wanted", async () => {
  const url = new URL("../../core/node_crypto.ts", import.meta.url).href;
  const fresh: typeof import("../../core/node_crypto.ts") = await import(`${url}#fresh`);
  assertEquals(fresh.doesWithoutNodeCrypto(), true);
  fresh.loadWantedNodeCrypto();
  await pause(10);
  assertEquals(fresh.doesWithoutNodeCrypto(), false);
});

const TEXTS = ["", "{}", "é\u{1f600}\ufeff", "x".repeat(100_000)];
const SECRETS = ["s", "clé secrète", "s\0s", "x".repeat(64), "x".repeat(65)];

const encoder = new TextEncoder();

Deno.test("verifySignatureAsync() agrees with verifySignature()", async () => {
  for (const text of TEXTS) {
    for (const secret of SECRETS) {
      const right = await sign(text, secret);
      const wrong = await sign(`${text} `, secret);
      for (const signature of [right, wrong, right.toUpperCase(), right.slice(0, -1), "", DIGEST]) {
        assertEquals(
          await verifySignatureAsync(encoder.encode(text), signature, secret),
          verifySignature(text, signature, secret),
          `${text.slice(0, 10)} with ${secret}: ${signature}`,
        );
      }
      assert(await verifySignatureAsync(encoder.encode(text), right, secret));
    }
  }
});

/** Of the empty text, with the empty secret. */
const DIGEST = "sha256=b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad";

Deno.test("verifySignatureAsync() refuses an empty secret, and what is no text", async () => {
  assertEquals(await verifySignatureAsync(new Uint8Array(), DIGEST, ""), false);
  const ofNull = await sign("", "null");
  assertEquals(await verifySignatureAsync(new Uint8Array(), ofNull, null as never), false);
});

const FORM = { "Content-Type": "application/x-www-form-urlencoded" };

async function proof(signed: string, body = signed, headers: Record<string, string> = {}) {
  const signature = await sign(signed);
  return { signature, body: encoder.encode(body), headers: new Headers(headers) };
}

Deno.test("verifySignedAsync() tells which secret it was", async () => {
  const delivery = await proof("{}");
  assertEquals(await verifySignedAsync(delivery, [FORGE_SECRET, "another"]), "secret 1");
  assertEquals(await verifySignedAsync(delivery, ["another", FORGE_SECRET]), "secret 2");
});

Deno.test("verifySignedAsync() takes a form, signed as it is sent or by the document in it", async () => {
  const form = new URLSearchParams({ payload: '{"a":"é b"}' }).toString();
  assertEquals(await verifySignedAsync(await proof(form, form, FORM), [FORGE_SECRET]), "secret 1");
  const inner = await proof('{"a":"é b"}', form, FORM);
  assertEquals(await verifySignedAsync(inner, ["another", FORGE_SECRET]), "secret 2");
});

Deno.test("verifySignedAsync() refuses what is not signed", async () => {
  const form = new URLSearchParams({ payload: "{}" }).toString();
  for (
    const forged of [await proof("{}", "{ }"), await proof("{}", form), await proof("", "", FORM)]
  ) {
    const error = await assertRejects(() => verifySignedAsync(forged, ["another"]), HttpError);
    assertEquals([error.status, error.code], [401, "INVALID_SIG"]);
  }
});
