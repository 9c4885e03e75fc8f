/** A process that counts a step of each kind, and reports an event that was to wait for nearly all the time. */
import { openTelemetry } from "../../telemetry/mod.ts";

const telemetry = (await openTelemetry())!;
telemetry.countStep!({ is: "emitted", source: "jobs", type: "item" });
for (let i = 1; i < 100; i++) {
  telemetry.countStep!({ is: "emitted", source: `s${i}`, type: "item" });
}
telemetry.countStep!({ is: "cancelled", platform: "forge", type: "push", count: 2 });
telemetry.countStep!({ is: "wait_ended", platform: "forge", outcome: "early" });
telemetry.countStep!({ is: "limited", limit: "github", outcome: "put_off" });
telemetry.countStep!({ is: "slots", schedule: "digest", outcome: "left_out", count: 2 });
telemetry.countStep!({ is: "payloads_dropped", reason: "size", count: 4 });
telemetry.countStep!({ is: "checked", unreadable: 3 });
telemetry.countStep!({ is: "put_back" });
// As a handler that catches up opens one, beside that of its app.
const other = (await openTelemetry())!;
for (const each of [telemetry, other]) {
  each.countStep!({ is: "caught_up", outcome: "asked", count: 3 });
}
const attempt = telemetry.attempt({
  ...{ id: "d1", platform: "forge", type: "push", attempt: 1 },
  receivedAt: Date.now() - 3_600_000,
  ...{ plannedMs: 3_000_000, quiet: { waitedMs: 599_000 } },
});
attempt.settled("handled");
setInterval(() => {}, 1_000);
