/**
 * A process that replays all dead events of a store, as the console does or as the tool does, until it kills itself in
 * the midst. Its argument is JSON, see `BulkActOptions`.
 */
import { ConsoleData } from "../../console/_console_data.ts";
import type { EventStore } from "../../events/mod.ts";
import { openAt } from "../events/store/engines/mod.ts";
import type { StoreAddress } from "../events/store/engines/_engine.ts";

/** Options of a bulk act. */
export interface BulkActOptions {
  readonly at: StoreAddress;
  /** Id of the console's act; none for the tool, which has no record of what it does. */
  readonly id?: string;
  /** Number of events that it is about. */
  readonly events: number;
  /** Number of events after which the process kills itself, while others are being changed. */
  readonly killAfter: number;
}

/** Has a store kill its process once it has replayed a number of events. */
function dying(store: EventStore, killAfter: number): EventStore {
  let changed = 0;
  return {
    ...store,
    replayAll(filter, options) {
      let before = 0;
      const onProgress: NonNullable<typeof options>["onProgress"] = (progress) => {
        options?.onProgress?.(progress);
        changed += progress.changed - before;
        before = progress.changed;
        if (changed >= killAfter) Deno.kill(Deno.pid, "SIGKILL");
      };
      return store.replayAll(filter, { ...options, onProgress });
    },
  };
}

if (import.meta.main) {
  const { at, id, events: of, killAfter }: BulkActOptions = JSON.parse(Deno.args[0]!);
  const store = dying((await openAt(at, { log: () => {} })).store, killAfter);
  const by = "killed";
  if (id === undefined) await store.replayAll({ state: "dead" }, { by });
  else {
    const data = new ConsoleData(store, () => {});
    await data.acts.all({ id, kind: "replay", query: { state: "dead" }, of, by });
    setInterval(() => {}, 1_000);
  }
}
