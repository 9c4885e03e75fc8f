import type { CommitMarks } from "../../../core/kv_commits.ts";
import type { EventRecord, EventRef, PayloadRef } from "../event_record.ts";
import { isChunkCount, isPayloadOf, isTime, MAX_CHUNKS, shape } from "../record_shape.ts";
import { chunksOf, PART_BYTES } from "../store_core.ts";
import type { KeyedLock } from "./_concurrency.ts";
import { type KvParts, type Mutations, readEvent, type StoreKeys } from "./_layout.ts";
import { encodeValue } from "../value_codec.ts";
import { list, type ReadKeys } from "./_reads.ts";
import type { WriteCheck } from "./_write.ts";

/** One commit holds 819,200 bytes: this many parts leave 39 KB for keys and the event's record. */
const CHUNKS_PER_COMMIT = 12;

/** The largest payload that can be stored, in bytes. */
export const MAX_PAYLOAD_BYTES = MAX_CHUNKS * PART_BYTES;

/** The largest payload that fits the commit which makes its event visible, in bytes. */
export const MAX_BODY_BYTES = CHUNKS_PER_COMMIT * PART_BYTES;

/** The key of the turns of uploads. No ordering group has it. */
const UPLOADS = Symbol("upload");

/** The mark of an upload, with the version that it must have when its event becomes visible. */
type Upload = { readonly key: Deno.KvKey; readonly versionstamp: string };

/** The parts of a store that uploads work with. */
interface UploadParts {
  readonly kv: Deno.Kv;
  readonly keys: StoreKeys;
  readonly marks: CommitMarks;
  readonly uploads: Uploads;
}

/** A write, or a commit, that can check versions. */
interface CheckedMutations extends Mutations {
  check(check: WriteCheck): unknown;
}

/** The mark of a payload that is still being written. */
interface UploadMark {
  readonly startedAt: number;
  readonly chunks: number;
}

const isUpload = shape<UploadMark>({
  startedAt: isTime,
  chunks: isChunkCount,
});

/** The marks of the payloads that this process has uploaded, and that no event names yet. */
export class Uploads {
  readonly #marks = new Map<string, Upload>();

  /** Remembers the mark of a payload that was uploaded. */
  add({ id }: Pick<PayloadRef, "id">, mark: Upload): void {
    this.#marks.set(id, mark);
  }

  /**
   * Adds to a write that an event names a payload from now on: its mark must still be there, and is deleted.
   *
   * @returns False if it was not uploaded.
   */
  take(write: CheckedMutations, { id }: Pick<PayloadRef, "id">): boolean {
    const mark = this.#marks.get(id);
    if (!mark) return false;
    write.check({ ...mark, why: "payload" });
    write.delete(mark.key);
    return true;
  }

  /** Forgets a payload that an event names now, or that is deleted. */
  forget({ id }: Pick<PayloadRef, "id">): void {
    this.#marks.delete(id);
  }
}

/** Largest payload in a record, in bytes: this leaves room for all else that a record may hold. */
const RECORD_BYTES = 32_768;

/** Checks whether a payload is small enough for the record of its event. */
export function fitsRecord({ size }: PayloadRef): boolean {
  return size <= RECORD_BYTES;
}

/** Checks whether a payload fits into the commit that makes its event visible. */
export function fitsOneCommit(ref: PayloadRef): boolean {
  return ref.chunks <= CHUNKS_PER_COMMIT;
}

/** Checks whether a payload is in one part. */
function fitsOneChunk(ref: PayloadRef): boolean {
  return ref.chunks === 1;
}

/** Adds a payload's parts to a commit. */
export function setChunks(
  commit: Mutations,
  keys: StoreKeys,
  ref: PayloadRef,
  body: Uint8Array<ArrayBuffer>,
  start = 0,
  end = ref.chunks,
): void {
  for (let i = start; i < Math.min(end, ref.chunks); i++) {
    commit.set(keys.chunk(ref.id, i), body.subarray(i * PART_BYTES, (i + 1) * PART_BYTES));
  }
}

/** Adds the deletion of a payload's parts to a commit. */
export function deleteChunks(
  commit: Mutations,
  keys: StoreKeys,
  ref: Pick<PayloadRef, "id" | "chunks">,
): void {
  for (let i = 0; i < ref.chunks; i++) commit.delete(keys.chunk(ref.id, i));
}

/**
 * Stores a payload that does not fit one commit. The commit of the event that names it deletes the mark of the upload,
 * see {@linkcode Uploads}. Uploads take turns: otherwise small deliveries would wait for the parts of all uploads.
 *
 * @param parts The store.
 * @param ref The payload.
 * @param body Its bytes.
 */
export async function upload(
  { kv, keys, marks, locks, uploads }: UploadParts & { readonly locks: KeyedLock },
  ref: PayloadRef,
  body: Uint8Array<ArrayBuffer>,
): Promise<void> {
  const whole = { ...ref, chunks: chunksOf(ref.size) };
  const startedAt = Date.now();
  const key = keys.upload(ref.id);
  let versionstamp: string | null = null;
  for (let start = 0; start < whole.chunks; start += CHUNKS_PER_COMMIT) {
    const operation = kv.atomic();
    if (!versionstamp) {
      operation.set(key, encodeValue({ startedAt, chunks: whole.chunks } satisfies UploadMark));
    }
    setChunks(operation, keys, whole, body, start, start + CHUNKS_PER_COMMIT);
    const result = await locks.run(
      UPLOADS,
      () => marks.commit(operation, [{ key, versionstamp }]),
    );
    if (!result.ok) throw new Error("Cannot upload the payload: it took too long, and was deleted");
    versionstamp ??= result.versionstamp;
  }
  uploads.add(ref, { key, versionstamp: versionstamp! });
}

/** Reads a payload back, and makes sure that all of it is there. */
async function readPayload(
  kv: Deno.Kv,
  keys: StoreKeys,
  ref: PayloadRef,
): Promise<Uint8Array<ArrayBuffer>> {
  const body = new Uint8Array(ref.size);
  let [offset, count] = [0, 0];
  const entries = kv.list<Uint8Array>(keys.chunks(ref.id), { batchSize: CHUNKS_PER_COMMIT });
  for await (const { value } of entries) {
    if (!(value instanceof Uint8Array) || offset + value.byteLength > ref.size) break;
    body.set(value, offset);
    offset += value.byteLength;
    count++;
  }
  if (offset !== ref.size || count !== ref.chunks) {
    throw new Error(`Cannot read the payload: ${offset} of ${ref.size} bytes are there`);
  }
  return body;
}

/**
 * Reads a payload of an event, which may be in its record.
 *
 * @param parts The store.
 * @param ref The payload.
 * @param of The event.
 * @returns Its bytes, all of them.
 */
export async function loadPayload(
  parts: KvParts,
  ref: PayloadRef,
  of: EventRef,
): Promise<Uint8Array<ArrayBuffer>> {
  const { kv, keys } = parts;
  if (ref.chunks > 0) return await readPayload(kv, keys, ref);
  const event = await readEvent(parts, of);
  if (event?.record) {
    const { body, record: { payload, state } } = event;
    if (body) return body;
    if (payload?.chunks) return await readPayload(kv, keys, payload);
    // It was taken out of the record to be kept when its event was done.
    if (state === "done") return await readPayload(kv, keys, { ...ref, chunks: 1 });
  }
  throw new Error(`Cannot read the payload: the record of event ${of.id} does not hold it`);
}

/** Reads the payloads that are in one part, of several events; undefined for any other. */
export async function readSmallPayloads(
  kv: Deno.Kv,
  keys: StoreKeys,
  records: readonly (EventRecord | undefined)[],
  readKeys: ReadKeys,
): Promise<(Uint8Array<ArrayBuffer> | undefined)[]> {
  const refs = records.map((record) => record?.payload ?? undefined);
  const small = refs.filter((ref) => ref !== undefined).filter(fitsOneChunk);
  const chunks = small.map(({ id }) => keys.chunk(id, 0));
  const values = (await readKeys(kv, chunks)).values();
  return refs.map((ref) => {
    if (!ref || !fitsOneChunk(ref)) return undefined;
    const value: unknown = values.next().value?.value;
    return isPayloadOf({ payload: ref }, value) ? value : undefined;
  });
}

/** Deletes an upload that does not become an event; false, and nothing, once it has become one. */
async function discardUpload(
  { kv, keys, marks, uploads }: UploadParts,
  ref: Pick<PayloadRef, "id" | "chunks">,
  mark: Upload,
): Promise<boolean> {
  uploads.forget(ref);
  const operation = kv.atomic().delete(mark.key);
  deleteChunks(operation, keys, ref);
  return (await marks.commit(operation, [mark])).ok;
}

/**
 * Deletes the uploads that were begun before a time and never became an event. A mark written by another
 * version is left for that version.
 */
export async function deleteStaleUploads(
  parts: UploadParts,
  before: number,
): Promise<number> {
  let deleted = 0;
  for await (const { key, value, versionstamp } of list(parts.kv, parts.keys.uploads)) {
    if (!isUpload(value)) continue;
    const { startedAt, chunks } = value;
    if (startedAt >= before) continue;
    const ref = { id: String(key.at(-1)), chunks };
    if (await discardUpload(parts, ref, { key, versionstamp })) deleted++;
  }
  return deleted;
}
