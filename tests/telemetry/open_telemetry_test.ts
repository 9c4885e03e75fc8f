import { assertEquals } from "@std/assert";
import { openTelemetry } from "../../telemetry/mod.ts";
import { testWith } from "../_permissions.ts";

const root = new URL("../../", import.meta.url);

/** Opens the telemetry in a process without permissions, and tells whether there is one. */
async function open(flag: string, env: Record<string, string>): Promise<string> {
  const module = new URL("telemetry/mod.ts", root).href;
  const script = `import { openTelemetry } from ${JSON.stringify(module)};
    console.log(typeof await openTelemetry());`;
  const source = `data:text/typescript,${encodeURIComponent(script)}`;
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--cached-only", "--quiet", "--no-prompt", flag, source],
    env: { ...env, NO_COLOR: "1" },
  }).output();
  return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
}

Deno.test("openTelemetry() opens nothing without a provider", async () => {
  assertEquals(await openTelemetry(), undefined);
});

testWith(["run", "read"], "openTelemetry() does not load the API without a provider", async () => {
  // Without a configuration the API cannot be found.
  assertEquals(await open("--no-config", { OTEL_DENO: "false" }), "undefined\n");
});

testWith(["run", "read"], "openTelemetry() needs no permission", async () => {
  const config = `--config=${new URL("deno.json", root).pathname}`;
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" };
  assertEquals(await open(config, { OTEL_DENO: "true", ...endpoint }), "object\n");
});
