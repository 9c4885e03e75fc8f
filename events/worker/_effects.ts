import type { CommitEffects } from "../store/mod.ts";

/**
 * Adds a handler's mutations to a commit.
 *
 * @param commit The commit.
 * @param effects What adds them.
 * @throws {TypeError} If one of them is asynchronous: what it adds later would be lost.
 */
export function addEffects(commit: Deno.AtomicOperation, effects: readonly CommitEffects[]): void {
  for (const each of effects) {
    const result: unknown = each(commit);
    if (!(result instanceof Promise)) continue;
    result.catch(() => {});
    throw new TypeError("Effects must be added synchronously");
  }
}
