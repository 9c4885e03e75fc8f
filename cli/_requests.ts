import {
  forgeDelivery,
  type ForgeSender,
  type MessengerSender,
  messengerUpdate,
  type TestDelivery,
} from "../testing/mod.ts";
import type { SendOptions } from "./_send_options.ts";
import { UsageError } from "./_usage_error.ts";

/** A secret that is nobody's, whatever the sender proves with it. */
const OTHER_SECRET = `whsec_${btoa("not the secret")}`;

/** What proves a delivery, of all senders. */
const PROOFS = [
  "X-Hub-Signature-256",
  "webhook-signature",
  "X-Gitlab-Token",
  "X-Messenger-Bot-Api-Secret-Token",
  "X-Telegram-Bot-Api-Secret-Token",
];

/** How long ago a stale delivery was sent: twice what is taken. */
const STALE_MS = 600_000;

/** Builds the request, with the fault that is asked for. */
export function requestOf(options: SendOptions, payload: object): TestDelivery {
  const { platform, type, from, form, bad } = options;
  const document = bad === "json" ? "{" : payload;
  const secret = bad === "signature" ? OTHER_SECRET : options.secret;
  const sentAt = bad === "stale" ? Date.now() - STALE_MS : undefined;
  const delivery = platform === "forge"
    ? forgeDelivery(type.split(".", 1)[0]!, document, {
      ...{ from: from as ForgeSender, secret, form, sentAt, id: options.id },
    })
    : messengerUpdate(numbered(document, options.id), { from: from as MessengerSender, secret });
  if (bad === "missing") { for (const name of PROOFS) delivery.headers.delete(name); }
  return bad === "body" ? { ...delivery, body: withSpace(delivery.body) } : delivery;
}

/** An update's id is in it. */
function numbered(update: object | string, id: string | undefined): object | string {
  if (id === undefined || typeof update !== "object" || update instanceof Uint8Array) return update;
  if (!/^\d{1,15}$/.test(id)) {
    throw new UsageError(`--id of an update is its number, update_id: got ${JSON.stringify(id)}`);
  }
  return { update_id: Number(id), ...update };
}

function withSpace(body: string | Uint8Array): string | Uint8Array<ArrayBuffer> {
  return typeof body === "string" ? `${body} ` : Uint8Array.from([...body, 0x20]);
}
