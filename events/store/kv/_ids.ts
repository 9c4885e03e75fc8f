/**
 * The ids of new events.
 *
 * Ids that the caller has chosen come in a change that stores other events as well. They may be used by others at the
 * same time, so the commit checks that each is unknown. For many ids these checks would be too many: a remote KV
 * takes ten. Such a commit takes its turn, checks and changes one key instead, and looks ids up after it has read that.
 * All other commits with such ids change the key as well, but do not check it: they never wait for each other.
 *
 * A commit that has its turn can be overtaken by these again and again. From its second try on, it has them
 * wait for a moment.
 *
 * @module
 */
import { isText, isTime, shape } from "../../../core/shape.ts";
import { HOLD_MS, unlessHeld } from "./_concurrency.ts";
import { MARK } from "./_layout.ts";
import type { StoreParts } from "./_parts.ts";
import { type Entry, MAX_KEYS, readAll } from "./_reads.ts";
import { Write } from "./_write.ts";
import { encodeValue } from "./value_codec.ts";

/** Smallest number of ids that are remembered: most redeliveries follow soon. UUIDs take about 3 MB. */
const MIN_REMEMBERED = 16_384;

/** The key of the turn. No ordering group has it. */
export const TURN = Symbol("emit");

/** The way in which the ids of a commit are kept from being given away twice. */
export interface IdTurn {
  /** Set if the commit has its turn: then it checks one key, and else each id. */
  readonly isTaken: boolean;
  /** Set unless others were faster before. */
  readonly isFirst: boolean;
}

/** The value of the key that commits change whose ids the caller chose. */
interface ChoiceNote {
  /** The time until which others leave it as it is, milliseconds since the epoch. */
  readonly heldUntil: number;
  /** The one that holds them off. */
  readonly by: string;
}

const isHolding = shape({ heldUntil: isTime, by: isText });

/**
 * Takes ids for new events.
 *
 * @param parts The store.
 * @param write The write that stores the events. It fails if another event takes one of the ids meanwhile.
 * @param ids The ids, each once.
 * @param turn The way in which they are checked.
 * @returns Those that are known.
 */
export async function takeIds(
  parts: StoreParts,
  write: Write,
  ids: readonly string[],
  { isTaken, isFirst }: IdTurn,
): Promise<Set<string>> {
  const { kv, keys } = parts;
  if (ids.length === 0) return new Set();
  const by = isTaken && !isFirst ? await holdOff(parts) : undefined;
  // All in one reading, or the rest after it: an id that is read before could become known unnoticed.
  const first = ids.slice(0, MAX_KEYS - 1);
  const read = () => readAll(kv, [keys.emitting, ...first.map((id) => keys.id(id))]);
  const [turn, ...entries] = await unlessHeld(read, ([turn]) => heldUntil(turn!, by));
  const rest = ids.slice(first.length);
  entries.push(...await readAll(kv, rest.map((id) => keys.id(id))));
  const known = new Set(ids.filter((_, i) => entries[i]!.versionstamp !== null));
  if (isTaken) write.check(turn!);
  else {
    for (const id of ids) {
      if (!known.has(id)) write.check({ key: keys.id(id), versionstamp: null });
    }
  }
  if (known.size < ids.length) write.set(keys.emitting, MARK);
  return known;
}

/** Holds others off for a moment before they look ids up. Returns the name of the holder. */
async function holdOff({ keys, commits }: StoreParts): Promise<string> {
  const by = crypto.randomUUID();
  const note: ChoiceNote = { heldUntil: Date.now() + HOLD_MS, by };
  await commits.commit(new Write().set(keys.emitting, encodeValue(note)));
  return by;
}

/** Finds the time until which another one holds a key; 0 if nobody does. */
function heldUntil({ value }: Entry, by: string | undefined): number {
  const note = isHolding(value) ? value as ChoiceNote : undefined;
  return note === undefined || note.by === by ? 0 : note.heldUntil;
}

/**
 * The ids of the events that were taken in lately. One duplicate makes a group commit fail for all its deliveries, so
 * an id that is known here is looked up before.
 */
export class RecentIds {
  #young = new Set<string>();
  #old = new Set<string>();

  /** Checks whether an id was added lately. */
  has(id: string): boolean {
    return this.#young.has(id) || this.#old.has(id);
  }

  /** Adds an id. */
  add(id: string): void {
    this.#young.add(id);
    if (this.#young.size < MIN_REMEMBERED) return;
    this.#old = this.#young;
    this.#young = new Set();
  }
}
