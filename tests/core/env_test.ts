import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import {
  checkEnvSpec,
  optional,
  readAll,
  readEnv,
  required,
  secrets as secretsVariable,
  VariableError,
  type Variables,
  variablesIn,
} from "../../core/env.ts";

const SECRET = "16-characters-ok";

/** Variables with these values, and what was reported about them. */
function variablesOf(values: Record<string, string>): Variables & { warnings: string[] } {
  const warnings: string[] = [];
  return { warnings, get: (name) => values[name], warn: (message) => warnings.push(message) };
}

/** Reads the secret `KEY`; the warnings come along. */
function secretsOf(values: Record<string, string>) {
  const variables = variablesOf(values);
  return { secrets: secretsVariable.read("KEY", variables), warnings: variables.warnings };
}

Deno.test("secrets holds the secret and the outgoing one of a rotation, as they are", () => {
  const odd = " a, b;c\n d=é \u{1f511} ";
  const cases: [string, string, string[]][] = [
    [SECRET, "the-outgoing-secret", [SECRET, "the-outgoing-secret"]],
    [odd, `${odd},`, [odd, `${odd},`]],
    ...["", " ", "\n\t"].map((blank): [string, string, string[]] => [SECRET, blank, [SECRET]]),
  ];
  for (const [KEY, KEY_PREVIOUS, secrets] of cases) {
    assertEquals(secretsOf({ KEY, KEY_PREVIOUS }).secrets, secrets);
  }
  assertEquals(secretsOf({ KEY: SECRET }), { secrets: [SECRET], warnings: [] });
});

Deno.test("secrets throws without a secret, and names the variable", () => {
  assertThrows(() => secretsOf({}), VariableError, "KEY is not set");
  assertThrows(() => secretsOf({ KEY_PREVIOUS: SECRET }), VariableError, "KEY is not set");
  for (const KEY of ["", " ", "\t", "\r\n"]) {
    assertThrows(() => secretsOf({ KEY }), VariableError, "KEY is blank");
  }
});

for (
  const [text, what] of [
    [`${SECRET}\n`, "ends with a line break"],
    [`${SECRET}\r\n`, "ends with a line break"],
    [`${SECRET} `, "ends with white space"],
    [`\t${SECRET}`, "begins with white space"],
    [`\n${SECRET}\n`, "ends with a line break"],
  ] as const
) {
  Deno.test(`secrets warns of a secret that ${what}: ${JSON.stringify(text)}`, () => {
    for (const name of ["KEY", "KEY_PREVIOUS"]) {
      const { secrets, warnings } = secretsOf({ KEY: SECRET, [name]: text });
      assert(secrets.includes(text));
      assertEquals(warnings.length, 1);
      assertStringIncludes(warnings[0]!, `${name} ${what}`);
      assert(!warnings[0]!.includes(SECRET));
    }
  });
}

Deno.test("secrets warns of a secret under 16 characters without its value, and accepts it", () => {
  for (const name of ["KEY", "KEY_PREVIOUS"]) {
    const { secrets, warnings } = secretsOf({ KEY: SECRET, [name]: "fifteen-letters" });
    assert(secrets.includes("fifteen-letters"));
    assertEquals(warnings.length, 1);
    assertStringIncludes(warnings[0]!, `${name} has under`);
    assert(!warnings[0]!.includes("fifteen-letters"));
  }
});

const SPEC = { TOKEN: required, MODEL: optional("small"), REGION: optional() };

Deno.test("readEnv() reads what is required, and what is optional", () => {
  const read = (values: Record<string, string>) => readEnv(SPEC, variablesOf(values));
  assertEquals(read({ TOKEN: "t" }), { TOKEN: "t", MODEL: "small", REGION: undefined });
  const all = { TOKEN: " t ", MODEL: "large", REGION: "eu" };
  assertEquals(read(all), all);
  assertEquals(read({ TOKEN: "t", MODEL: " ", REGION: "" }), read({ TOKEN: "t" }));
});

Deno.test("readEnv() gives values the types of their variables", () => {
  const env = readEnv(
    { ...SPEC, KEYS: secretsVariable },
    variablesOf({ TOKEN: "t", KEYS: SECRET }),
  );
  const types: [string, string, string | undefined, readonly string[]] = [
    ...[env.TOKEN, env.MODEL] as const,
    ...[env.REGION, env.KEYS] as const,
  ];
  assertEquals(types, ["t", "small", undefined, [SECRET]]);
  // @ts-expect-error: nobody has described it.
  assertEquals(env.OTHER, undefined);
});

Deno.test("readEnv() names everything that is missing at once, and each thing once", () => {
  const read = () =>
    readEnv({ A: required, B: required, C: secretsVariable }, variablesOf({ B: " " }));
  const error = assertThrows(read, VariableError);
  assertEquals(String(error), "VariableError: A is not set; B is blank; C is not set");
  const twice = () => required.read("A", variablesOf({}));
  assertEquals(assertThrows(() => readAll(twice, twice), VariableError).message, "A is not set");
});

Deno.test("readAll() passes on an error that is not about a variable", () => {
  const fail = () => {
    throw new TypeError("a mistake");
  };
  assertThrows(
    () => readAll(() => required.read("A", variablesOf({})), fail),
    TypeError,
    "a mistake",
  );
});

Deno.test("variablesIn() has only the object's own values", () => {
  const variables = variablesIn({ A: "1" }, () => {});
  assertEquals([variables.get("A"), variables.get("toString")], ["1", undefined]);
  const wrong = variablesIn({ B: 8000 as never }, () => {});
  assertThrows(() => wrong.get("B"), VariableError, "B must be a text, got number");
});

for (
  const [variable, what] of [[optional, "got the function itself: call it"], [
    "ghp_x",
    "got a text: the value is read at the start",
  ], [
    null,
    "got null",
  ]]
) {
  Deno.test(`checkEnvSpec() refuses what is no variable: ${what}`, () => {
    const check = () => checkEnvSpec("define the app", "env", { A: variable });
    const message =
      "Cannot define the app: the variable 'A' in 'env' must be required, optional() or secrets, ";
    assertEquals(assertThrows(check, TypeError).message, message + what);
  });
}
