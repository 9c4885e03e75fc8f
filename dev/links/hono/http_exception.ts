/** Development stand-in for `jsr:@hono/hono/http-exception`: the same Hono, from npm. */
export * from "npm:hono@4.13.19/http-exception";
