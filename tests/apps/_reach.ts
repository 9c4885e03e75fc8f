/** Tries things that an app may not do, and prints those that worked. */
const attempts: Readonly<Record<string, () => unknown>> = {
  "its own secret": () => Deno.env.get("FORGE_WEBHOOK_SECRET"),
  "the other app's secret": () => Deno.env.get("MESSENGER_SECRET_TOKEN"),
  "the whole environment": () => Deno.env.toObject(),
  "the environment by the file system": () => Deno.readTextFileSync("/proc/self/environ"),
  "the other app's KV": () => Deno.openKv("./data/messenger/kv.db"),
  "a file beside its folder": () => Deno.readTextFileSync("./deno.json"),
  "a way out of its folder": () => Deno.readTextFileSync("./data/forge/../../deno.json"),
  "a link out of its folder": () => Deno.symlinkSync("../../deno.json", "./data/forge/link"),
  "another port": () => Deno.listen({ hostname: "127.0.0.1", port: 0 }),
  "another host": () => Deno.connect({ hostname: "192.0.2.1", port: 443 }),
  "another program": () => new Deno.Command("env").outputSync(),
  "a native library": () => Deno.dlopen("./data/forge/x.so", {}),
  "the system": () => Deno.osRelease(),
  "a module from elsewhere": () => import(`${"http"}://192.0.2.1/x.ts`),
};

const could: string[] = [];
for (const [what, attempt] of Object.entries(attempts)) {
  try {
    await attempt();
    could.push(what);
  } catch (error) {
    // An import fails with a `TypeError` that says it.
    const isDenied = error instanceof Deno.errors.NotCapable ||
      String(error).includes("run again with the --allow-");
    if (!isDenied) could.push(`${what}: ${error}`);
  }
}
console.log(JSON.stringify(could));
