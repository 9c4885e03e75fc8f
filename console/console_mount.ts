import type { Mount } from "../app/mounts.ts";
import { checkOptions } from "../core/check_options.ts";
import { VariableError, type Variables } from "../core/env.ts";
import { flawsOf } from "./_tokens.ts";
import { type ConsoleOptions, MOUNT_CHECKS, openConsole } from "./create_console.ts";

const DOING = "mount the console";

const VARIABLES = ["CONSOLE_TOKEN", "CONSOLE_OPERATOR_TOKEN", "CONSOLE_ENVIRONMENT"] as const;

/** Environment in which operators may send example deliveries. */
const DEVELOPMENT = "development";

/**
 * Makes the console a part of an app. It is there if `CONSOLE_TOKEN` (viewers, who look) or
 * `CONSOLE_OPERATOR_TOKEN` (operators, who act as well) is set, each at least 32 random characters. Without
 * both, its path is 404, and nothing of it is loaded.
 *
 * `CONSOLE_ENVIRONMENT` is shown as a badge. With `development`, and not on Deno Deploy, operators can send
 * signed example deliveries to the app.
 *
 * @param options The path, and whether payloads are shown.
 * @returns The mount, for the member `mounts` of a definition.
 * @throws {TypeError} If an option has the wrong type.
 *
 * @example
 * ```ts
 * import { defineApp, github, sqlite } from "@org/edge-base";
 * import { consoleMount } from "@org/edge-base/console";
 * import { startTestBot } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const mounts = [consoleMount()];
 * const bot = defineApp({ name: "my-bot", platform: github(), store: sqlite(), mounts });
 *
 * const env = { CONSOLE_TOKEN: "4b1c7f0e9d2a5836c0f1e2d3b4a59687" };
 * await using test = await startTestBot(bot, { env });
 * assertEquals((await test.fetch("/console/login")).status, 200);
 * ```
 *
 * @category Console
 */
export function consoleMount(
  options: Pick<ConsoleOptions, "path" | "hidePayloads"> = {},
): Mount {
  checkOptions(DOING, options, MOUNT_CHECKS);
  const { path = "/console", hidePayloads } = options;
  return {
    ...{ name: "console", path, variables: VARIABLES },
    prepare(variables) {
      const [viewerToken, operatorToken, environment] = readVariables(variables);
      if (viewerToken === undefined && operatorToken === undefined) return undefined;
      return {
        open({ name, store, log, trustedProxyHops, ...parts }) {
          const { platforms, fetch, onDeploy } = parts;
          const variable = (name: string) => variables.get(name);
          const board = { name, store, log, trustedProxyHops, path, hidePayloads };
          const isForTrying = environment === DEVELOPMENT && !onDeploy;
          return openConsole({ ...board, viewerToken, operatorToken, environment }, {
            ...{ onDeploy, platforms },
            examples: isForTrying ? { platforms, variable, fetch } : undefined,
          });
        },
      };
    },
  };
}

/** Reads the variables. A blank one is not set: whoever sets a token empty wants no console. */
function readVariables(variables: Variables): readonly (string | undefined)[] {
  const [viewers, operators, environment] = VARIABLES.map((name) => {
    const value = variables.get(name);
    return value?.trim() ? value : undefined;
  });
  const values = [viewers, operators, environment?.trim()];
  const flaws = flawsOf(values, VARIABLES);
  if (flaws.length > 0) throw new VariableError(flaws.join("; "));
  return values;
}
