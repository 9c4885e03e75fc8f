/**
 * The engines that the contract tests run over. A new one is a file beside `kv.ts`, and an entry here.
 *
 * @module
 */
import type { EngineUnderTest } from "./_engine.ts";
import { KV } from "./kv.ts";

/** All engines. */
export const ENGINES: readonly EngineUnderTest[] = [KV];
