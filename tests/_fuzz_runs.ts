/** Number of random requests to send: `FUZZ_RUNS`, or the default. */
export function fuzzRuns(byDefault: number): number {
  const { state } = Deno.permissions.querySync({ name: "env", variable: "FUZZ_RUNS" });
  return Number((state === "granted" && Deno.env.get("FUZZ_RUNS")) || byDefault);
}
