/** First port, and the number of ports, that no system chooses by itself: Linux begins at 32768. */
const [FIRST, COUNT] = [12_000, 18_000];

/**
 * Finds a free port among those that the system does not choose: a port that the system chose and got back may
 * be given to another test at once.
 */
export function freePort(): number {
  for (;;) {
    const [random] = crypto.getRandomValues(new Uint32Array(1));
    const port = FIRST + random! % COUNT;
    try {
      Deno.listen({ hostname: "127.0.0.1", port }).close();
      return port;
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    }
  }
}

/** Tells whether something listens on a port of this machine. */
export async function listens(port: number): Promise<boolean> {
  try {
    (await Deno.connect({ hostname: "127.0.0.1", port })).close();
    return true;
  } catch {
    return false;
  }
}
