import type { CommitEffects, EventStore } from "../../../events/mod.ts";
import { createEventStore } from "../../../events/store/open_store.ts";
import type { Session } from "../../../events/store/postgres/_connections.ts";
import type { OpenDatabase } from "../../../events/store/postgres/_open_database.ts";
import type { PostgresTx } from "../../../events/store/postgres/mod.ts";
import { openPostgresEngine } from "../../../events/store/postgres/postgres_engine.ts";
import { deleteUploads } from "../store/_tidying.ts";
import { simulateEngine } from "./_simulated_engine.ts";
import type { SimulatedPlace, Written } from "./_simulated_place.ts";
import type { Simulation } from "./_simulation.ts";

/** Fate of a value that is there. */
const IF_THERE = "on conflict (name) do update set step = excluded.step, value =";

const SUM = "to_jsonb(known.value::numeric + excluded.value::numeric)";

/** An empty schema, and what ends it. */
interface EmptySchema extends AsyncDisposable {
  readonly database: OpenDatabase;
  readonly schema: string;
}

/** Makes a simulated place of an empty schema. A call of a process is made, and answered, in one turn. */
export async function simulatePostgres(
  { database, schema, ...rest }: EmptySchema,
  simulation: Simulation,
): Promise<SimulatedPlace> {
  const { db } = database;
  const watchers = new Set<() => void>();
  const table = `"${schema}".effect`;
  await db.run(`alter table ${table} add column step int`);
  const engine = () => openPostgresEngine(database, () => Date.now());
  const open = () => createEventStore(engine());
  const writing = (name: string, value: string | number, otherwise = ""): CommitEffects => {
    const sql = `insert into ${table} as known values ($1, $2::jsonb, $3) ${otherwise}`;
    const effects = (tx: PostgresTx) =>
      tx.query(sql, [name, JSON.stringify(value), simulation.step]);
    return effects as unknown as CommitEffects;
  };
  return {
    effects: {
      set: (name, value) => writing(name, value, `${IF_THERE} excluded.value`),
      add: (name, value) => writing(name, value, `${IF_THERE} ${SUM}`),
      create: (name, value) => writing(name, value),
      get: (name) => simulation.turn(() => valueIn(db, name)),
    },
    open: () => Promise.resolve(open()),
    process({ faultRate = 0, keepPayloads, log = () => {} } = {}) {
      const options = { faultRate, watchers, isWholeInTurn: true };
      const view = simulateEngine(engine(), simulation, options);
      const store = createEventStore(view.engine, { keepPayloads, log });
      return Promise.resolve({ store, cut: view.cut });
    },
    written: (beginning) => writtenIn(db, beginning),
    lose: () => simulation.turn(() => lose(db, simulation)),
    leftovers: () => leftoversIn(open(), db),
    [Symbol.asyncDispose]: () => rest[Symbol.asyncDispose](),
  };
}

async function valueIn(db: Session, name: string): Promise<string | number | null> {
  const [row] = await db.all<{ value: string }>(
    "select value::text as value from @effect where name = $1",
    name,
  );
  return row ? JSON.parse(row.value) : null;
}

async function writtenIn(db: Session, beginning: string): Promise<Written[]> {
  const rows = await db.all<{ name: string; value: string; step: number }>(
    "select name, value::text as value, step from @effect where starts_with(name, $1)",
    `${beginning}/`,
  );
  return rows.map(({ name, value, step }) => ({
    ...{ name: name.slice(beginning.length + 1), value: JSON.parse(value), step },
  }));
}

/** Columns that lead to an event: the times at which it is due, or its position in a group. */
const LEADING = {
  due_at: "own_due_at = null, other_due_at = null",
  group_key: "group_key = null, position = null",
};

async function lose(db: Session, simulation: Simulation): Promise<void> {
  const [column, lost] = simulation.oneOf(Object.entries(LEADING));
  const rows = await db.all<{ seq: number }>(
    `select seq from @event where ${column} is not null order by seq`,
  );
  if (rows.length === 0) return;
  await db.run(`update @event set ${lost} where seq = $1`, simulation.oneOf(rows).seq);
}

/** Kinds of cells that stay when all events are purged: sums that are 0, states, and notes of processes and of the store. */
const OWN = [
  ...["state", "process", "keptCounted", "checked", "source"],
  // Notes of problems are kept for days.
  ...["problem", "problemNew", "problemHour", "problemLast"],
];

/** Purges all events of a schema once nothing is due any more, and tells what is left then. */
async function leftoversIn(store: EventStore, db: Session): Promise<unknown[]> {
  await store.purge({});
  await store.claim({ limit: 100, owner: "tidy", leaseMs: 1 });
  await deleteUploads(store, 0);
  // Values that nobody has waited for are kept for a while.
  for await (const answer of store.answers()) if (!answer.eventId) await answer.delete();
  const cells = await db.all<{ name: string }>(
    "select name, total from @cell where total is distinct from 0",
  );
  return [
    ...await db.all("select id, state from @event"),
    ...await db.all("select key from @ordering_group"),
    ...await db.all("select id, part from @payload"),
    ...cells.filter(({ name }) => !OWN.includes(name.split("/")[0]!)),
  ];
}
