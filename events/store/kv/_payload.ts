import type { CommitMarks } from "../../../core/kv_commits.ts";
import { isCount, isTime, shape } from "../../../core/shape.ts";
import { type EventRecord, type EventRef, isPayloadOf, type PayloadRef } from "../event_record.ts";
import type { KeyedLock } from "./_concurrency.ts";
import {
  eventIn,
  fitsStore,
  type KvParts,
  type Mutations,
  notesOf,
  PART_BYTES,
  partsOf,
  type StoreKeys,
} from "./_layout.ts";
import { decoded, list, readAllStored, type ReadKeys } from "./_reads.ts";
import type { WriteCheck } from "./_write.ts";
import { encodeValue } from "./value_codec.ts";

/** One commit holds 819,200 bytes: this many parts leave 39 KB for keys and the event's record. */
const PARTS_PER_COMMIT = 12;

/** The largest payload that fits the commit which makes its event visible, in bytes. */
export const MAX_BODY_BYTES = PARTS_PER_COMMIT * PART_BYTES;

const NO_BYTES = new Uint8Array(0);

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
  readonly size: number;
}

const isUpload = shape<UploadMark>({ startedAt: isTime, size: isCount });

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

/** Adds a payload's parts to a commit. */
export function setParts(
  commit: Mutations,
  keys: StoreKeys,
  ref: PayloadRef,
  body: Uint8Array<ArrayBuffer>,
  start = 0,
  end = Infinity,
): void {
  for (let i = start; i < Math.min(end, partsOf(ref.size)); i++) {
    commit.set(keys.part(ref.id, i), body.subarray(i * PART_BYTES, (i + 1) * PART_BYTES));
  }
}

/** Adds the deletion of a payload's parts to a commit. */
export function deleteParts(commit: Mutations, keys: StoreKeys, ref: PayloadRef): void {
  // Of one that no store can have made there are no parts.
  if (!fitsStore(ref)) return;
  for (let i = 0; i < partsOf(ref.size); i++) commit.delete(keys.part(ref.id, i));
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
  const startedAt = Date.now();
  const key = keys.upload(ref.id);
  let versionstamp: string | null = null;
  for (let start = 0; start < partsOf(ref.size); start += PARTS_PER_COMMIT) {
    const operation = kv.atomic();
    if (!versionstamp) {
      operation.set(key, encodeValue({ startedAt, size: ref.size } satisfies UploadMark));
    }
    setParts(operation, keys, ref, body, start, start + PARTS_PER_COMMIT);
    const result = await locks.run(
      UPLOADS,
      () => marks.commit(operation, [{ key, versionstamp }]),
    );
    if (!result.ok) throw new Error("Cannot upload the payload: it took too long, and was deleted");
    versionstamp ??= result.versionstamp;
  }
  uploads.add(ref, { key, versionstamp: versionstamp! });
}

/** Reads the parts of a payload that are there. */
async function readParts(
  { kv, keys }: KvParts,
  { id, size }: PayloadRef,
): Promise<Uint8Array<ArrayBuffer>> {
  const body = new Uint8Array(size);
  let offset = 0;
  const entries = kv.list<Uint8Array>(keys.parts(id), { batchSize: PARTS_PER_COMMIT });
  for await (const { value } of entries) {
    if (!(value instanceof Uint8Array) || offset + value.byteLength > size) break;
    body.set(value, offset);
    offset += value.byteLength;
  }
  return body.subarray(0, offset);
}

/**
 * Reads a payload of an event, which may be in its record.
 *
 * @param parts The store.
 * @param ref The payload.
 * @param of The event.
 * @returns The bytes of it that are there.
 */
export async function loadPayload(
  parts: KvParts,
  ref: PayloadRef,
  of: EventRef,
): Promise<Uint8Array<ArrayBuffer>> {
  const { kv, keys } = parts;
  if (!fitsStore(ref)) return NO_BYTES;
  if (!fitsRecord(ref)) return await readParts(parts, ref);
  // At the same time: a change takes it out of the record.
  const [part, record] = await readAllStored(kv, [keys.part(ref.id, 0), keys.event(of)]);
  if (part!.value instanceof Uint8Array) return part!.value as Uint8Array<ArrayBuffer>;
  const event = eventIn(decoded(record!), of);
  return event?.record && event.record.payload?.id === ref.id && event.body || NO_BYTES;
}

/** Reads the payloads that are in one part, of several events; undefined for any other. */
export async function readSmallPayloads(
  kv: Deno.Kv,
  keys: StoreKeys,
  records: readonly (EventRecord | undefined)[],
  readKeys: ReadKeys,
): Promise<(Uint8Array<ArrayBuffer> | undefined)[]> {
  const isSmall = (record: EventRecord | undefined): record is EventRecord =>
    record?.payload != null && record.payload.size <= PART_BYTES && !notesOf(record).holdsPayload;
  const parts = records.filter(isSmall).map(({ payload }) => keys.part(payload!.id, 0));
  const values = (await readKeys(kv, parts)).values();
  return records.map((record) => {
    if (!isSmall(record)) return undefined;
    const value: unknown = values.next().value?.value;
    return isPayloadOf(record, value) ? value : undefined;
  });
}

/** Deletes an upload that does not become an event; false, and nothing, once it has become one. */
async function discardUpload(
  { kv, keys, marks, uploads }: UploadParts,
  ref: PayloadRef,
  mark: Upload,
): Promise<boolean> {
  uploads.forget(ref);
  const operation = kv.atomic().delete(mark.key);
  deleteParts(operation, keys, ref);
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
    if (!isUpload(value) || !fitsStore(value)) continue;
    const { startedAt, size } = value;
    if (startedAt >= before) continue;
    const ref = { id: String(key.at(-1)), size };
    if (await discardUpload(parts, ref, { key, versionstamp })) deleted++;
  }
  return deleted;
}
