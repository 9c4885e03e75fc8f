import { hmac, sign, signStandard } from "../dev/harness/sign.ts";
import type { SignedRequest } from "./_deliveries.ts";

/** Options of a sender's delivery. */
export interface SenderOptions {
  /** The secret that it is signed with, or the token that is sent along. */
  readonly secret: string;
  /** The event's type, as the sender writes it. */
  readonly type?: string;
  /** The delivery's id. */
  readonly id?: string;
  /** Set if the document is sent in a form. */
  readonly form?: boolean;
  /** Time at which it is sent, in seconds since the epoch. */
  readonly sentAt?: number;
}

/** Senders by name: each makes the headers that its code host sends, and signs what that signs. */
export const SENDERS = { github, gitea, forgejo, gitlab, gitlabToken } as const;

function github(document: string, options: SenderOptions): SignedRequest {
  const { secret, type = "push", id = crypto.randomUUID(), form = false } = options;
  const body = form ? formOf(document) : document;
  return request(body, form, {
    "User-Agent": "GitHub-Hookshot/044aadd",
    "X-GitHub-Delivery": id,
    "X-GitHub-Event": type,
    "X-GitHub-Hook-ID": "292430182",
    "X-GitHub-Hook-Installation-Target-ID": "79929171",
    "X-GitHub-Hook-Installation-Target-Type": "repository",
    "X-Hub-Signature": "sha1=7d38cdd689735b008b3c702edd92eea23791c5f6",
    "X-Hub-Signature-256": sign(body, secret),
  });
}

function gitea(document: string, options: SenderOptions): SignedRequest {
  return giteaLike(document, options, ["Gitea", "Gogs", "GitHub"]);
}

function forgejo(document: string, options: SenderOptions): SignedRequest {
  return giteaLike(document, options, ["Forgejo", "Gitea", "Gogs", "GitHub"]);
}

/** They sign the document, also where they send it in a form. */
function giteaLike(
  document: string,
  options: SenderOptions,
  names: readonly string[],
): SignedRequest {
  const { secret, type = "push", id = crypto.randomUUID(), form = false } = options;
  const signature = hmac(secret, document).toHex();
  const headers = names.flatMap((name) => [
    [`X-${name}-Delivery`, id],
    [`X-${name}-Event`, type],
    [`X-${name}-Event-Type`, type],
    ...(name === "GitHub" ? [] : [[`X-${name}-Signature`, signature]]),
  ]);
  return request(form ? formOf(document) : document, form, {
    ...Object.fromEntries(headers),
    "X-Hub-Signature": "sha1=7d38cdd689735b008b3c702edd92eea23791c5f6",
    "X-Hub-Signature-256": `sha256=${signature}`,
  });
}

function gitlab(document: string, options: SenderOptions): SignedRequest {
  const { secret, id = crypto.randomUUID(), sentAt = Math.floor(Date.now() / 1_000) } = options;
  const key = Uint8Array.fromBase64(secret.slice("whsec_".length));
  return request(document, false, {
    ...gitlabHeaders(options.type, id),
    "webhook-id": id,
    "webhook-timestamp": String(sentAt),
    "webhook-signature": signStandard(document, id, sentAt, key),
  });
}

function gitlabToken(document: string, options: SenderOptions): SignedRequest {
  const { secret, type, id = crypto.randomUUID() } = options;
  const headers = { ...gitlabHeaders(type, id), "X-Gitlab-Token": secret };
  return request(document, false, headers);
}

function gitlabHeaders(type = "Push Hook", id: string): Record<string, string> {
  return {
    "Idempotency-Key": id,
    "User-Agent": "GitLab/19.0.0",
    "X-Gitlab-Event": type,
    "X-Gitlab-Event-UUID": "9cebe914-4827-408f-b014-cfa23a47a35f",
    "X-Gitlab-Instance": "https://gitlab.example.com",
    "X-Gitlab-Webhook-UUID": "3c5c0404-c866-44bc-a5f6-452bb1bfc76e",
  };
}

function formOf(document: string): string {
  return new URLSearchParams({ payload: document }).toString();
}

function request(body: string, form: boolean, headers: Record<string, string>): SignedRequest {
  const type = form ? "application/x-www-form-urlencoded" : "application/json";
  return { method: "POST", body, headers: new Headers({ "Content-Type": type, ...headers }) };
}
