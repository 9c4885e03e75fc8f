/** The memory of a process, in MB (2^20 bytes). */
export interface Memory {
  /** Memory that it holds now. */
  readonly rssMb: number;
  /** The most it has held. */
  readonly peakMb: number;
}

/** The kernel counts CPU time in ticks of 10 ms, on every Linux of today. */
const TICK_MS = 10;

/** The CPU time that a process has used, user and system, of all its threads. */
export function cpuMs(pid: number): number {
  // The second field, the name, is in parentheses and may have spaces.
  const fields = Deno.readTextFileSync(`/proc/${pid}/stat`).split(") ")[1]!.split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** The bytes that a process has had written to the disk, of all its files. */
export function writtenBytes(pid: number): number {
  return Number(/^write_bytes: (\d+)$/m.exec(Deno.readTextFileSync(`/proc/${pid}/io`))?.[1]);
}

/** The memory of a process. */
export function memoryOf(pid: number): Memory {
  const status = Deno.readTextFileSync(`/proc/${pid}/status`);
  const mb = (name: string) => Number(new RegExp(`${name}:\\s*(\\d+)`).exec(status)?.[1]) / 1024;
  return { rssMb: mb("VmRSS"), peakMb: mb("VmHWM") };
}
