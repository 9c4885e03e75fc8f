/**
 * The least that storing and handling can cost on Deno's KV: deliveries that wait at the same time go
 * into one commit, which checks their ids and writes them as leased, and the commits that follow write
 * that they are done. There is no log, limiter, deadline, retry, renewal or error, and after a crash nobody would
 * find what is left.
 */
import { Hono } from "@hono/hono";
import { verified } from "./_verified.ts";
import { startServer } from "./_server.ts";

interface Event {
  readonly id: string;
  readonly receivedAt: number;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly stored: () => void;
  versionstamp: string;
}

/** Number of events of each kind in one commit: it holds 100 checks and 819,200 bytes. */
const MAX_SHARED = 50;

/** Time that handled events wait for a commit to go with, in milliseconds. */
const SETTLE_WITHIN_MS = 5;

const LEASE_MS = 30_000;

const WEEK_MS = 604_800_000;

const { port, hostname, kvUrl, secret, handled } = startServer();
const kv = await Deno.openKv(kvUrl);

const received: Event[] = [];
const done: Event[] = [];
let isWriting = false;
let timer: ReturnType<typeof setTimeout> | undefined;

function hurry(): void {
  if (isWriting) return;
  isWriting = true;
  queueMicrotask(write);
}

async function write(): Promise<void> {
  do {
    const news = received.splice(0, MAX_SHARED);
    await commit(news, done.splice(0, MAX_SHARED));
    for (const event of news) {
      event.stored();
      handled(event.receivedAt);
    }
    done.push(...news);
  } while (received.length > 0);
  isWriting = false;
  timer ??= setTimeout(settle, SETTLE_WITHIN_MS);
}

function settle(): void {
  timer = undefined;
  if (done.length > 0) hurry();
}

async function commit(news: readonly Event[], settled: readonly Event[]): Promise<void> {
  const operation = kv.atomic();
  const now = Date.now();
  for (const { id, receivedAt, body } of news) {
    operation.check({ key: ["id", id], versionstamp: null })
      .set(["id", id], receivedAt, { expireIn: WEEK_MS })
      .set(["event", receivedAt, id], { ...recordOf(id, receivedAt, "running"), body });
  }
  if (news.length > 0) {
    const events = news.map(({ id, receivedAt }) => ({ id, receivedAt }));
    operation.set(["due", now + LEASE_MS, crypto.randomUUID()], { events });
  }
  for (const { id, receivedAt, versionstamp } of settled) {
    const key = ["event", receivedAt, id];
    operation.check({ key, versionstamp })
      .set(key, recordOf(id, receivedAt, "done"), { expireIn: WEEK_MS });
  }
  const result = await committed(operation);
  if (!result.ok) throw new Error("An id came twice");
  for (const event of news) event.versionstamp = result.versionstamp;
}

/** Deno's KV does not wait for the lock of another process. */
async function committed(operation: Deno.AtomicOperation) {
  for (;;) {
    try {
      return await operation.commit();
    } catch (error) {
      if (!String(error).includes("database is locked")) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

function recordOf(id: string, receivedAt: number, state: string) {
  const lease = { owner: "worker", until: receivedAt + LEASE_MS };
  return { v: 1, id, type: "push", receivedAt, state, attempt: 1, lease, errors: [] };
}

const app = new Hono();
app.post("/webhook", async (c) => {
  const delivery = await verified(c, secret);
  if (!delivery) return c.json({ error: "Not genuine" }, 401);
  const id = c.req.header("X-GitHub-Delivery") ?? "";
  await new Promise<void>((stored) => {
    received.push({ id, receivedAt: Date.now(), body: delivery.body, stored, versionstamp: "" });
    hurry();
  });
  return c.text("OK");
});
Deno.serve({ port, hostname, onListen: () => {} }, app.fetch);
