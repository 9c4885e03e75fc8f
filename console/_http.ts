/**
 * Answers of the console and forms that it takes: the headers of all responses, the files that pages load, the check
 * where a form comes from, and its reading.
 *
 * @module
 */
import type { Context } from "@hono/hono";
import { createHash } from "node:crypto";
import { type BodyReader, bodyReader } from "../core/body_reader.ts";
import { parseJsonObject } from "../core/parse_json.ts";
import type { Html } from "./_format.ts";
import { SCRIPT } from "./_script.ts";
import { STYLE } from "./_style.ts";

/**
 * Policy of all pages: they load their own style and script, and nothing else; nobody frames them; forms
 * lead to the console only.
 */
const POLICY = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; " +
  "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/** Longest wait for the store, in milliseconds. */
export const STORE_TIMEOUT_MS = 20_000;

/**
 * Value of `Cache-Control` of an answer that has what senders or handlers have written. It is not compressed: the
 * size of what is compressed tells of a secret beside a text that its reader has chosen.
 */
export const PRIVATE = "no-store, no-transform";

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

/** Refusal of a request, as a page. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    message: string,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}

/** Refusal of a parameter that has a value it may not have. The message never has the value. */
export class ParameterError extends Refusal {
  /**
   * @param flaw What is wrong with it.
   * @param doing The action that it is for.
   */
  constructor(readonly flaw: string, doing = "show the page") {
    super(400, "Wrong parameter", `Cannot ${doing}: ${flaw}.`);
  }
}

/** Actions of the forms by their names: what cannot be done if a field is wrong. */
const DOING: Readonly<Record<string, string>> = {
  ...{ act: "act", stop: "stop the act", resume: "resume the act", wake: "wake the event" },
  ...{ repeat: "repeat the event", schedule: "act on the schedule", forget: "delete the state" },
  ...{ send: "send the example", login: "log in" },
};

/** Says of a parameter of a form that is wrong what cannot be done, and not that a page cannot be shown. */
export const refusalOf = (refusal: Refusal, { method }: Request, name: string): Refusal =>
  refusal instanceof ParameterError && method === "POST"
    ? new ParameterError(refusal.flaw, DOING[name])
    : refusal;

/** Makes an answer with a page. */
export function pageResponse(
  page: Html,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const type = { "Content-Type": "text/html; charset=utf-8" };
  return new Response(String(page), { status, headers: { ...HEADERS, ...type, ...headers } });
}

/** Makes an answer in JSON, for a program. Maps become objects. */
export function jsonResponse(
  value: unknown,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Response {
  const text = JSON.stringify(
    value,
    (_, each) => each instanceof Map ? Object.fromEntries(each) : each,
  );
  const type = { "Content-Type": "application/json" };
  return new Response(text, { status, headers: { ...HEADERS, ...type, ...headers } });
}

/** Makes an answer that leads to a page beside this one, whatever prefix is before the console's path. */
export function redirect(to: string, cookies: readonly string[] = []): Response {
  const headers = new Headers({ ...HEADERS, Location: to });
  for (const cookie of cookies) headers.append("Set-Cookie", cookie);
  return new Response(null, { status: 303, headers });
}

/** Type of a file that others have written: no browser opens it. */
export const PLAIN = "text/plain; charset=utf-8";

/** Makes an answer with a file, which may be written while it is sent, and that no browser opens. */
export function downloadResponse(
  body: BodyInit,
  type: string,
  name: string,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return new Response(body, {
    headers: {
      ...HEADERS,
      ...headers,
      "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
      // Compressed, it would be held whole.
      "Cache-Control": PRIVATE,
      "Content-Type": type,
      "Content-Disposition": `attachment; filename="${name}"`,
    },
  });
}

const ICON =
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" ` +
  `rx="3.5" fill="#2b5fd9"/><path d="M3.5 11V8.5M8 11V4.5M12.5 11V7" stroke="#fff" stroke-width="2.2"/></svg>`;

/** Files that pages load. */
export const ASSETS = {
  style: asset("style", "css", "text/css", STYLE),
  script: asset("script", "js", "text/javascript", SCRIPT),
  icon: asset("icon", "svg", "image/svg+xml", ICON),
} as const;

/** Makes a file. Its name has a hash of its content, so it may be cached for good. */
function asset(name: string, extension: string, type: string, content: string) {
  const hash = createHash("sha256").update(content).digest("hex").slice(0, 12);
  return { name: `${name}-${hash}.${extension}`, type: `${type}; charset=utf-8`, content };
}

/** Makes the answer with a file that pages load; undefined if there is none with this name. */
export function assetResponse(name: string): Response | undefined {
  const asset = Object.values(ASSETS).find((each) => each.name === name);
  if (!asset) return undefined;
  const caching = { "Cache-Control": "public, max-age=31536000, immutable" };
  const headers = { ...HEADERS, ...caching, "Content-Type": asset.type };
  return new Response(asset.content, { headers });
}

/**
 * Part in front of the app: nothing, a trusted reverse proxy, which names scheme and host in headers, or Deno
 * Deploy, which ends TLS and does not say so.
 */
export type Front = "nothing" | "proxy" | "deploy";

/**
 * Tells whether a form was sent by a page of the console. Browsers send `Origin` with every form, and no page
 * of another site can choose it. Its host must be the one in `Host` and, where a proxy names one, the one in
 * `X-Forwarded-Host`: so a header that a client has sent, and a proxy has passed on, allows nothing.
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
 * socket, where URLs begin with `http+unix:`.
 */
function schemeOf(c: Context, front: Front): string | undefined {
  const told = front === "proxy" ? lastOf(c, "X-Forwarded-Proto")?.toLowerCase() : undefined;
  const own = /^https?(?=:)/.exec(c.req.url)?.[0];
  return told ?? (front === "deploy" && own === "http" ? undefined : own);
}

/** Reads the last value of a header, which the nearest proxy has written. */
function lastOf(c: Context, name: string): string | undefined {
  return c.req.header(name)?.split(",").at(-1)?.trim();
}

/** Time for a form to arrive, in milliseconds. */
export const FORM_TIMEOUT_MS = 10_000;

/** Most forms that are read at the same time. */
const MAX_READ = 32;

/** Bytes that are read at a time. */
const BUFFER_BYTES = 4_096;

/**
 * Reader of forms, a few at a time: each takes memory, however little of it has come. One more ends the reading of the
 * oldest, so that forms that stand still do not keep others out: a browser's form arrives within milliseconds.
 */
export class Forms {
  /** Functions that give up a form that is being read, the oldest first. */
  readonly #underWay = new Set<(why: Refusal) => void>();

  /**
   * Reads a form.
   *
   * @param c The context.
   * @param maxBytes The largest size.
   * @returns The fields.
   * @throws {Refusal} 400 if it is not a form, too large or ends early, 408 if it does not arrive in time, 503 if it
   * has to make room.
   */
  async read(c: Context, maxBytes: number): Promise<URLSearchParams> {
    if (typeOf(c) !== "application/x-www-form-urlencoded") {
      throw new ParameterError("the body is no form");
    }
    return new URLSearchParams(new TextDecoder().decode(await this.#read(c, maxBytes)));
  }

  /**
   * Reads the fields of a form that a program sends as JSON: an object. A value that is no text is taken as its JSON,
   * and null as an empty one.
   *
   * @param c The context.
   * @param maxBytes The largest size.
   * @returns The fields.
   * @throws {Refusal} 415 if it is not JSON by its type, 400 if it is none, too large or ends early, 408 if it does not
   * arrive in time, 503 if it has to make room.
   */
  async readJson(c: Context, maxBytes: number): Promise<URLSearchParams> {
    if (typeOf(c) !== "application/json") {
      throw new Refusal(415, "Not JSON", "Send a JSON object, as application/json.");
    }
    const value = jsonObjectIn(await this.#read(c, maxBytes));
    const textOf = (each: unknown) => typeof each === "string" ? each : JSON.stringify(each);
    return new URLSearchParams(
      Object.entries(value).map(([name, each]) => [name, each === null ? "" : textOf(each)]),
    );
  }

  async #read(c: Context, maxBytes: number): Promise<Uint8Array> {
    const { body } = c.req.raw;
    if (!body) return new Uint8Array();
    const reader = bodyReader(body);
    let why: Refusal | undefined;
    const giveUp = (reason: Refusal) => {
      why = reason;
      reader.cancel();
    };
    this.#makeRoom();
    this.#underWay.add(giveUp);
    const timer = setTimeout(
      () => giveUp(new Refusal(408, "Too slow", "The form did not arrive in time. Try again.")),
      FORM_TIMEOUT_MS,
    );
    try {
      const bytes = await collect(reader, maxBytes);
      if (why) throw why;
      return bytes;
    } catch (error) {
      if (error instanceof Refusal) throw error;
      throw why ?? new Refusal(400, "Cut off", "The form ended early. Try again.");
    } finally {
      clearTimeout(timer);
      this.#underWay.delete(giveUp);
      reader.cancel();
    }
  }

  #makeRoom(): void {
    if (this.#underWay.size < MAX_READ) return;
    const [oldest] = this.#underWay;
    this.#underWay.delete(oldest!);
    const headers = { "Retry-After": "1" };
    oldest!(new Refusal(503, "Too busy", "Too many forms arrive at once. Try again.", headers));
  }
}

/** Reads the media type of a body. */
function typeOf(c: Context): string | undefined {
  return c.req.header("Content-Type")?.split(";", 1)[0]?.trim().toLowerCase();
}

function jsonObjectIn(bytes: Uint8Array): object {
  try {
    return parseJsonObject(bytes);
  } catch {
    throw new ParameterError("the body is no JSON object");
  }
}

async function collect(reader: BodyReader, maxBytes: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(maxBytes);
  let size = 0;
  for (;;) {
    const chunk = await reader.read(BUFFER_BYTES);
    if (!chunk) return bytes.subarray(0, size);
    if (size + chunk.length > maxBytes) {
      throw new ParameterError(`the form has more than ${maxBytes} bytes`);
    }
    bytes.set(chunk, size);
    size += chunk.length;
  }
}
