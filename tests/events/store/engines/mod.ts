/**
 * The engines that the contract tests run over. A new one is a file beside `kv.ts`, and an entry here.
 *
 * @module
 */
import type { EngineUnderTest } from "./_engine.ts";
import { KV } from "./kv.ts";
import { SQLITE } from "./sqlite.ts";

/** All engines. */
export const ENGINES: readonly EngineUnderTest[] = Deno.env.get("ENGINES_ONLY") === "sqlite"
  ? [SQLITE]
  : [KV, SQLITE];
