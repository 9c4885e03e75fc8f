import type { Engine, Limits } from "../engine.ts";
import { versions } from "../sql/rows.ts";
import { readingCells } from "./_cells.ts";
import { Commits } from "./_commits.ts";
import type { OpenDatabase } from "./_open_database.ts";
import { EventReads } from "./_reads.ts";
import type { PostgresReader, PostgresTx } from "./_tx.ts";
import { Upkeep } from "./_upkeep.ts";
import { insertParts, PART_BYTES } from "./_working_set.ts";

/** The engine of a schema of a Postgres database. */
export type PostgresEngine = Engine<PostgresTx, PostgresReader>;

/**
 * Chosen: a database would take more. The room for what handlers add is about that of a KV, so that a bot can be moved
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
 * Longest time between two looks of an idle worker at the schedule, in milliseconds: if nothing tells of changes, and if a
 * process that does may be killed before it has.
 */
const [POLL_MS, LISTENING_POLL_MS] = [1_000, 45_000] as const;

/**
 * Opens the engine of a schema.
 *
 * @param database The database. The engine does not close it.
 * @param now The clock.
 * @returns The engine.
 */
export function openPostgresEngine(
  database: OpenDatabase,
  now: () => number = () => database.now(),
): PostgresEngine {
  const { db, place, reader, wakeUps } = database;
  const newVersion = versions();
  const commits = new Commits({ db, now, newVersion, announced: () => wakeUps?.notify() });
  const upkeep = new Upkeep({ db, now, newVersion });
  const reads = new EventReads(db, now);
  return {
    name: "postgres",
    notifier: wakeUps ? "listen" : "poll",
    pollMs: wakeUps ? LISTENING_POLL_MS : POLL_MS,
    limits: LIMITS,
    awaitsEffects: true,
    reader,
    place,
    now,
    apply: (change) => commits.apply(change),
    transact: (make) => commits.transact(make),
    async insertIn(tx, puts) {
      const written = await commits.insertIn(tx, puts);
      wakeUps?.expect();
      return written;
    },
    get: (events) => reads.get(events),
    ids: (options) => reads.ids(options),
    due: (options) => reads.due(options),
    group: (key, options) => reads.group(key, options),
    scan: (scan) => reads.scan(scan),
    count: (max, signal) => reads.count(max, signal),
    problems: (limits) => reads.problems(limits),
    payload: (ref, of) => reads.payload(ref, of),
    ...readingCells(db, now),
    async upload({ id }, body) {
      // Each part is a transaction. The first one marks all as an upload.
      for (let part = 0; part * PART_BYTES < body.byteLength; part++) {
        const begin = part * PART_BYTES;
        const bytes = body.subarray(begin, begin + PART_BYTES);
        await insertParts(db, [[id, part, bytes]], part === 0 ? now() : null);
      }
    },
    // What others can read of a commit is on the disk.
    whenStored: () => Promise.resolve(),
    listen: (wake) => database.listen(wake),
    tidy: (what) => upkeep.tidy(what),
    check: (options) => upkeep.check(options),
  };
}
