import type { Applied, Change, Engine, Stored, Unreadable } from "../engine.ts";
import { TooLargeError } from "../engine.ts";
import type { PayloadRef } from "../event_record.ts";
import { withoutOwnKeys } from "../own_keys.ts";
import { Tries } from "../_tries.ts";
import { encodeValue } from "../value_codec.ts";
import { EventWrite } from "./_event_write.ts";
import type { GroupIntake } from "./_group_intake.ts";
import { eventIn, findEvents, refOf } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { chunksOf, deleteChunks, fitsOneCommit } from "./_payload.ts";
import { type Entry, readAll } from "./_reads.ts";
import { hasTooManyChecks, isTooMuch, Write, type WriteCheck } from "./_write.ts";

type KvChange = Change<Deno.AtomicOperation>;

type Refused = Extract<Applied, { readonly ok: false }>;

/** The versions of the entries of ids that lead to no event. */
type Freed = Map<string, string | null>;

/** Makes the method that changes a store. */
export function applying(
  parts: StoreParts,
  _joins: GroupIntake,
): Pick<Engine<Deno.AtomicOperation, Deno.Kv>, "apply"> {
  return {
    async apply(change) {
      try {
        return await applyAlone(parts, change);
      } catch (error) {
        throw isTooMuch(error) ? tooLarge(error) : error;
      }
    },
  };
}

/** Applies a change, anew while others change what it depends on. */
async function applyAlone(parts: StoreParts, change: KvChange): Promise<Applied> {
  let freed: Freed | undefined;
  for (const tries = new Tries();; await tries.next()) {
    const attempt = new Attempt(parts, change, freed);
    const applied = await attempt.run();
    if (applied) return applied;
    freed = attempt.freed;
  }
}

/** A try to make a change. */
class Attempt {
  /** The ids that lead to no event, as this try and earlier ones have found them. */
  freed: Freed | undefined;
  readonly #parts: StoreParts;
  readonly #change: KvChange;
  readonly #write = new Write();
  readonly #events: EventWrite[] = [];
  /** What the effects have thrown. */
  #thrown: { readonly error: unknown } | undefined;

  constructor(parts: StoreParts, change: KvChange, freed: Freed | undefined) {
    this.#parts = parts;
    this.#change = change;
    this.freed = freed;
  }

  /** Makes the try; undefined if others were faster, and another one may succeed. */
  async run(): Promise<Applied | undefined> {
    const reading = this.#addEvents();
    if (reading) await reading;
    this.#addRest();
    const write = this.#write;
    let version: string | null;
    try {
      version = await this.#parts.commits.commit(write, this.#change.withinMs);
    } catch (error) {
      if (!this.#isOfEffects(error)) throw error;
      return { ok: false, why: "effects", error: this.#thrown ? this.#thrown.error : error };
    }
    return version === null ? await this.#refusal() : this.#applied(version);
  }

  #addEvents(): Promise<unknown> | undefined {
    const { puts } = this.#change;
    if (!puts) return undefined;
    const at = { now: Date.now() };
    let readings: Promise<void>[] | undefined;
    for (const put of puts) {
      const event = new EventWrite(this.#parts, this.#change, put, this.#write);
      this.#events.push(event);
      const reading = event.start(at, this.freed?.get(event.id) ?? null);
      if (reading) (readings ??= []).push(reading);
    }
    return readings && Promise.all(readings);
  }

  /** Adds what stands beside the events. */
  #addRest(): void {
    const { cells, sums, unchanged, drops, effects, urgency, announce } = this.#change;
    const { keys } = this.#parts;
    const write = this.#write;
    if (unchanged) {
      for (const { record, version } of unchanged) {
        write.check({ key: keys.event(record), versionstamp: version, why: "event" });
      }
    }
    if (cells || sums) addCells(write, this.#parts, { cells, sums });
    if (drops) { for (const payload of drops) dropPayload(write, this.#parts, payload); }
    if (effects) {
      write.effects = (commit) => {
        try {
          effects(withoutOwnKeys(commit, keys.namespaces));
        } catch (error) {
          this.#thrown = { error };
          throw error;
        }
      };
    }
    write.isIntake = urgency === "intake";
    write.notifies = announce ?? false;
  }

  #applied(version: string): Applied {
    return { ok: true, version, written: this.#events.map((event) => event.written(version)) };
  }

  /** Checks whether the effects are to blame for an error: then nothing was made. */
  #isOfEffects(error: unknown): boolean {
    if (!this.#change.effects) return false;
    // A KV refuses what it cannot store before it begins.
    return this.#thrown !== undefined || hasTooManyChecks(error) ||
      (error instanceof TypeError && !isTooMuch(error));
  }

  /** Finds out why the change was refused; undefined if it is to be made anew. */
  async #refusal(): Promise<Refused | undefined> {
    const { checks } = this.#write;
    const entries = await readAll(this.#parts.kv, checks.map(({ key }) => key));
    let isOvertaken = false;
    for (const [i, check] of checks.entries()) {
      if (entries[i]!.versionstamp === check.versionstamp) continue;
      const refused = await this.#reasonOf(check, entries[i]!);
      if (refused) return refused;
      isOvertaken = true;
    }
    if (isOvertaken || !this.#change.effects) return undefined;
    const error = new Error("A check among the effects does not hold");
    return { ok: false, why: "effects", error };
  }

  /** Finds out why a change is refused of which a check does not hold. */
  async #reasonOf({ why, key }: WriteCheck, entry: Entry): Promise<Refused | undefined> {
    switch (why) {
      case undefined:
        return undefined;
      case "id": {
        const found = await this.#holderOf(key, entry);
        return found && { ok: false, why, found };
      }
      case "event":
        return { ok: false, why, found: eventIn(entry, refOf(key)) };
      case "upload":
        throw new Error("Cannot store the event: its payload took too long, and was deleted");
      default:
        return { ok: false, why };
    }
  }

  /** Finds the event that has an id. Without one the next try takes the id over. */
  async #holderOf(key: Deno.KvKey, entry: Entry): Promise<Stored | Unreadable | undefined> {
    const ref = refOf(key);
    const [found] = await findEvents(this.#parts, [ref.id]);
    if (found) return found;
    if (key.length > this.#parts.keys.id(ref.id).length) return eventIn(entry, ref);
    (this.freed ??= new Map()).set(ref.id, entry.versionstamp);
    return undefined;
  }
}

function addCells(
  write: Write,
  { keys }: StoreParts,
  { cells = [], sums = [] }: Pick<KvChange, "cells" | "sums">,
): void {
  for (const { key, version, after, forMs } of cells) {
    const stored = keys.cell(key);
    if (version !== undefined) write.check({ key: stored, versionstamp: version, why: "cell" });
    const options = forMs === undefined ? undefined : { expireIn: forMs };
    if (after === null) write.delete(stored);
    else if (after !== undefined) write.set(stored, encodeValue(after), options);
  }
  for (const sum of sums) {
    if ("by" in sum) write.sum(keys.cell(sum.key), sum.by);
    else write.setSum(keys.cell(sum.key), sum.to);
  }
}

/** Deletes a payload that no record names. */
function dropPayload(write: Write, { keys }: StoreParts, { id, size }: PayloadRef): void {
  const ref = { id, size, chunks: chunksOf(size) };
  deleteChunks(write, keys, ref);
  // It may have been uploaded in vain.
  if (!fitsOneCommit(ref)) write.delete(keys.upload(id));
}

function tooLarge(cause: unknown): TooLargeError {
  return new TooLargeError(cause instanceof Error ? cause.message : String(cause), { cause });
}
