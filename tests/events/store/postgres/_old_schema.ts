import { OpenDatabase } from "../../../../events/store/postgres/_open_database.ts";
import { Connections } from "../../../../events/store/postgres/_connections.ts";
import { bringToLayout, LAYOUTS } from "../../../../events/store/postgres/_schema.ts";
import { addressIn } from "../../../../events/store/postgres/_settings.ts";
import type { LogRecord } from "../../../../core/mod.ts";
import { sharedPostgres } from "./_server.ts";

/** A schema of the first layout, with what opens it, until it goes out of scope. */
export class OldSchema implements AsyncDisposable {
  readonly schema: string;
  readonly url: string;
  /** Connections of a program of that layout. */
  readonly older: Connections;
  /** Messages of the databases that were opened. */
  readonly lines: LogRecord[] = [];
  readonly #opened: OpenDatabase[] = [];

  private constructor(url: string, schema: string, older: Connections) {
    this.url = url;
    this.schema = schema;
    this.older = older;
  }

  /** Makes a schema with events that are dead, as a program of that layout does. */
  static async with(events: number): Promise<OldSchema> {
    const { direct } = await sharedPostgres();
    const schema = `old_${crypto.randomUUID().replaceAll("-", "")}`;
    const options = { schema: `"${schema}"`, handlers: 3 };
    const older = await Connections.to(addressIn(direct).settings, options);
    await bringToLayout(older, LAYOUTS.slice(0, 1));
    const old = new OldSchema(direct, schema, older);
    await old.add("e", events);
    return old;
  }

  /** Adds dead events, in one transaction. */
  async add(name: string, count: number, db: Pick<Connections, "run"> = this.older): Promise<void> {
    const record = {
      ...{ id: "$id", platform: "forge", source: "github", type: "push", requestId: null },
      ...{ receivedAt: 1_000, state: "dead", outcome: "failed", attempt: 1, dueAt: null },
      ...{ orderingKey: null, group: null, lease: null, settledAt: 2_000, payload: null },
      attempts: [{ attempt: 1, startedAt: 1_500, endedAt: 2_000, outcome: "failed", error: "no" }],
    };
    await db.run(
      `insert into @event (id, received_at, state, settled_at, version, record)
      select $1 || n, 1000, 'dead', 2000, 'older', convert_to(replace($2, '$id', $1 || n), 'UTF8')
      from generate_series(1, $3::int) as n`,
      ...[name, JSON.stringify(record), count],
    );
  }

  /** Opens it as an app of this version does, by another URL and with settings of its sessions, if there are any. */
  async open(url = this.url, options?: string): Promise<OpenDatabase> {
    const database = await OpenDatabase.open({ ...addressIn(url).settings, options }, {
      ...{ schema: this.schema, handlers: 1, buildsIndexes: true },
      log: (record) => void this.lines.push(record),
    });
    this.#opened.push(database);
    return database;
  }

  /** Reads which of the later indexes are there, and whether they are valid. */
  async indexes(): Promise<Record<string, boolean>> {
    const rows = await this.older.all<{ name: string; valid: boolean }>(
      `select relname as name, indisvalid as valid from pg_index join pg_class on pg_class.oid = indexrelid
      where indrelid = to_regclass('@event') and relname in ('event_problem', 'event_done')`,
    );
    return Object.fromEntries(rows.map(({ name, valid }) => [name, valid]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const database of this.#opened) await database.close();
    await this.older.run(`drop schema ${this.older.schema} cascade`);
    await this.older.close();
  }
}
