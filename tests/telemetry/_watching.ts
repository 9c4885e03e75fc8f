/** A process that reports how long events wait, of a store that does not tell: its argument says how. */
import { openTelemetry } from "../../telemetry/mod.ts";

const telemetry = (await openTelemetry())!;
const ways: Readonly<Record<string, () => Promise<number | null>>> = {
  rejects: () => Promise.reject(new Error("The KV is closed")),
  throws: () => {
    throw new Error("The KV is closed");
  },
  hangs: () => new Promise(() => {}),
};
telemetry.watchOldestDue(ways[Deno.args[0]!]!);
telemetry.countDelivery({ platform: "forge", outcome: "accepted" });
setInterval(() => {}, 1_000);
