import type { Context } from "@hono/hono";

/** A URL up to its path. */
const TO_PATH = /^[^:/?#]*:\/\/[^/?#]*\//;

/**
 * The path of a request, for the log. A target such as `http://x?token=a/b` leaves a URL without one, and
 * Hono takes a part of its query for it: such a request is for `/`.
 */
export function pathOf({ req }: Context): string {
  return TO_PATH.test(req.url) ? req.path : "/";
}
