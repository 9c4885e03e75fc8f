/**
 * Reads the pause that `Retry-After` asks for: seconds, or a date.
 *
 * @param headers The headers of the answer.
 * @param now The time by the server's clock, milliseconds since the epoch.
 * @returns The pause in milliseconds; undefined if there is none.
 */
export function retryAfterOf(headers: Headers, now: number): number | undefined {
  const text = headers.get("Retry-After")?.trim();
  if (!text) return undefined;
  const ms = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - now;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}
