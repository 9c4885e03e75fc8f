import type { Mount } from "../app/mounts.ts";
import { checkKeys, checkObject } from "../core/check_options.ts";
import { readAll, VariableError, type Variables } from "../core/env.ts";
import { flawOfToken } from "./_tokens.ts";
import { checkConsoleOptions, type ConsoleOptions, openConsole } from "./create_console.ts";

/**
 * Options of {@linkcode consoleMount}.
 *
 * @category Console
 */
export type ConsoleMountOptions = Pick<ConsoleOptions, "path" | "hidePayloads">;

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
 * import { defineApp, github } from "@org/edge-base";
 * import { consoleMount } from "@org/edge-base/console";
 * import { startTestBot } from "@org/edge-base/testing";
 * import { assertEquals } from "@std/assert";
 *
 * const bot = defineApp({ name: "my-bot", platform: github(), mounts: [consoleMount()] });
 *
 * const env = { CONSOLE_TOKEN: "4b1c7f0e9d2a5836c0f1e2d3b4a59687" };
 * await using test = await startTestBot(bot, { env });
 * assertEquals((await test.fetch("/console/login")).status, 200);
 * ```
 *
 * @category Console
 */
export function consoleMount(options: ConsoleMountOptions = {}): Mount {
  checkObject(DOING, options);
  checkKeys(DOING, options, ["path", "hidePayloads"]);
  checkConsoleOptions(DOING, options);
  const { path = "/console", hidePayloads } = options;
  return {
    ...{ name: "console", path, variables: VARIABLES },
    prepare(variables) {
      const { viewerToken, operatorToken, environment } = readVariables(variables);
      if (viewerToken === undefined && operatorToken === undefined) return undefined;
      return {
        async open({ name, store, namespace, log, trustedProxyHops, ...parts }) {
          const { platforms, fetch, onDeploy } = parts;
          const variable = (name: string) => variables.get(name);
          const board = { name, store, namespace, log, trustedProxyHops, path, hidePayloads };
          const isForTrying = environment === DEVELOPMENT && !onDeploy;
          return await openConsole({ ...board, viewerToken, operatorToken, environment }, {
            onDeploy,
            examples: isForTrying ? { platforms, variable, fetch } : undefined,
          });
        },
      };
    },
  };
}

function readVariables(variables: Variables) {
  const [viewerToken, operatorToken, environment] = readAll(
    () => readToken(variables, "CONSOLE_TOKEN"),
    () => readToken(variables, "CONSOLE_OPERATOR_TOKEN"),
    () => readEnvironment(variables),
  );
  if (viewerToken !== undefined && viewerToken === operatorToken) {
    throw new VariableError("CONSOLE_TOKEN and CONSOLE_OPERATOR_TOKEN must differ");
  }
  return { viewerToken, operatorToken, environment };
}

/** Reads a token. A blank one is none: whoever sets it empty wants no console. */
function readToken(variables: Variables, name: string): string | undefined {
  const token = variables.get(name);
  if (token === undefined || token.trim() === "") return undefined;
  const flaw = flawOfToken(token);
  if (flaw) throw new VariableError(`${name} ${flaw}`);
  return token;
}

function readEnvironment(variables: Variables): string | undefined {
  const environment = variables.get("CONSOLE_ENVIRONMENT")?.trim() || undefined;
  if (environment === undefined || environment.length <= 40) return environment;
  throw new VariableError("CONSOLE_ENVIRONMENT must have at most 40 characters");
}
