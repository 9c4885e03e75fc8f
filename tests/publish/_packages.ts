import type { PublishHereOptions } from "../../dev/tools/_publish_here.ts";

/** Servers for Node's HTTP, and Hono itself: what `jsr:@hono/hono` is, from npm. */
export const PACKAGES = { "@hono/node-server": "2.1.8", hono: "4.13.19" };

/** On Windows it is a script, which cannot be started by its bare name. */
export const NPM: string = Deno.build.os === "windows" ? "npm.cmd" : "npm";

/** Only this machine is reached, and with it the registry that the package is published to. */
export const OFFLINE: Readonly<Record<string, string>> = {
  ...{ HTTPS_PROXY: "http://127.0.0.1:9", https_proxy: "http://127.0.0.1:9" },
  ...{ NO_PROXY: "127.0.0.1", no_proxy: "127.0.0.1" },
};

/** Options of a publication whose types `deno task publish-check` has checked. */
export const QUICKLY: PublishHereOptions = { env: OFFLINE, areTypesChecked: false };
