import { sign } from "../../dev/harness/sign.ts";

/** Texts that must not be seen where they do not belong. No two of them share a part. */
export const CANARIES = {
  forgeSecret: "forge/canary+secret=c0ffee?01",
  forgePrevious: "forge/canary+former=decade?02",
  forgeToken: "forge/canary+token=facade?03",
  messengerToken: "messenger_canary-token_f00d04",
  messengerPrevious: "messenger_canary-former_beef05",
  payload: "payload/canary+text=babe?06",
  query: "query-canary-07",
  authorization: "authorization-canary-08",
  cookie: "cookie-canary-09",
} as const;

const JSON_TYPE = { "Content-Type": "application/json" };

const document = JSON.stringify({ text: CANARIES.payload });
const update = (user: number, id: number) =>
  JSON.stringify({ update_id: id, message: { from: { id: user }, text: CANARIES.payload } });

function signed(body: string, secret: string, headers: Record<string, string> = {}): RequestInit {
  return {
    method: "POST",
    body,
    headers: {
      ...JSON_TYPE,
      "X-Forge-Event": "push",
      "X-Hub-Signature-256": sign(body, secret),
      ...headers,
    },
  };
}

function withToken(body: string, token: string, headers: Record<string, string> = {}): RequestInit {
  const name = "X-Messenger-Bot-Api-Secret-Token";
  return { method: "POST", body, headers: { ...JSON_TYPE, [name]: token, ...headers } };
}

/** Requests that bring the secrets in all ways, right and wrong, by path. */
export const REQUESTS: Readonly<
  Record<"forge" | "messenger", readonly (readonly [path: string, init: RequestInit])[]>
> = {
  forge: [
    ["/webhook", signed(document, CANARIES.forgeSecret)],
    ["/webhook", signed(document, CANARIES.forgePrevious)],
    ["/webhook", signed(`${document}x`, CANARIES.forgeSecret)],
    ["/webhook", signed(document, CANARIES.forgeSecret, { "Content-Type": "text/html" })],
    ["/webhook", signed(document, CANARIES.forgeSecret, { "X-Forge-Delivery": "no id" })],
    ["/webhook", signed(document, CANARIES.forgeSecret, { "X-Forge-Event": "" })],
    ["/webhook", signed(document, `${CANARIES.forgeSecret}x`)],
    ["/webhook", {
      method: "POST",
      body: document,
      headers: {
        ...JSON_TYPE,
        "X-Gitlab-Event": "Push Hook",
        "X-Gitlab-Token": CANARIES.forgeToken,
      },
    }],
    ["/webhook", {
      method: "POST",
      body: document,
      headers: { "X-Hub-Signature-256": CANARIES.forgeSecret },
    }],
    ["/webhook", {
      method: "POST",
      body: document,
      headers: { "X-Gitlab-Token": CANARIES.forgeSecret },
    }],
  ],
  messenger: [
    ["/webhook", withToken(update(42, 1), CANARIES.messengerToken)],
    ["/webhook", withToken(update(42, 2), CANARIES.messengerPrevious)],
    ["/webhook", withToken(update(43, 3), CANARIES.messengerToken)],
    ["/webhook", withToken(`${update(42, 4)}x`, CANARIES.messengerToken)],
    ["/webhook", withToken(document, CANARIES.messengerToken)],
    [
      "/webhook",
      withToken(update(42, 5), CANARIES.messengerToken, { "Content-Type": "text/html" }),
    ],
    ["/webhook", withToken(update(42, 6), `${CANARIES.messengerToken}x`)],
    ["/webhook", withToken(update(42, 7), CANARIES.messengerToken.slice(0, -1))],
  ],
};

/** Requests that any app may get. */
export const ANYWHERE: readonly (readonly [path: string, init: RequestInit])[] = [
  [`/health?token=${CANARIES.query}`, {}],
  [`/no/route?token=${CANARIES.query}#x`, {}],
  [`/webhook?token=${CANARIES.query}`, { method: "POST", body: document }],
  ["/health", { headers: { Authorization: `Bearer ${CANARIES.authorization}` } }],
  ["/webhook", { headers: { Cookie: `a=${CANARIES.cookie}` } }],
  ["/webhook", { method: "POST", body: document, headers: { "Content-Encoding": "gzip" } }],
];
