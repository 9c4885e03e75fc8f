/** Development stand-in for `jsr:@hono/hono/method-not-allowed`: the same Hono, from npm. */
export * from "npm:hono@4.13.19/method-not-allowed";
