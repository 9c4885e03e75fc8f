import type { LoadOptions, LoadResult } from "./load_options.ts";

/** Loads a server with `wrk`. */
export async function runWrk(options: LoadOptions): Promise<LoadResult> {
  const { url, delivery, connections, seconds, redeliveries = 0 } = options;
  const folder = await Deno.makeTempDir({ prefix: "edge-base-load-" });
  try {
    const headers = Object.entries(delivery.headers).map(([name, value]) =>
      `${name}: ${value}\r\n`
    );
    await Deno.writeTextFile(`${folder}/headers`, headers.join(""));
    await Deno.writeFile(`${folder}/body`, delivery.body);
    const script = new URL("./wrk.lua", import.meta.url).pathname;
    const { stdout, stderr } = await new Deno.Command("wrk", {
      args: [
        ...["--threads", "1", "--connections", String(connections), "--duration", `${seconds}s`],
        ...["--timeout", "30s", "--script", script, url],
      ],
      env: {
        BENCH_BODY: `${folder}/body`,
        BENCH_HEADERS: `${folder}/headers`,
        BENCH_RUN: crypto.randomUUID().slice(0, 8),
        BENCH_REDELIVERIES: String(redeliveries),
      },
    }).output();
    const result = /^RESULT (.*)$/m.exec(new TextDecoder().decode(stdout))?.[1];
    if (!result) throw new Error(`wrk failed: ${new TextDecoder().decode(stderr)}`);
    return JSON.parse(result);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
