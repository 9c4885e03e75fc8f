/** A KV value holds 65,536 bytes, a commit 819,200. */
const CHUNK_BYTES = 65_000;
const CHUNKS_PER_COMMIT = 12;

/** Writes bytes in chunks that fit a KV value, in as few commits as they fit. */
export async function bareWrite(kv: Deno.Kv, body: Uint8Array): Promise<void> {
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
