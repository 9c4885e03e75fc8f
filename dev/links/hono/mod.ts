/** Development stand-in for `jsr:@hono/hono`: the same Hono, from npm. */
export * from "npm:hono@4.13.19";
