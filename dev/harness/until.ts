/**
 * Waits until a condition holds.
 *
 * @param condition Looked at every 10 ms.
 * @param withinMs The longest wait.
 * @returns The milliseconds that it took.
 * @throws {Error} If it does not hold by then.
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  withinMs: number,
): Promise<number> {
  const start = performance.now();
  while (!(await condition())) {
    if (performance.now() - start > withinMs) throw new Error(`Waited ${withinMs} ms in vain`);
    await pause(10);
  }
  return performance.now() - start;
}

/** Waits for a time. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
