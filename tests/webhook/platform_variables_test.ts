import { assertEquals, assertThrows } from "@std/assert";
import { VariableError, type Variables } from "../../core/env.ts";
import type { Delivery } from "../../events/mod.ts";
import { forge, messenger } from "../../webhook/mod.ts";
import { sign } from "../_deliveries.ts";
import { preparePlatform } from "../../webhook/platform.ts";

/** Variables with these values, and what was reported about them. */
function variablesOf(values: Record<string, string>): Variables & { warnings: string[] } {
  const warnings: string[] = [];
  return { warnings, get: (name) => values[name], warn: (message) => warnings.push(message) };
}

/** Reads the allowed users; the warnings come along. */
function usersOf(list?: string) {
  const users = list === undefined ? {} : { USERS_ALLOWED_USERS: list };
  const variables = variablesOf({ USERS_SECRET_TOKEN: SENT, ...users });
  const { isAllowed } = preparePlatform(messenger({ name: "users" }), variables);
  const may = (id: number) =>
    isAllowed!({ sender: { id, isBot: false } } as unknown as Delivery, {}) as boolean;
  return { may, warnings: variables.warnings };
}

const [SIGNED, SENT] = ["a secret that is signed with", "a-token-that-is-sent"];

/** Names what verifies a signature, a token and an old token: "" for the only one, "-" for nothing. */
function verifiedBy(set: Record<string, string>): unknown[] {
  const { verifyHead } = preparePlatform(forge(), variablesOf(set));
  const body = new TextEncoder().encode("{}");
  const requests = [
    { "X-Hub-Signature-256": sign("{}", SIGNED) },
    { "X-Gitlab-Token": SENT },
    { "X-Gitlab-Token": "the token of before" },
  ];
  return requests.map((headers) => {
    try {
      return verifyHead(new Headers(headers as HeadersInit))({ bytes: body }) ?? "";
    } catch {
      return "-";
    }
  });
}

Deno.test("forge() is content with secrets, with tokens, or has both", () => {
  const [secret, token] = [{ FORGE_WEBHOOK_SECRET: SIGNED }, { FORGE_WEBHOOK_TOKEN: SENT }];
  const previous = { FORGE_WEBHOOK_TOKEN_PREVIOUS: "the token of before" };
  assertEquals(verifiedBy(secret), ["", "-", "-"]);
  assertEquals(verifiedBy(token), ["-", "", "-"]);
  assertEquals(verifiedBy({ ...secret, ...token, ...previous }), [
    "secret 1",
    "token 1",
    "token 2",
  ]);
});

Deno.test("forge() throws without any, or with a blank one beside a good one", () => {
  const bad: Record<string, string>[] = [{}, { FORGE_WEBHOOK_TOKEN: " " }, {
    FORGE_WEBHOOK_SECRET: "",
  }];
  bad.push({ FORGE_WEBHOOK_SECRET: SIGNED, FORGE_WEBHOOK_TOKEN: "" });
  bad.push({ FORGE_WEBHOOK_SECRET: " ", FORGE_WEBHOOK_TOKEN: SENT });
  for (const set of bad) {
    assertThrows(() => preparePlatform(forge(), variablesOf(set)), VariableError);
  }
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
  Deno.test(`forge() throws and names the variable: ${message}`, () => {
    const error = assertThrows(() => preparePlatform(forge(), variablesOf(set)), VariableError);
    assertEquals(error.message, message);
  });
}

Deno.test("messenger() accepts the token, and the outgoing one", () => {
  const set = {
    MESSENGER_SECRET_TOKEN: SENT,
    MESSENGER_SECRET_TOKEN_PREVIOUS: "of-before-0123456",
  };
  const { verifyHead } = preparePlatform(messenger(), variablesOf(set));
  const names = [SENT, "of-before-0123456"].map((token) =>
    verifyHead(new Headers({ "X-Telegram-Bot-Api-Secret-Token": token }))({
      bytes: new Uint8Array(),
    })
  );
  assertEquals(names, ["secret 1", "secret 2"]);
});

Deno.test("messenger() says once that no header can bring a token, and names the variable", () => {
  const ends = "begins or ends with white space, such as a line break, which no header can bring";
  for (
    const [token, flaw] of [["short\n", ends], [`${SENT} `, ends], ["a\tb", NO_HEADER]] as const
  ) {
    for (const name of ["MESSENGER_SECRET_TOKEN", "MESSENGER_SECRET_TOKEN_PREVIOUS"]) {
      const users = { MESSENGER_ALLOWED_USERS: "*" };
      const variables = variablesOf({ MESSENGER_SECRET_TOKEN: SENT, ...users, [name]: token });
      const error = assertThrows(() => preparePlatform(messenger(), variables), VariableError);
      assertEquals([error.message, variables.warnings], [`${name} ${flaw}`, []]);
    }
  }
});

Deno.test("messenger() reads a list of ids", () => {
  for (const list of ["42", "42,7", " 42 , 7 ", "*", "42,*", "9007199254740991"]) {
    const { may, warnings } = usersOf(list);
    const ids = [42, 7, 9007199254740991];
    const isListed = (id: number) =>
      list.includes("*") || list.split(",").some((each) => +each === id);
    assertEquals([ids.map(may), warnings], [ids.map(isListed), []]);
  }
});

Deno.test("messenger() says that an empty list allows nobody", () => {
  for (const list of [undefined, "", "  "]) {
    const { may, warnings } = usersOf(list);
    assertEquals(may(42), false);
    assertEquals(warnings, [
      "USERS_ALLOWED_USERS is empty: no user is allowed. Write to the bot, set USERS_ALLOWED_USERS to the userId in the log's " +
      "warning about that, and restart; or set it to * to allow everybody",
    ]);
  }
});

Deno.test("messenger() refuses what is no user id, without its text", () => {
  const entries = ["alice", "@alice", "-100123", "0", "042", "4 2", "1e3", "4.2", "**", "", "٤٢"];
  for (const entry of [...entries, "12345678901234567"]) {
    const error = assertThrows(
      () => usersOf(`42,${entry},7`),
      VariableError,
      "USERS_ALLOWED_USERS: entry 2",
    );
    assertEquals(error.message, "USERS_ALLOWED_USERS: entry 2 is neither a user id nor *");
  }
});
