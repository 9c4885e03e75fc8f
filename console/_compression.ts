/**
 * Compression of answers. One with a payload, or with what handlers have written, is not compressed: `no-transform`
 * says so, to a proxy as well.
 *
 * @module
 */
import type { Context } from "@hono/hono";
import { randomBytes, randomInt } from "node:crypto";
import { gzipSync } from "node:zlib";

/** Smallest answer that is compressed, in bytes: a smaller one takes one packet anyway. */
const MIN_BYTES = 1_000;

/** Most random bytes beside an answer. */
const MAX_PADDING = 32;

/**
 * Compresses an answer, if its reader takes that.
 *
 * Senders choose texts on a page that stand beside those of others, and its size tells how alike they are. Who sends,
 * and sees the size of what is encrypted, learns less by it if a part of the size is random.
 */
export async function compressed(c: Context, response: Response): Promise<Response> {
  const { status, headers, body } = response;
  const isPrivate = headers.get("Cache-Control")?.includes("no-transform");
  if (!body || isPrivate || c.req.method === "HEAD") return response;
  headers.append("Vary", "Accept-Encoding");
  if (!takesGzip(c.req.header("Accept-Encoding"))) return response;
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (bytes.length < MIN_BYTES) return new Response(bytes, { status, headers });
  headers.set("Content-Encoding", "gzip");
  headers.set("X-Padding", randomBytes(randomInt(MAX_PADDING + 1)).toString("hex"));
  return new Response(new Uint8Array(gzipSync(bytes)), { status, headers });
}

/** Tells whether a reader takes gzip: it names it, and not with a quality of 0. */
function takesGzip(accepted = ""): boolean {
  return accepted.toLowerCase().split(",").some((each) => {
    const [name, ...parameters] = each.split(";").map((part) => part.trim());
    return name === "gzip" && !parameters.some((part) => /^q=0(\.0*)?$/.test(part));
  });
}
