import { CommitMarks } from "../../../../core/kv_commits.ts";
import { readingOf } from "../../../../events/store/kv/_engine_reads.ts";
import { GroupCommit } from "../../../../events/store/kv/_group_commit.ts";
import { KeyedLock } from "../../../../events/store/kv/_concurrency.ts";
import { guardKv } from "../../../../events/store/kv/_kv_guard.ts";
import { storeKeys } from "../../../../events/store/kv/_layout.ts";
import type { StoreParts } from "../../../../events/store/kv/_parts.ts";
import { Uploads } from "../../../../events/store/kv/_payload.ts";
import { SharedEntries } from "../../../../events/store/kv/_write.ts";
import { createNotifier } from "../../../../events/store/kv/notifier.ts";

/** Opens the reading side of an engine on a KV, and its parts. */
export function reading(kv: Deno.Kv, namespace = "events") {
  const keys = storeKeys(namespace);
  const marks = new CommitMarks(kv, keys.commitMarks);
  const notifier = createNotifier("watch", kv, namespace);
  const parts = {
    ...{ kv, keys, marks, notifier, local: {}, retentionMs: 60_000, log: () => {} },
    reader: guardKv(kv, namespace, false),
    commits: new GroupCommit(kv, marks, notifier, new SharedEntries(keys)),
    locks: new KeyedLock(),
    listeners: new Set(),
    uploads: new Uploads(),
  } as unknown as StoreParts;
  return { engine: readingOf(parts), parts };
}
