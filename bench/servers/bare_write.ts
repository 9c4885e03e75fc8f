/**
 * The least that storing a payload can cost: its bytes in chunks that fit a KV value, in as few commits
 * as they fit, and an answer once they are written. Nothing is proved, parsed or handled.
 */
import { countHandled } from "./_handled.ts";
import { endWithBenchmark } from "./_parent.ts";
import { readServerSettings } from "./_settings.ts";

/** A KV value holds 65,536 bytes, a commit 819,200. */
const CHUNK_BYTES = 65_000;
const CHUNKS_PER_COMMIT = 12;

const { port, hostname, kvUrl } = readServerSettings();
countHandled();
endWithBenchmark();
const kv = await Deno.openKv(kvUrl);

async function write(body: Uint8Array): Promise<void> {
  const id = crypto.randomUUID();
  const chunks = Math.ceil(body.length / CHUNK_BYTES);
  for (let i = 0; i < chunks; i += CHUNKS_PER_COMMIT) {
    const commit = kv.atomic();
    for (let chunk = i; chunk < Math.min(i + CHUNKS_PER_COMMIT, chunks); chunk++) {
      const start = chunk * CHUNK_BYTES;
      commit.set([id, chunk], body.slice(start, start + CHUNK_BYTES));
    }
    await commit.commit();
  }
}

Deno.serve({ port, hostname, onListen: () => {} }, async (request) => {
  await write(await request.bytes());
  return new Response("OK");
});
