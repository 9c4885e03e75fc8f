/** Reason why a test that looks at a process's memory is skipped. */
export const MEMORY_MISSING = Deno.build.os === "linux" ? undefined : "needs Linux";

/** Memory that a process holds now, and the most it has held, in MiB. */
export interface Memory {
  readonly now: number;
  readonly peak: number;
}

/** Looks at a process's resident memory. */
export async function memoryOf({ pid }: Deno.ChildProcess): Promise<Memory> {
  // Not read by Deno, which wants all permissions for that.
  const { stdout } = await new Deno.Command("cat", { args: [`/proc/${pid}/status`] }).output();
  const status = new TextDecoder().decode(stdout);
  const mibOf = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) / 1024;
  return { now: mibOf("VmRSS"), peak: mibOf("VmHWM") };
}
