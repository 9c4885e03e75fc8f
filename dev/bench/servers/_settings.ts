/** Settings of a server of the benchmark, from its environment. */
export interface ServerSettings {
  readonly port: number;
  readonly hostname: string;
  readonly kvUrl: string;
  readonly secret: string;
  /** Makes it handle events, and not only take them in. */
  readonly worker: boolean;
  /** Over how many ordering keys the deliveries are spread; 0 for none. */
  readonly orderingKeys: number;
}

/** Reads a server's settings. */
export function readServerSettings(): ServerSettings {
  return {
    port: Number(variable("PORT")),
    hostname: variable("HOST"),
    kvUrl: variable("KV_URL"),
    secret: variable("FORGE_WEBHOOK_SECRET"),
    worker: Deno.env.get("BENCH_WORKER") !== "off",
    orderingKeys: Number(Deno.env.get("BENCH_ORDERING_KEYS") ?? 0),
  };
}

function variable(name: string): string {
  const value = Deno.env.get(name);
  if (value === undefined) throw new Error(`Cannot run the server: ${name} is not set`);
  return value;
}
