import { withDeadline } from "../core/deadline.ts";
import { type EventStore, type EventStoreOptions, openEventStore } from "../events/mod.ts";
import { reasonOf } from "../core/text_of.ts";

/** A remote KV that does not answer is tried for ever: an app that cannot store must not start. */
const KV_TIMEOUT_MS = 10_000;

/** What a KV can be that is no file. */
const REMOTE = /^https?:\/\//i;

/** Where an app's KV is, and how the event store in it is opened. */
export interface AppStoreOptions extends EventStoreOptions {
  /** The path or URL of the KV; undefined for Deno's default database. */
  readonly kvUrl: string | undefined;
  /** Whether the app runs on Deno Deploy. */
  readonly onDeploy: boolean;
  /** The namespace of its events. */
  readonly namespace: string;
}

/**
 * Opens the KV of an app, and the event store in it.
 *
 * @param options Where it is, and the store's options.
 * @returns The KV and the store.
 * @throws {Error} If they cannot be used within 10 s. The message does not quote the URL.
 */
export async function openAppStore(
  { kvUrl, onDeploy, ...options }: AppStoreOptions,
): Promise<{ kv: Deno.Kv; store: EventStore }> {
  const opening = (async () => {
    if (typeof Deno.openKv !== "function") throw new Error(onDeploy ? NOT_ASSIGNED : NO_KV);
    const kv = await Deno.openKv(kvUrl);
    const open = onDeploy && kvUrl !== ":memory:" ? openShared : openEventStore;
    return { kv, store: await open(kv, options) };
  })();
  try {
    return await withDeadline(opening, KV_TIMEOUT_MS);
  } catch (error) {
    const where = kvUrl === undefined ? "the default database" : "the KV that KV_URL names";
    const reason = kvUrl === undefined ? reasonOf(error) : await fileReason(kvUrl, error) ??
      withoutUrl(reasonOf(error), kvUrl);
    throw new Error(`${where} cannot be used: ${reason}`, { cause: error });
  }
}

const NO_KV = "Deno.openKv is missing: run Deno with --unstable-kv, or put " +
  `"unstable": ["kv"] into deno.json`;

const NOT_ASSIGNED =
  "no database is assigned to this app on Deno Deploy, and what a KV of its own keeps is gone with the " +
  "instance: assign one with `deno deploy database assign`";

/**
 * Opens the store, and refuses a KV that is an instance's own: what is stored there is in memory, and no
 * other instance sees it. That is what Deno Deploy gives an app without a database, in silence where it
 * does not set `DENO_KV_REQUIRES_DISTRIBUTED_DATABASE`. Only such a KV has a queue: a remote one has none.
 */
async function openShared(kv: Deno.Kv, options: EventStoreOptions): Promise<EventStore> {
  // Who asks for the queue knows that there is one.
  if (options.notifier === "enqueue") return await openEventStore(kv, options);
  const store = await openEventStore(kv, { ...options, notifier: "auto" });
  if (store.notifier !== "enqueue") return store;
  kv.close();
  throw new Error(NOT_ASSIGNED);
}

/** Tells why there is no KV in a file; undefined where Deno tells it better. */
async function fileReason(path: string, error: unknown): Promise<string | undefined> {
  if (REMOTE.test(path) || !/database/.test(reasonOf(error))) return undefined;
  if (/^\w+:\/\//.test(path)) return "it is neither a path nor a URL with http or https";
  const isFolder = (path: string) =>
    Deno.stat(path).then(({ isDirectory }) => isDirectory, () => undefined);
  const folder = /^(.*)[/\\]/.exec(path);
  if (folder && await isFolder(folder[1] || "/") === undefined) {
    return "the folder that its file is to be in does not exist, or cannot be read: make it first";
  }
  return await isFolder(path) ? "it is a folder, and has to be a file" : undefined;
}

/** The reason may quote the URL, which may hold a password. */
function withoutUrl(reason: string, kvUrl: string): string {
  return reason.replaceAll(kvUrl, "KV_URL").replaceAll(/\/\/\S*@/g, "//");
}
