import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { VariableError, variablesIn } from "../../../../core/env.ts";
import { readKvPlace } from "../../../../events/store/kv/kv_store.ts";
import { defineApp, github, kv, openApp } from "../../../../mod.ts";

type Values = Record<string, string>;

const placeIn = (values: Values) => readKvPlace(variablesIn(values, () => {}));

const NOTIFIERS: readonly [Values, string][] = [
  [{}, "auto"],
  [{ NOTIFIER: " " }, "auto"],
  ...["auto", "enqueue", "watch"].flatMap((name): [Values, string][] => [
    [{ NOTIFIER: name }, name],
    [{ NOTIFIER: ` ${name} ` }, name],
  ]),
  [{ DENO_DEPLOY: "true" }, "watch"],
  [{ DENO_DEPLOY: "1" }, "watch"],
  [{ NOTIFIER: "auto", DENO_DEPLOY: "true" }, "watch"],
  [{ NOTIFIER: "enqueue", DENO_DEPLOY: "true" }, "enqueue"],
  [{ DENO_DEPLOY: "false" }, "auto"],
];

Deno.test("NOTIFIER names a notifier: by default auto, and watch on Deno Deploy, which has no queues", () => {
  for (const [values, notifier] of NOTIFIERS) assertEquals(placeIn(values).notifier, notifier);
});

Deno.test("KV_URL names the place of a KV, and none of another database", () => {
  const urlIn = (KV_URL: string) => placeIn({ KV_URL }).url;
  const places = ["", " ", " ./kv.db ", ":memory:", "https://kv.test", "HTTP://kv.test"];
  assertEquals(places.map(urlIn), [
    ...[undefined, undefined, "./kv.db", ":memory:", "https://kv.test", "HTTP://kv.test"],
  ]);
  for (const KV_URL of ["postgres://kv.test", "htp://bob:s3cret@kv.test", "kv:./kv.db"]) {
    const { message } = assertThrows(() => placeIn({ KV_URL }), VariableError);
    const must = "KV_URL must be a path, :memory: or a URL with http or https";
    assertEquals(message, `${must}, and begins with ${KV_URL.split(":")[0]}:`);
  }
});

Deno.test("kv() names all that is wrong with its variables at once", () => {
  const wrong = { NOTIFIER: "queue", KV_URL: "postgres://kv.test" };
  const { message } = assertThrows(() => placeIn(wrong), VariableError);
  assertEquals(message.split("; ").map((flaw) => flaw.split(" ")[0]), ["NOTIFIER", "KV_URL"]);
});

Deno.test("kv() reads no place of a KV that is open already", async () => {
  using opened = await Deno.openKv(":memory:");
  assertEquals([kv().variables, kv(opened).variables], [["NOTIFIER", "KV_URL"], ["NOTIFIER"]]);
  const place = readKvPlace(variablesIn({ KV_URL: "postgres://kv.test" }, () => {}), { opened });
  assertEquals([place.opened, place.url], [opened, undefined]);
});

Deno.test("kv() says that the KV it was given is closed", async () => {
  const closed = await Deno.openKv(":memory:");
  closed.close();
  const bot = defineApp({ name: "bot", platform: github() });
  const env = { GITHUB_WEBHOOK_SECRET: "a long random text" };
  const open = () => openApp(bot, { env, store: kv(closed), log: () => {} });
  await assertRejects(open, Error, "the KV that kv() was given cannot be used: it is closed");
});

Deno.test("kv() refuses what is no open KV", () => {
  for (const wrong of [null, ":memory:", {}, Promise.resolve()]) {
    assertThrows(() => kv(wrong as never), TypeError, "the KV must be what Deno.openKv() resolves");
  }
});
