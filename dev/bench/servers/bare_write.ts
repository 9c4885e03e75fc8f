/**
 * The least that storing a payload can cost: its bytes are written to KV, and a request is answered once
 * they are. Nothing is verified, parsed or handled.
 */
import { bareWrite } from "./_bare_write.ts";
import { countHandled } from "./_handled.ts";
import { endWithBenchmark } from "./_parent.ts";
import { readServerSettings } from "./_settings.ts";

const { port, hostname, kvUrl } = readServerSettings();
countHandled();
endWithBenchmark();
const kv = await Deno.openKv(kvUrl);

Deno.serve({ port, hostname, onListen: () => {} }, async (request) => {
  await bareWrite(kv, await request.bytes());
  return new Response("OK");
});
