import type { Context } from "@hono/hono";
import { Buffer } from "node:buffer";
import { createHmac, timingSafeEqual } from "node:crypto";

/**
 * The least that verifying and parsing a delivery takes on Deno: `node:crypto` and `JSON.parse`.
 *
 * @param c The request's context.
 * @param secret The secret.
 * @returns The body and the document in it; null if it is not genuine, or not a document.
 */
export async function verified(
  c: Context,
  secret: string,
): Promise<{ body: Uint8Array<ArrayBuffer>; payload: unknown } | null> {
  const body = new Uint8Array(await c.req.arrayBuffer());
  const expected = createHmac("sha256", secret).update(body).digest();
  const given = Buffer.from(c.req.header("X-Hub-Signature-256")?.slice(7) ?? "", "hex");
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return null;
  const payload: unknown = JSON.parse(new TextDecoder().decode(body));
  return payload ? { body, payload } : null;
}
