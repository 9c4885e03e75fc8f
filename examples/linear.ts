/**
 * Platform of Linear: changes of issues, comments, projects and more.
 *
 * ```ts ignore
 * const bot = defineApp({ name: "my-bot", platform: linear(), store: sqlite() }); // reads LINEAR_WEBHOOK_SECRET
 * bot.on("Issue.create", ({ payload }) => triage(payload.data));
 * ```
 *
 * @module
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { definePlatform, HttpError, type Platform, secrets } from "@org/edge-base";
import { parseJsonObject, type PlatformOptions } from "@org/edge-base/webhook";

/** Change of a thing. */
export interface Change<TType extends string, TData> {
  readonly type: TType;
  readonly action: "create" | "update" | "remove";
  readonly data: TData;
  readonly url: string;
  /** Time of sending, in milliseconds since the epoch. */
  readonly webhookTimestamp: number;
}

/** Payloads by type. Add what your webhook sends; `@linear/sdk/webhooks` has the types. */
export type LinearEvents = {
  Issue: Change<"Issue", { id: string; identifier: string; title: string }>;
  Comment: Change<"Comment", { id: string; body: string; issueId: string }>;
};

/** Longest time from the signature to its verification, as in Linear's library. */
const TOLERANCE_MS = 60_000;

/** Options of the platform. Its name is fixed, because that of its variable is. */
type Options = Omit<PlatformOptions, "name">;

/** Makes the platform. It reads `LINEAR_WEBHOOK_SECRET`, during a rotation also with `_PREVIOUS`. */
export function linear({ path = "/linear", ...others }: Options = {}): Platform<LinearEvents> {
  return definePlatform({
    name: "linear", // begins the ids of the events: linear:234d1a4e-...
    path,
    replayWindowMs: TOLERANCE_MS, // the id is not signed: with another one a delivery is no new one
    ...others,
    env: { LINEAR_WEBHOOK_SECRET: secrets }, // a list: during a rotation, with the old one
    createVerifier: ({ LINEAR_WEBHOOK_SECRET }) => (headers) => {
      const signature = headers.get("Linear-Signature") ?? "";
      if (!/^[0-9a-f]{64}$/.test(signature)) throw refusal("MISSING_SIG", "Missing signature");
      const claimed = Uint8Array.fromHex(signature);
      return ({ bytes }) => {
        const isRight = (secret: string) =>
          timingSafeEqual(createHmac("sha256", secret).update(bytes).digest(), claimed);
        const position = LINEAR_WEBHOOK_SECRET.findIndex(isRight);
        if (position < 0) throw refusal("INVALID_SIG", "Invalid signature");
        return `secret ${position + 1}`;
      };
    },
    parse: (headers, body) => {
      const payload = parseJsonObject(body);
      const { type, action, webhookTimestamp: sentAt } = payload;
      // It is in the signed body. A comparison with NaN is false, so anything but a number is refused.
      const isRecent = typeof sentAt === "number" && Math.abs(Date.now() - sentAt) <= TOLERANCE_MS;
      if (!isRecent) throw refusal("STALE_SIG", "Stale signature");
      const deliveryId = headers.get("Linear-Delivery") ?? undefined;
      return { type: String(type), action: String(action), deliveryId, payload };
    },
  });
}

function refusal(code: string, message: string): HttpError {
  return new HttpError(401, message, { code });
}
