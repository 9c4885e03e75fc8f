import fc from "fast-check";
import { FORGE_SECRET, MESSENGER_SECRET, sign } from "../_deliveries.ts";

/** A request out of nowhere, and whether its sender knows the secret. */
export interface Fuzzed {
  readonly request: Request;
  /** Undefined: one of its own, so that the limiter hides nothing. */
  readonly remoteAddr: Deno.Addr | undefined;
  readonly isVerified: boolean;
}

/** Value of a header: nothing, or any of these. */
type Choice = string | undefined;

const encoder = new TextEncoder();

/** Any text that a header can carry, however strange. */
const garbage = fc.string({
  unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)),
  maxLength: 80,
})
  .map((text) => text.replaceAll(/[\0\r\n]/g, "").trim());

/** Mostly what is right, so that what comes after it is reached, and else anything. */
function mostly<T>(right: readonly T[], ...others: fc.Arbitrary<T>[]): fc.Arbitrary<T> {
  return fc.oneof({ weight: 8, arbitrary: fc.constantFrom(...right) }, ...others);
}

const text = (...right: Choice[]): fc.Arbitrary<Choice> =>
  mostly<Choice>(right, garbage, fc.constant(undefined));

const method = mostly(
  ["POST"],
  fc.constantFrom("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "post", "X"),
);

const path = mostly(
  ["/webhook"],
  fc.constantFrom(
    "/health",
    "/health/live",
    "/health/ready",
    "/",
    "//webhook",
    "/webhook/",
    "/Webhook",
  ),
  fc.constantFrom(
    "/%77ebhook",
    "/webhook%2f",
    "/x/../webhook",
    "/%0a%1b%5b31m%e2%80%a8%e2%80%ae%00",
    "/webhook?a=b",
    "/webhook;x",
    "/webhook%00",
  ),
  fc.webPath(),
);

const payload = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom("{}", `{"action":"opened","issue":{"number":1}}`) },
  {
    weight: 3,
    arbitrary: fc.dictionary(fc.string(), fc.jsonValue()).map((value) => JSON.stringify(value)),
  },
  { weight: 1, arbitrary: fc.json() },
  { weight: 1, arbitrary: fc.string({ unit: "binary" }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      ...["", "null", "[]", "7", "{", "\ufeff{}", `{"__proto__":{"a":1}}`, "{} {}", "nul"],
      ...[64, 65, 5_000].map((depth) => `${`{"a":`.repeat(depth)}1${"}".repeat(depth)}`),
    ),
  },
);

/** An update of a messenger, or nearly one. */
const update = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      id: mostly<unknown>([undefined], fc.nat(), fc.constantFrom("7", -1, 2 ** 53, 1.5, null)),
      kind: mostly(["message", "callback_query", "poll_answer"], fc.string()),
      user: mostly<unknown>([42], fc.constantFrom(43, "42", undefined, {}, 42.5), fc.jsonValue()),
      chat: fc.jsonValue(),
    }).map(({ id, kind, user, chat }) =>
      JSON.stringify({ update_id: id, [kind]: { from: { id: user }, user: { id: user }, chat } })
    ),
  },
  { weight: 1, arbitrary: payload },
);

const body = (document: fc.Arbitrary<string>): fc.Arbitrary<Uint8Array> =>
  fc.oneof(
    { weight: 6, arbitrary: document.map((each) => encoder.encode(each)) },
    {
      weight: 1,
      arbitrary: document.map((each) => encoder.encode(`payload=${encodeURIComponent(each)}`)),
    },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 200 }) },
  );

const remoteAddr = mostly<Deno.Addr | undefined>(
  [undefined],
  fc.constant<Deno.Addr>({ transport: "unix", path: "/run/x.sock" }),
  fc.oneof(fc.ipV4(), fc.ipV6(), fc.string()).map((hostname): Deno.Addr => ({
    ...{ transport: "tcp", hostname, port: 1 },
  })),
);

/** Headers that any request may bring. */
const COMMON = {
  "Content-Encoding": fc.oneof(
    { weight: 9, arbitrary: fc.constant(undefined) },
    text("gzip", "identity"),
  ),
  "Content-Length": fc.oneof(
    { weight: 9, arbitrary: fc.constant(undefined) },
    text("0", "7", "99999999999", "-1", "2, 2"),
  ),
  "Content-Type": text(
    "application/json",
    "application/json; charset=utf-8",
    "application/x-www-form-urlencoded",
  ),
  "Host": fc.oneof(
    { weight: 9, arbitrary: fc.constant<Choice>("localhost") },
    text("x/webhook?", "a b", "[::1]:80"),
  ),
  "X-Forwarded-For": text(undefined, "192.0.2.1", "::1, 192.0.2.1"),
  "X-HTTP-Method-Override": text(undefined, "POST"),
  "X-Request-Id": fc.oneof(fc.constant(undefined), garbage.map((each) => `!${each}`)),
};

const FORGE = {
  "X-Forge-Event": text("push", "issues"),
  "X-GitHub-Event": text(undefined, "push"),
  "X-Gitlab-Event": text(undefined, "Push Hook"),
  "X-Forge-Delivery": fc.oneof({ weight: 4, arbitrary: fc.uuid() }, text(undefined)),
  "X-GitHub-Delivery": text(undefined, "d1"),
  "X-Hub-Signature": text(undefined, `sha1=${"0".repeat(40)}`),
  "X-Gitlab-Token": text(undefined, FORGE_SECRET),
  "webhook-id": text(undefined, "w1"),
  "webhook-timestamp": text(undefined, "1"),
  "webhook-signature": text(undefined, `v1,${"A".repeat(43)}=`),
  "X-Messenger-Bot-Api-Secret-Token": text(undefined, MESSENGER_SECRET),
};

/** Changes that make a signature wrong. */
const TAMPERED: readonly ((signature: string) => string)[] = [
  (signature) => signature.slice(0, -1),
  (signature) => `${signature}0`,
  (signature) => signature.toUpperCase(),
  (signature) => signature.slice(7),
  (signature) => `${signature.slice(0, -1)}${signature.endsWith("0") ? "1" : "0"}`,
  (signature) => `${signature}, ${signature}`,
  (signature) => `sha1=${signature.slice(7, 47)}`,
  () => `sha256=${"0".repeat(64)}`,
  () => "",
];

const signature = fc.oneof(
  { weight: 6, arbitrary: fc.constant("right" as const) },
  { weight: 1, arbitrary: fc.constant("other" as const) },
  { weight: 1, arbitrary: garbage.map((value) => ({ value })) },
  { weight: 2, arbitrary: fc.constantFrom(...TAMPERED) },
  { weight: 1, arbitrary: fc.constant(undefined) },
);

/** A forge's request. */
export const forgeRequest: fc.Arbitrary<Fuzzed> = fc.record({
  method,
  path,
  body: body(payload),
  remoteAddr,
  signature,
  headers: fc.record({ ...COMMON, ...FORGE }),
}).map(({ headers, signature, ...request }) => {
  const right = sign(request.body, FORGE_SECRET);
  const sent = signature === "right"
    ? right
    : signature === "other"
    ? sign(request.body, MESSENGER_SECRET)
    : typeof signature === "function"
    ? signature(right)
    : signature?.value;
  return fuzzed(
    { ...request, headers: { ...headers, "X-Hub-Signature-256": sent } },
    sent === right,
  );
});

/** A messenger's request. */
export const messengerRequest: fc.Arbitrary<Fuzzed> = fc.record({
  method,
  path,
  body: body(update),
  remoteAddr,
  token: mostly<Choice>(
    [MESSENGER_SECRET],
    fc.constantFrom(undefined, "", FORGE_SECRET, MESSENGER_SECRET.slice(1), `${MESSENGER_SECRET}x`),
    garbage,
  ),
  telegram: text(undefined, "x"),
  headers: fc.record({
    ...COMMON,
    "X-Hub-Signature-256": text(undefined, `sha256=${"0".repeat(64)}`),
  }),
}).map(({ headers, token, telegram, ...request }) => {
  const tokens = {
    "X-Messenger-Bot-Api-Secret-Token": token,
    "X-Telegram-Bot-Api-Secret-Token": telegram,
  };
  return fuzzed({ ...request, headers: { ...headers, ...tokens } }, token === MESSENGER_SECRET);
});

interface Parts {
  readonly method: string;
  readonly path: string;
  readonly body: Uint8Array;
  readonly remoteAddr: Deno.Addr | undefined;
  readonly headers: Readonly<Record<string, Choice>>;
}

function fuzzed({ method, path, body, remoteAddr, headers }: Parts, isVerified: boolean): Fuzzed {
  const sent = Object.entries(headers).filter((entry): entry is [string, string] =>
    entry[1] !== undefined
  );
  const hasBody = method !== "GET" && method !== "HEAD";
  const init = { method, headers: sent, ...(hasBody ? { body: new Uint8Array(body) } : {}) };
  const request = new Request(`http://localhost${path}`, init);
  // So that a failure prints it.
  const toString = () => JSON.stringify({ method, path, headers: sent, body: body.toBase64() });
  return { request, remoteAddr, isVerified, [fc.toStringMethod]: toString } as Fuzzed;
}
