import { run } from "../../dev/harness/run.ts";

/** Memory that a process holds now, and the most it has held, in MiB. */
export interface Memory {
  readonly now: number;
  readonly peak: number;
}

/** Looks at a process's resident memory. */
export async function memoryOf({ pid }: Deno.ChildProcess): Promise<Memory> {
  // Not read by Deno, which wants all permissions for that.
  const { stdout: status } = await run("cat", [`/proc/${pid}/status`]);
  const mibOf = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) / 1024;
  return { now: mibOf("VmRSS"), peak: mibOf("VmHWM") };
}
