import config from "../deno.json" with { type: "json" };
import { GENERATOR } from "../load/load.ts";

/** The packages whose versions make a difference. */
const PACKAGES = [
  "hono",
  "@octokit/webhooks-methods",
  "@octokit/webhooks",
  "grammy",
  "standardwebhooks",
] as const;

/** Describes the machine, its disk, the versions, the commit and the time. */
export async function describeMachine(): Promise<string> {
  const cpu = /model name\s*: (.*)/.exec(await read("/proc/cpuinfo"))?.[1] ?? "unknown CPU";
  const cores = navigator.hardwareConcurrency;
  const memoryGb = Math.round(Deno.systemMemoryInfo().total / 2 ** 30);
  const disk = await output(
    "stat",
    "--file-system",
    "--format=%T",
    Deno.env.get("TMPDIR") ?? "/tmp",
  );
  const commit = await output("git", "describe", "--always", "--dirty", "--abbrev=10");
  const packages = PACKAGES.map((name) => config.imports[name].replace("npm:", ""));
  return [
    `${cores} cores (${cpu}), ${memoryGb} GB, ${Deno.build.os} ${Deno.osRelease()}, files on ${disk}`,
    `Deno ${Deno.version.deno} (V8 ${Deno.version.v8}), ${GENERATOR}, ${packages.join(", ")}`,
    `commit ${commit || "unknown"}, ${new Date().toISOString().slice(0, 16)}Z`,
  ].map((line) => `- ${line}`).join("\n");
}

async function read(path: string): Promise<string> {
  return await Deno.readTextFile(path).catch(() => "");
}

async function output(command: string, ...args: string[]): Promise<string> {
  try {
    const { stdout } = await new Deno.Command(command, { args, stderr: "null" }).output();
    return new TextDecoder().decode(stdout).trim();
  } catch {
    return "";
  }
}
