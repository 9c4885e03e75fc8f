import { assertEquals, assertThrows } from "@std/assert";
import { planOf, readLogFormat, readPlace } from "../../app/variables.ts";
import { VariableError, variablesIn } from "../../core/env.ts";
import { defineApp, github } from "../../mod.ts";
import { TEST_SECRETS } from "../../testing/mod.ts";

type Values = Record<string, string>;

/** Reads the variables of an app that is opened. */
const planFor = (values: Values) =>
  planOf(
    defineApp({ name: "bot", platform: github() }),
    variablesIn({ GITHUB_WEBHOOK_SECRET: TEST_SECRETS.signing, ...values }, () => {}),
  );

const placeFor = (values: Values) => readPlace(variablesIn(values, () => {}));

const portFor = (PORT: string) => placeFor({ PORT }).port;

Deno.test("PORT is a whole number, and 8000 if it is not set or blank", () => {
  assertEquals(["0", "80", " 8080 ", "65535"].map(portFor), [0, 80, 8080, 65_535]);
  assertEquals(["", " "].map(portFor), [8000, 8000]);
  const texts = ["65536", "-1", "+1", "1.5", "1e3", "0x10", "8 0", "NaN", "Infinity", "٨", "8080s"];
  for (const text of [...texts, "9".repeat(400), "00000000080"]) {
    const error = assertThrows(() => portFor(text), VariableError);
    assertEquals(error.message, "PORT must be a whole number from 0 to 65535");
  }
});

Deno.test("an app listens on HOST and PORT", () => {
  assertEquals(placeFor({}), { hostname: "0.0.0.0", port: 8000 });
  assertEquals(placeFor({ HOST: " ::1 ", PORT: "0" }), { hostname: "::1", port: 0 });
});

Deno.test("LOG_FORMAT names a form of the log, and a wrong one is reported with the other variables", () => {
  const formatFor = (LOG_FORMAT: string) => readLogFormat({ LOG_FORMAT });
  assertEquals(readLogFormat({}), "auto");
  assertEquals([" ", " json ", "text", "auto"].map(formatFor), ["auto", "json", "text", "auto"]);
  assertEquals(formatFor("pretty"), "auto");
});

const WRONG: readonly [() => unknown, string][] = [
  ...["JSON", "pretty", "json,text", "true"].map((LOG_FORMAT) =>
    [() => placeFor({ LOG_FORMAT }), "LOG_FORMAT must be auto, json or text"] as const
  ),
  ...["Auto", "queue", "enqueue,watch", "true"].map((NOTIFIER) =>
    [() => planFor({ NOTIFIER }), "NOTIFIER must be auto, enqueue or watch"] as const
  ),
].map(([read, message]) => [read, message]);

Deno.test("a variable with another text is refused, without repeating it", () => {
  for (const [read, message] of WRONG) {
    assertEquals(assertThrows(read, VariableError).message, message);
  }
});

Deno.test("DENO_TRUST_PROXY_HEADERS is refused outside Deno Deploy only, and the remedy named", () => {
  const set = { DENO_TRUST_PROXY_HEADERS: "1" };
  assertThrows(() => planFor(set), VariableError, "set TRUSTED_PROXY_HOPS");
  planFor({ ...set, DENO_DEPLOY: "true" });
  planFor({ DENO_TRUST_PROXY_HEADERS: "" });
});
