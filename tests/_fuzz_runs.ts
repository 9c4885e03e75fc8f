/** Number of requests out of nowhere to send: `FUZZ_RUNS`, or as many as a test run has time for. */
export function fuzzRuns(byDefault: number): number {
  const { state } = Deno.permissions.querySync({ name: "env", variable: "FUZZ_RUNS" });
  return Number((state === "granted" && Deno.env.get("FUZZ_RUNS")) || byDefault);
}
