import type { AcceptResult, EmitOptions, EventStore, OwnEvents } from "../events/mod.ts";
import { checkSource, OWN, platformRefused } from "../events/store/emission.ts";
import type { JsonObject } from "../webhook/mod.ts";

/**
 * Makes a source of an app's events: follow-ups, items of a list, reminders. Handlers emit them with
 * `emit`, the handlers for them are registered with `from`, and the compiler checks both.
 *
 * @typeParam TEvents The payloads of its events, by type. By default there may be any.
 * @param name The name, which begins the ids of its events: a letter, then up to 31 letters, digits, `_` and
 * `-`. No platform of the app and no other source has it.
 * @returns The source.
 * @throws {TypeError} If the name is malformed, a platform of the package has it, or it is `dead`, `failing` or `schedule`.
 *
 * @example
 * ```ts
 * import { defineApp, events } from "@org/edge-base/app";
 * import { sqlite } from "@org/edge-base/events";
 * import { forgeDelivery, startTestBot } from "@org/edge-base/testing";
 * import { github } from "@org/edge-base/webhook";
 * import { assertEquals } from "@std/assert";
 *
 * const jobs = events<{ "issue.triage": { number: number } }>("jobs");
 * const bot = defineApp({ name: "triage", platform: github(), store: sqlite() });
 * const reminded: number[] = [];
 *
 * bot.on("issues.opened", ({ payload }, { emit }) => {
 *   emit(jobs, "issue.triage", { number: payload.issue.number }, { delayMs: 86_400_000 });
 * });
 * bot.from(jobs).on("issue.triage", ({ payload }) => void reminded.push(payload.number));
 *
 * await using test = await startTestBot(bot);
 * await test.deliver(forgeDelivery("issues", { action: "opened", issue: { number: 7 } }));
 * await test.advance(86_400_000);
 * assertEquals(reminded, [7]);
 * ```
 *
 * @category Flows
 */
export function events<TEvents extends object = Readonly<Record<string, JsonObject>>>(
  name: string,
): OwnEvents<TEvents> {
  checkSource("name the source", name);
  return Object.freeze({ name, kind: OWN });
}

/** Checks whether something is what `events()` returns, and not a platform: that has a name and a kind, too. */
export function isOwnEvents<TEvents extends object>(
  value: OwnEvents<TEvents> | { readonly kind: string },
): value is OwnEvents<TEvents> {
  return value?.kind === OWN && !("prepare" in value);
}

/**
 * Makes the app's store. It refuses to emit an event under the name of a platform: it would take the place of a
 * delivery with the same id. Runs of handlers refuse that by {@linkcode HandlerRun.refuseSources}.
 *
 * @param store The store.
 * @param platforms The names of the app's platforms.
 * @returns The app's view of it.
 */
export function refusingPlatforms<TTx, TReader>(
  store: EventStore<TTx, TReader>,
  platforms: ReadonlySet<string>,
): EventStore<TTx, TReader> {
  type Call = [source: OwnEvents | string, type: string, payload: object, options?: EmitOptions];
  const emit = async (...call: Call): Promise<AcceptResult> => {
    const [source] = call;
    const name = typeof source === "string" ? source : (source as OwnEvents | undefined)?.name;
    if (name !== undefined && platforms.has(name)) throw platformRefused("emit the event", name);
    return await (store.emit as (...call: Call) => Promise<AcceptResult>)(...call);
  };
  return { ...store, emit };
}
