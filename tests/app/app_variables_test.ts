import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import {
  type AppVariables,
  readAllowedUsers,
  readForgeSecrets,
  readInteger,
  readLogFormat,
  readNotifier,
  readSecrets,
  readTokens,
  refuseProxyHeaders,
  VariableError,
} from "../../app/app_variables.ts";

const SECRET = "16-characters-ok";

/** Variables with these values, and what was reported about them. */
function variablesOf(values: Record<string, string>): AppVariables & { warnings: string[] } {
  const warnings: string[] = [];
  return { warnings, get: (name) => values[name], warn: (message) => warnings.push(message) };
}

/** Reads the secret `KEY`; the warnings come along. */
function secretsOf(values: Record<string, string>) {
  const variables = variablesOf(values);
  return { secrets: readSecrets(variables, "KEY"), warnings: variables.warnings };
}

/** Reads the allowed users from `USERS`; the warnings come along. */
function usersOf(list?: string) {
  const variables = variablesOf(list === undefined ? {} : { USERS: list });
  return { users: readAllowedUsers(variables, "USERS"), warnings: variables.warnings };
}

const integerOf = (text?: string) =>
  readInteger(variablesOf(text === undefined ? {} : { PORT: text }), "PORT", {
    fallback: 8000,
    max: 65_535,
  });

const notifierOf = (values: Record<string, string>) =>
  readNotifier(variablesOf(values), "NOTIFIER");

Deno.test("readSecrets() returns the one secret", () => {
  assertEquals(secretsOf({ KEY: SECRET }), { secrets: [SECRET], warnings: [] });
});

Deno.test("readSecrets() appends the outgoing secret of a rotation", () => {
  const { secrets } = secretsOf({ KEY: SECRET, KEY_PREVIOUS: "the-outgoing-secret" });
  assertEquals(secrets, [SECRET, "the-outgoing-secret"]);
});

Deno.test("readSecrets() ignores a blank outgoing secret", () => {
  for (const KEY_PREVIOUS of ["", " ", "\n\t"]) {
    assertEquals(secretsOf({ KEY: SECRET, KEY_PREVIOUS }).secrets, [SECRET]);
  }
});

Deno.test("readSecrets() never splits or trims a secret", () => {
  const secret = " a, b;c\n d=é \u{1f511} ";
  assertEquals(secretsOf({ KEY: secret, KEY_PREVIOUS: `${secret},` }).secrets, [
    secret,
    `${secret},`,
  ]);
});

Deno.test("readSecrets() throws without a secret, and names the variable", () => {
  assertThrows(() => secretsOf({}), VariableError, "KEY is not set");
  assertThrows(() => secretsOf({ KEY_PREVIOUS: SECRET }), VariableError, "KEY is not set");
  for (const KEY of ["", " ", "\t", "\r\n"]) {
    assertThrows(() => secretsOf({ KEY }), VariableError, "KEY is blank");
  }
});

Deno.test("readSecrets() warns of a secret under 16 characters, without its value", () => {
  const { secrets, warnings } = secretsOf({ KEY: "fifteen-letters" });
  assertEquals(secrets, ["fifteen-letters"]);
  assertEquals(warnings.length, 1);
  assertStringIncludes(warnings[0]!, "KEY");
  assert(!warnings[0]!.includes("fifteen-letters"));
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
  Deno.test(`readSecrets() warns of a secret that ${what}: ${JSON.stringify(text)}`, () => {
    for (const name of ["KEY", "KEY_PREVIOUS"]) {
      const { secrets, warnings } = secretsOf({ KEY: SECRET, [name]: text });
      assert(secrets.includes(text));
      assertEquals(warnings.length, 1);
      assertStringIncludes(warnings[0]!, `${name} ${what}`);
      assert(!warnings[0]!.includes(SECRET));
    }
  });
}

Deno.test("readSecrets() warns of a short outgoing secret, which is accepted just the same", () => {
  const { warnings } = secretsOf({ KEY: SECRET, KEY_PREVIOUS: "guessable" });
  assertEquals(warnings.length, 1);
  assertStringIncludes(warnings[0]!, "KEY_PREVIOUS");
  assert(!warnings[0]!.includes("guessable"));
});

const [SIGNED, SENT] = ["a secret that is signed with", "a-token-that-is-sent"];

Deno.test("readForgeSecrets() is content with secrets, with tokens, or has both", () => {
  const forge = (set: Record<string, string>) => readForgeSecrets(variablesOf(set));
  const [secret, token] = [{ FORGE_WEBHOOK_SECRET: SIGNED }, { FORGE_WEBHOOK_TOKEN: SENT }];
  assertEquals(forge(secret), { secrets: [SIGNED], tokens: [] });
  assertEquals(forge(token), { secrets: [], tokens: [SENT] });
  const previous = { FORGE_WEBHOOK_TOKEN_PREVIOUS: "the token of before" };
  const tokens = [SENT, "the token of before"];
  assertEquals(forge({ ...secret, ...token, ...previous }), { secrets: [SIGNED], tokens });
});

Deno.test("readForgeSecrets() throws without any, or with a blank one beside a good one", () => {
  const bad: Record<string, string>[] = [{}, { FORGE_WEBHOOK_TOKEN: " " }, {
    FORGE_WEBHOOK_SECRET: "",
  }];
  bad.push({ FORGE_WEBHOOK_SECRET: SIGNED, FORGE_WEBHOOK_TOKEN: "" });
  bad.push({ FORGE_WEBHOOK_SECRET: " ", FORGE_WEBHOOK_TOKEN: SENT });
  for (const set of bad) assertThrows(() => readForgeSecrets(variablesOf(set)), VariableError);
});

const NO_HEADER = "has characters that no header can bring";
const [SECRET_NAME, TOKEN_NAME] = ["FORGE_WEBHOOK_SECRET", "FORGE_WEBHOOK_TOKEN"] as const;

const OF_NO_USE: readonly (readonly [Record<string, string>, message: string])[] = [
  [{ [SECRET_NAME]: "whsec_%%%" }, `${SECRET_NAME} begins with whsec_ and is not base64`],
  [
    { [SECRET_NAME]: SIGNED, [`${SECRET_NAME}_PREVIOUS`]: "whsec_&&" },
    `${SECRET_NAME}_PREVIOUS begins with whsec_ and is not base64`,
  ],
  [{ [TOKEN_NAME]: "tökenmitumlautundlang" }, `${TOKEN_NAME} ${NO_HEADER}`],
  [
    { [TOKEN_NAME]: SENT, [`${TOKEN_NAME}_PREVIOUS`]: "a\nb" },
    `${TOKEN_NAME}_PREVIOUS ${NO_HEADER}`,
  ],
  [
    { [SECRET_NAME]: SENT, [TOKEN_NAME]: SENT },
    `${TOKEN_NAME} is the same as ${SECRET_NAME}: a token is sent with each request, a secret must not be`,
  ],
  [
    { [SECRET_NAME]: SIGNED, [`${SECRET_NAME}_PREVIOUS`]: SENT, [TOKEN_NAME]: SENT },
    `${TOKEN_NAME} is the same as ${SECRET_NAME}_PREVIOUS: a token is sent with each request, a secret must not be`,
  ],
];

for (const [set, message] of OF_NO_USE) {
  Deno.test(`readForgeSecrets() throws and names the variable: ${message}`, () => {
    const error = assertThrows(() => readForgeSecrets(variablesOf(set)), VariableError);
    assertEquals(error.message, message);
  });
}

Deno.test("readTokens() returns the token, and the outgoing one", () => {
  const variables = variablesOf({ KEY: SENT, KEY_PREVIOUS: SECRET });
  assertEquals(readTokens(variables, "KEY"), [SENT, SECRET]);
});

Deno.test("readTokens() says once that no header can bring a token, and names the variable", () => {
  const ends = "begins or ends with white space, such as a line break, which no header can bring";
  for (
    const [token, flaw] of [["short\n", ends], [`${SENT} `, ends], ["a\tb", NO_HEADER]] as const
  ) {
    for (const name of ["KEY", "KEY_PREVIOUS"]) {
      const variables = variablesOf({ KEY: SENT, [name]: token });
      const error = assertThrows(() => readTokens(variables, "KEY"), VariableError);
      assertEquals([error.message, variables.warnings], [`${name} ${flaw}`, []]);
    }
  }
});

Deno.test("readAllowedUsers() returns a list of ids as it is", () => {
  for (const list of ["42", "42,7", " 42 , 7 ", "*", "42,*", "9007199254740991"]) {
    assertEquals(usersOf(list), { users: list, warnings: [] });
  }
});

Deno.test("readAllowedUsers() says that an empty list allows nobody", () => {
  for (const list of [undefined, "", "  "]) {
    const { users, warnings } = usersOf(list);
    assertEquals(users, undefined);
    assertEquals(warnings, [
      "USERS is empty: no user is allowed. Write to the bot, set USERS to the userId in the log's " +
      "warning about that, and restart; or set it to * to allow everybody",
    ]);
  }
});

Deno.test("readAllowedUsers() refuses what is no user id, without its text", () => {
  const entries = ["alice", "@alice", "-100123", "0", "042", "4 2", "1e3", "4.2", "**", "", "٤٢"];
  for (const entry of [...entries, "12345678901234567"]) {
    const error = assertThrows(() => usersOf(`42,${entry},7`), VariableError, "USERS: entry 2");
    assertEquals(error.message, "USERS: entry 2 is neither a user id nor *");
  }
});

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

Deno.test("VariableError has its own name", () => {
  assertEquals(String(new VariableError("KEY is not set")), "VariableError: KEY is not set");
});

Deno.test("refuseProxyHeaders() throws outside Deno Deploy only, and names the remedy", () => {
  const set = { DENO_TRUST_PROXY_HEADERS: "1" };
  const refuse = (values: Record<string, string>) => refuseProxyHeaders(variablesOf(values));
  assertThrows(() => refuse(set), VariableError, "set TRUSTED_PROXY_HOPS");
  refuse({ ...set, DENO_DEPLOY: "true" });
  refuse({ DENO_TRUST_PROXY_HEADERS: "" });
  refuse({});
});
