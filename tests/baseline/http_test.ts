/** HTTP: one way to the webhook, and one shape of errors. See `_rows.ts`. */
import { forgeDelivery } from "../_deliveries.ts";
import { ON_DENO_2_5 } from "../_deno_version.ts";
import { exchange } from "../webhook/_served.ts";
import { running, testRow } from "./_rows.ts";
import type { Answer, Subject } from "./_subject.ts";

const METHODS = ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"];

testRow({
  what: "another method is answered 405, with the one that there is",
  probe: running(async ({ send }) => {
    const seen = new Set<string>();
    for (const method of METHODS) {
      const answer = await send({ method, headers: { "X-HTTP-Method-Override": "POST" } });
      seen.add(`${answer?.status} ${answer?.headers.get("Allow")}`);
    }
    return [...seen];
  }),
  wanted: ["405 POST"],
  baseline: ["404 null"],
});

/** Sends a genuine delivery over a socket, under a target and a host of its own. */
async function sendRaw({ port }: Subject, target: string, host: string): Promise<number> {
  const { headers } = forgeDelivery("{}");
  const lines = [...headers].map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const head = `POST ${target} HTTP/1.1\r\n${host}${lines}Connection: close\r\nContent-Length: 2`;
  return (await exchange(port, `${head}\r\n\r\n{}`)).statuses[0] ?? 0;
}

const SPELLINGS = [
  ...[
    "//webhook",
    "/webhook/",
    "/Webhook",
    "/webhook//",
    "/webhook%2f",
    "/webhook;a",
    "/%2fwebhook",
  ],
  ...["/%77ebhook", "/webhoo%6B"],
  // The parser of Deno 2.5 drops a fragment before anybody sees it.
  ...ON_DENO_2_5 ? [] : ["/webhook#a"],
];

testRow({
  what: "the webhook has one spelling",
  probe: running(async (subject) => {
    const seen: number[] = [];
    for (const path of SPELLINGS) seen.push(await sendRaw(subject, path, "Host: localhost\r\n"));
    return seen;
  }),
  wanted: SPELLINGS.map(() => 404),
  baseline: SPELLINGS.map((_, i) => i < 7 ? 404 : 200),
});

const HOSTS = [
  "Host: x/webhook?\r\n",
  "Host: x/webhook#\r\n",
  "Host: user@x\r\n",
  "Host: a b\r\n",
  "",
];

testRow({
  what: "a host that is none, or brings a path, is answered 400",
  probe: running(async (subject) => {
    const seen: number[] = [];
    for (const host of HOSTS) seen.push(await sendRaw(subject, "/public", host));
    return seen;
  }),
  wanted: [400, 400, 400, 400, 400],
  baseline: [200, 200, 404, 404, 404],
});

/** Tells whether an answer has the shape of errors: JSON, with a text and nothing else. */
function shapeOf(answer: Answer | undefined): string {
  const text = answer?.text ?? "";
  const isShape = /^\{"error":"[^"]+"\}$/.test(text) && !text.includes("a cause");
  return `${answer?.status} ${isShape ? "in the shape" : text}`;
}

testRow({
  what: "errors of all kinds have one shape, and tell nothing of the cause",
  probe: running(async ({ send }) => {
    const seen: string[] = [];
    for (const path of ["/fails/error", "/fails/text", "/fails/response", "/none"]) {
      seen.push(shapeOf(await send({}, path)));
    }
    return seen;
  }),
  wanted: ["500 in the shape", "500 in the shape", "403 in the shape", "404 in the shape"],
  baseline: [
    "500 Internal Server Error",
    "500 Internal Server Error",
    "403 <h1>a cause</h1>",
    "404 404 Not Found",
  ],
});

testRow({
  what: "each answer says what it is, and is neither guessed at nor kept",
  probe: running(async ({ send }) => {
    const answers = [
      await send(forgeDelivery("{}")),
      await send({ method: "POST" }),
      await send({}, "/health"),
      await send({}, "/none"),
      await send({}, "/fails/error"),
    ];
    return answers.map((answer) =>
      ["Content-Type", "X-Content-Type-Options", "Cache-Control"]
        .map((name) => answer?.headers.get(name)?.split(";")[0] ?? "-").join(" ")
    );
  }),
  wanted: [
    "text/plain nosniff no-store",
    ...Array(4).fill("application/json nosniff no-store"),
  ],
  baseline: [
    "text/plain - -",
    "text/plain - -",
    "application/json - -",
    "text/plain - -",
    "text/plain - -",
  ],
});
