/** How many requests out of nowhere are sent: `FUZZ_RUNS`, or what continuous integration has time for. */
export function fuzzRuns(byDefault: number): number {
  const { state } = Deno.permissions.querySync({ name: "env", variable: "FUZZ_RUNS" });
  return Number((state === "granted" && Deno.env.get("FUZZ_RUNS")) || byDefault);
}
