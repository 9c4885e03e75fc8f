/** A program that has ended, and its output, trimmed. */
export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end. */
export async function run(
  program: string,
  args: readonly string[],
  options: Omit<Deno.CommandOptions, "args"> = {},
): Promise<Ended> {
  const output = await new Deno.Command(program, { ...options, args: [...args] }).output();
  const textOf = (name: "stdout" | "stderr") =>
    options[name] === "inherit" ? "" : new TextDecoder().decode(output[name]).trim();
  return { code: output.code, stdout: textOf("stdout"), stderr: textOf("stderr") };
}

/** Runs Deno to its end. */
export function runDeno(
  args: readonly string[],
  options: Omit<Deno.CommandOptions, "args"> = {},
): Promise<Ended> {
  return run(Deno.execPath(), args, options);
}
