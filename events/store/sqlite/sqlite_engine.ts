import { type Applied, type Change, type Engine, type Limits, NoTurnError } from "../engine.ts";
import { versions } from "../sql/rows.ts";
import { addPart, deleteRest, makeChange, makeTransaction, PART_BYTES } from "./_change.ts";
import { readingCells } from "./_cells.ts";
import { isOfDisk } from "./_connection.ts";
import type { SqliteFile } from "./_file.ts";
import type { SqliteReader, SqliteTx } from "./_guard.ts";
import { readingEvents } from "./_reads.ts";
import { Upkeep } from "./_upkeep.ts";

/** The engine of a SQLite file. */
export type SqliteEngine = Engine<SqliteTx, SqliteReader>;

/**
 * Chosen: a file would take more. The room for what handlers add is about that of a KV, so that a bot can be moved
 * there. GitHub sends payloads of up to 25 MB.
 */
const LIMITS: Limits = {
  payloadBytes: 100_000_000,
  bodyBytes: PART_BYTES,
  room: {
    events: 200,
    eventBytes: 700_000,
    idBytes: 64_000,
    states: 3,
    stateBytes: 65_536,
    wakes: 3,
  },
  together: (events) => events.length,
};

/**
 * Longest time between two looks of an idle worker at the schedule: all that other connections write is noticed, so
 * that nothing is left to be found.
 */
const POLL_MS = 300_000;

/**
 * Opens the engine of a SQLite file.
 *
 * @param file The file. The engine does not close it.
 * @param now The clock.
 * @returns The engine.
 */
export function openSqliteEngine(
  file: SqliteFile,
  now: () => number = () => Date.now(),
): SqliteEngine {
  const { db, guard, place, commits } = file;
  const newVersion = versions();
  const upkeep = new Upkeep({
    ...{ db, now, newVersion },
    write: (run) => commits.run({ isIntake: false, run }),
  });
  /** Deletes what is left of large payloads, in transactions of its own. If that fails, the upkeep does it. */
  async function deleteRests(ids: readonly string[]): Promise<void> {
    try {
      for (const id of ids) {
        while (await commits.run({ isIntake: false, run: () => deleteRest(db, id) }));
      }
    } catch {
      // What led to it is stored.
    }
  }
  async function apply(change: Change<SqliteTx>): Promise<Applied> {
    const rests: string[] = [];
    const applied = await commits.run<Applied>({
      isIntake: change.urgency === "intake",
      withinMs: change.withinMs,
      turn: change.turn,
      run() {
        rests.length = 0;
        return makeChange(db, change, { now: now(), version: newVersion(), guard, rests });
      },
      failed: change.effects && refusedByEffects,
    });
    if (applied.ok && rests.length > 0) await deleteRests(rests);
    return applied;
  }
  return {
    name: "sqlite",
    notifier: "watch",
    pollMs: POLL_MS,
    limits: LIMITS,
    reader: guard.reader,
    place,
    now,
    apply,
    transact: (make) =>
      commits.run({
        isIntake: false,
        // What it makes deletes no large payload: the upkeep would find the rest of one.
        run: () =>
          makeTransaction(db, make as (tx: SqliteTx) => Change, {
            ...{ now: now(), version: newVersion(), guard, rests: [] },
          }),
        failed: refusedByEffects,
      }),
    ...readingEvents(db, now),
    ...readingCells(db, now),
    async upload({ id }, body) {
      // Each part is a commit, so that others have their turns between them. The first one marks all as an upload.
      for (let part = 0; part * PART_BYTES < body.byteLength; part++) {
        const uploadedAt = part === 0 ? now() : null;
        await commits.run({ isIntake: true, run: () => addPart(db, id, body, part, uploadedAt) });
      }
    },
    // The sync that follows is that of all commits, also of other processes.
    whenStored: () => commits.run({ isIntake: true, run: () => {} }),
    listen: (wake) => file.listen(wake),
    tidy: (what) => upkeep.tidy(what),
    check: (options) => upkeep.check(options),
  };
}

/** Refuses a change whose effects have failed its transaction. */
function refusedByEffects(error: unknown): Applied {
  if (error instanceof NoTurnError || isOfDisk(error)) throw error;
  return { ok: false, why: "effects", error };
}
