/** Development stand-in for `jsr:@hono/hono/utils/http-status`: the same Hono, from npm. */
export * from "npm:hono@4.13.19/utils/http-status";
