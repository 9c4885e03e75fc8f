/** Imports modules, and writes how many of the client of Postgres that has loaded. */
import { createRequire } from "node:module";

const { cache } = createRequire(import.meta.url);
for (const module of Deno.args) await import(import.meta.resolve(`../../../../${module}`));
console.log(Object.keys(cache).filter((path) => /\/pg\//.test(path)).length);
Deno.exit(0);
