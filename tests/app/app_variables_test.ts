import { assertEquals, assertThrows } from "@std/assert";
import {
  readInteger,
  readLogFormat,
  readNotifier,
  readPlace,
  refuseProxyHeaders,
} from "../../app/app_variables.ts";
import { VariableError, type Variables, variablesIn } from "../../core/env.ts";

const variablesOf = (values: Record<string, string>): Variables => variablesIn(values, () => {});

const integerOf = (text?: string) =>
  readInteger(variablesOf(text === undefined ? {} : { PORT: text }), "PORT", {
    fallback: 8000,
    max: 65_535,
  });

const notifierOf = (values: Record<string, string>) =>
  readNotifier(variablesOf(values), "NOTIFIER");

Deno.test("readInteger() reads a whole number", () => {
  for (
    const [text, number] of [["0", 0], ["80", 80], [" 8080 ", 8080], ["65535", 65_535]] as const
  ) {
    assertEquals(integerOf(text), number);
  }
});

Deno.test("readInteger() falls back where the variable is not set or blank", () => {
  for (const text of [undefined, "", " "]) assertEquals(integerOf(text), 8000);
});

Deno.test("readInteger() refuses any other text, without repeating it", () => {
  const texts = ["65536", "-1", "+1", "1.5", "1e3", "0x10", "8 0", "NaN", "Infinity", "٨", "8080s"];
  for (const text of [...texts, "9".repeat(400), "00000000080"]) {
    const error = assertThrows(() => integerOf(text), VariableError);
    assertEquals(error.message, "PORT must be a whole number from 0 to 65535");
  }
});

Deno.test("readNotifier() reads the three notifiers", () => {
  assertEquals(notifierOf({}), "auto");
  for (const notifier of ["auto", "enqueue", "watch"] as const) {
    assertEquals(notifierOf({ NOTIFIER: notifier }), notifier);
    assertEquals(notifierOf({ NOTIFIER: ` ${notifier} ` }), notifier);
  }
  assertEquals(notifierOf({ NOTIFIER: " " }), "auto");
});

Deno.test("readNotifier() makes auto watch on Deno Deploy, which has no queues", () => {
  assertEquals(notifierOf({ DENO_DEPLOY: "true" }), "watch");
  assertEquals(notifierOf({ DENO_DEPLOY: "1" }), "watch");
  assertEquals(notifierOf({ NOTIFIER: "auto", DENO_DEPLOY: "true" }), "watch");
  assertEquals(notifierOf({ DENO_DEPLOY: "false" }), "auto");
});

Deno.test("readNotifier() lets the variable decide on Deno Deploy too", () => {
  assertEquals(notifierOf({ NOTIFIER: "enqueue", DENO_DEPLOY: "true" }), "enqueue");
});

Deno.test("readNotifier() refuses any other text, without repeating it", () => {
  for (const NOTIFIER of ["Auto", "queue", "enqueue,watch", "true"]) {
    const error = assertThrows(() => notifierOf({ NOTIFIER }), VariableError);
    assertEquals(error.message, "NOTIFIER must be auto, enqueue or watch");
  }
});

Deno.test("readLogFormat() reads the forms of the log", () => {
  const formatOf = (LOG_FORMAT: string) => readLogFormat(variablesOf({ LOG_FORMAT }), "LOG_FORMAT");
  assertEquals(readLogFormat(variablesOf({}), "LOG_FORMAT"), "auto");
  assertEquals([" ", " json ", "text", "auto"].map(formatOf), ["auto", "json", "text", "auto"]);
  for (const text of ["JSON", "pretty", "json,text", "true"]) {
    const error = assertThrows(() => formatOf(text), VariableError);
    assertEquals(error.message, "LOG_FORMAT must be auto, json or text");
  }
});

Deno.test("refuseProxyHeaders() throws outside Deno Deploy only, and names the remedy", () => {
  const set = { DENO_TRUST_PROXY_HEADERS: "1" };
  const refuse = (values: Record<string, string>) => refuseProxyHeaders(variablesOf(values));
  assertThrows(() => refuse(set), VariableError, "set TRUSTED_PROXY_HOPS");
  refuse({ ...set, DENO_DEPLOY: "true" });
  refuse({ DENO_TRUST_PROXY_HEADERS: "" });
  refuse({});
});

Deno.test("readPlace() reads HOST and PORT", () => {
  assertEquals(readPlace(variablesOf({})), { hostname: "0.0.0.0", port: 8000 });
  const place = { hostname: "::1", port: 0 };
  assertEquals(readPlace(variablesOf({ HOST: " ::1 ", PORT: "0" })), place);
  assertThrows(() => readPlace(variablesOf({ PORT: "http" })), VariableError, "PORT");
});
