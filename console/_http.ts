import type { Context } from "@hono/hono";
import type { Asset } from "./_assets.ts";
import type { Html } from "./_format.ts";

/**
 * Policy of all pages: they load their own style and script, and nothing else; nobody frames them; forms
 * lead to the console only.
 */
const POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; " +
  "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/** Headers of all answers. */
const HEADERS: Readonly<Record<string, string>> = {
  "Content-Security-Policy": POLICY,
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
  // Without it, browsers would send `Origin: null` with forms, which is refused.
  "Referrer-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Cache-Control": "no-store",
};

/** Makes an answer with a page. */
export function pageResponse(
  page: Html,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const type = { "Content-Type": "text/html; charset=utf-8" };
  return new Response(String(page), { status, headers: { ...HEADERS, ...type, ...headers } });
}

/** Makes an answer that leads to a page beside this one, whatever prefix is before the console's path. */
export function redirect(to: string, cookies: readonly string[] = []): Response {
  const headers = new Headers({ ...HEADERS, Location: to });
  for (const cookie of cookies) headers.append("Set-Cookie", cookie);
  return new Response(null, { status: 303, headers });
}

/** Makes an answer with a file that pages load. */
export function assetResponse({ type, content }: Asset): Response {
  const caching = { "Cache-Control": "public, max-age=31536000, immutable" };
  return new Response(content, { headers: { ...HEADERS, ...caching, "Content-Type": type } });
}

/** Makes an answer with a payload: as plain text that no browser opens, since others have written it. */
export function payloadResponse(payload: Uint8Array<ArrayBuffer>): Response {
  return new Response(payload, {
    headers: {
      ...HEADERS,
      "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
      "Content-Type": "text/plain; charset=utf-8",
      "Content-Disposition": 'attachment; filename="payload.json"',
    },
  });
}

/**
 * Part in front of the app: nothing, a trusted reverse proxy, which names scheme and host in headers, or Deno
 * Deploy, which ends TLS and does not say so.
 */
export type Front = "nothing" | "proxy" | "deploy";

/**
 * Tells whether a form was sent by a page of the console. Browsers send `Origin` with every form, and no page
 * of another site can choose it. Its host must be that of `Host` and, where a proxy names one, that of
 * `X-Forwarded-Host`: so a header that a client has sent, and a proxy has passed on, allows nothing.
 *
 * @param c The context.
 * @param front The part in front of the app.
 * @returns True if so.
 */
export function isFromHere(c: Context, front: Front): boolean {
  const site = c.req.header("Sec-Fetch-Site");
  if (site !== undefined && site !== "same-origin") return false;
  const origin = c.req.header("Origin") ?? "";
  const scheme = schemeOf(c, front) ?? /^https?(?=:)/.exec(origin)?.[0];
  const host = c.req.header("Host") ?? new URL(c.req.url).host;
  const forwarded = front === "proxy" ? lastOf(c, "X-Forwarded-Host") : undefined;
  return [host, forwarded ?? host].every((each) =>
    URL.parse(`${scheme}://${each}`)?.origin === origin
  );
}

/** Tells whether the reader's connection is encrypted, here or at a trusted proxy. */
export function isSecure(c: Context, front: Front): boolean {
  return schemeOf(c, front) === "https";
}

/**
 * Finds the scheme of the reader's connection; undefined where nobody says it: on Deno Deploy, or over a Unix
 * socket, where the URL begins with `http+unix:`.
 */
function schemeOf(c: Context, front: Front): string | undefined {
  const told = front === "proxy" ? lastOf(c, "X-Forwarded-Proto")?.toLowerCase() : undefined;
  const own = /^https?(?=:)/.exec(c.req.url)?.[0];
  return told ?? (front === "deploy" && own === "http" ? undefined : own);
}

/** Reads the last value of a header, which is that of the nearest proxy. */
function lastOf(c: Context, name: string): string | undefined {
  return c.req.header(name)?.split(",").at(-1)?.trim();
}
