/** Ends the server when the benchmark has ended, however that came: it holds the other end of stdin. */
export async function endWithBenchmark(): Promise<void> {
  const buffer = new Uint8Array(1);
  while (await Deno.stdin.read(buffer) !== null);
  Deno.exit(0);
}
