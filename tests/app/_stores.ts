import type { StoreDefinition } from "../../events/store/store_definition.ts";
import { kv, sqlite } from "../../mod.ts";

/** Stores that an app can have, one of each engine. */
const STORES: Readonly<Record<string, () => StoreDefinition>> = { kv, sqlite };

/** Registers a test of an app once for each engine. */
export function testApp(name: string, fn: (store: StoreDefinition) => Promise<void>): void {
  for (const [engine, storeOf] of Object.entries(STORES)) {
    Deno.test(`${name} [${engine}]`, () => fn(storeOf()));
  }
}
