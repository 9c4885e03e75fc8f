/** Development stand-in for `jsr:@hono/hono/html`: the same Hono, from npm. */
export * from "npm:hono@4.13.19/html";
