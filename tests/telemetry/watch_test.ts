import { assertEquals } from "@std/assert";
import { testWith } from "../_permissions.ts";
import { APP_NEEDS } from "../apps/_app.ts";
import { startCollector, telemetryOf, totalOf } from "../apps/_collector.ts";

for (const way of ["rejects", "throws", "hangs"]) {
  testWith(APP_NEEDS, `metrics are exported beside a store that ${way}`, async () => {
    await using collector = startCollector();
    const script = new URL("./_watching.ts", import.meta.url).href;
    const process = new Deno.Command(Deno.execPath(), {
      args: ["run", "--cached-only", "--quiet", "--no-prompt", script, way],
      env: telemetryOf(collector.url),
      stdout: "null",
    }).spawn();
    try {
      await collector.until(() => totalOf(collector, "edge_base.deliveries") === 1);
      const { length } = collector.bodies.metrics;
      await collector.until(() => collector.bodies.metrics.length > length + 1);
      assertEquals(collector.metrics.has("edge_base.events.oldest_due.age"), false);
    } finally {
      process.kill("SIGKILL");
      await process.status;
    }
  });
}
