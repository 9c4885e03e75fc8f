import type { EventRecord } from "../../events/mod.ts";
import { encodeValue } from "../../events/store/kv/value_codec.ts";

const MAIN = new URL("../../cli/main.ts", import.meta.url).href;

/** Number of records that are written in one commit. */
const BATCH_SIZE = 300;

/** The command line that runs the tool in a process of its own. */
export function commandLine(...args: string[]): string[] {
  const flags = ["--cached-only", "--quiet", "--no-prompt", "--unstable-kv"];
  const granted = ["--allow-read", "--allow-write", "--allow-env", "--allow-net=127.0.0.1"];
  return [Deno.execPath(), "run", ...flags, ...granted, MAIN, "events", ...args];
}

/** Starts the tool in a process of its own. */
export function startCli(...args: string[]): Deno.ChildProcess {
  const [deno, ...rest] = commandLine(...args);
  return new Deno.Command(deno!, {
    args: rest,
    env: { NO_COLOR: "1", DENO_KV_ACCESS_TOKEN: "token" },
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

/** Waits for a process to end, and reads what it wrote. */
export async function ended(process: Deno.ChildProcess) {
  const { code, stdout, stderr } = await process.output();
  const decoder = new TextDecoder();
  return { code, out: decoder.decode(stdout), err: decoder.decode(stderr) };
}

/** Writes the records of events that are done, many at once. */
export async function writeDone(kv: Deno.Kv, namespace: string, count: number): Promise<void> {
  const record = (receivedAt: number, id: string): EventRecord => ({
    ...{ id, receivedAt, platform: "forge", source: "github", type: "push", requestId: null },
    ...{ state: "done", attempt: 1, dueAt: null, orderingKey: null, group: null },
    ...{ lease: null, settledAt: 2, payload: null, attempts: [] },
  });
  for (let start = 0; start < count; start += BATCH_SIZE) {
    const operation = kv.atomic();
    for (let i = start; i < Math.min(count, start + BATCH_SIZE); i++) {
      operation.set([namespace, "event", i, `d${i}`], encodeValue(record(i, `d${i}`)));
      operation.set([namespace, "id", `d${i}`], encodeValue(i));
    }
    await operation.commit();
  }
}
