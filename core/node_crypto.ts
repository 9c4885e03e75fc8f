type NodeCrypto = typeof import("node:crypto");

/** How long it is done without the module, from when it is first wanted. */
const WITHOUT_MS = 100;

let loaded: NodeCrypto | undefined;
let wantedAt: number | undefined;
let isLoading = false;

/**
 * Takes Node's module for cryptography, whose HMAC takes a third of the time of Web Crypto's and need
 * not be awaited. It is not imported, for that takes Deno 2.9 about 15 ms: a fifth of the time from an
 * app's start to its first answer.
 *
 * @returns The module, which is loaded when this is called for the first time.
 */
export function nodeCrypto(): NodeCrypto {
  // deno-lint-ignore no-process-global -- To import `node:process` takes as long.
  return loaded ??= process.getBuiltinModule("node:crypto");
}

/**
 * Asks whether to do without the module: what is wanted first should not wait until it is loaded.
 *
 * @returns Whether it is neither there nor was wanted for the first time more than 100 ms ago.
 */
export function doesWithoutNodeCrypto(): boolean {
  if (loaded) return false;
  const now = performance.now();
  wantedAt ??= now;
  return now - wantedAt < WITHOUT_MS;
}

/** Loads the module in the next turn of the event loop, if it was wanted and is not there. */
export function loadWantedNodeCrypto(): void {
  if (wantedAt === undefined || loaded || isLoading) return;
  isLoading = true;
  setTimeout(nodeCrypto);
}
