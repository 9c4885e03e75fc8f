import type { AcceptResult, EventStore, OwnEvents } from "../events/mod.ts";
import { checkSource, type Emission, OWN, platformRefused } from "../events/store/emission.ts";
import {
  type EmitCall,
  EMITTING,
  type Emitting,
  type EmittingContext,
} from "../events/worker/event.ts";
import type { JsonObject } from "../webhook/mod.ts";

/**
 * Makes a source of events of an app's own: follow-ups, items of a list, reminders. Handlers emit them with
 * `emit`, the handlers for them are registered with `from`, and the compiler checks both.
 *
 * @typeParam TEvents The payloads of its events, by type. By default there may be any.
 * @param name The name, which begins the ids of its events: a letter, then up to 31 letters, digits, `_` and
 * `-`. No platform of the app and no other source has it.
 * @returns The source.
 * @throws {TypeError} If the name is malformed, that of a platform of the package, `dead` or `schedule`.
 *
 * @example
 * ```ts
 * import { defineApp, events } from "@org/edge-base/app";
 * import { forgeDelivery, startTestBot } from "@org/edge-base/testing";
 * import { github } from "@org/edge-base/webhook";
 * import { assertEquals } from "@std/assert";
 *
 * const jobs = events<{ "issue.triage": { number: number } }>("jobs");
 * const bot = defineApp({ name: "triage", platform: github() });
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

/** Checks whether something is a source of the app's own, and no platform, which has a name and a kind, too. */
export function isOwnEvents<TEvents extends object>(
  value: OwnEvents<TEvents> | { readonly kind: string },
): value is OwnEvents<TEvents> {
  return value?.kind === OWN && !("prepare" in value);
}

/**
 * Has handlers refuse to emit an event under the name of a platform: it would take the place of a delivery
 * with the same id.
 *
 * @param context The context of the handlers.
 * @param platforms The names of the app's platforms.
 * @returns The receiver of events for the context; undefined if that has none.
 */
export function refusingPlatforms(
  context: EmittingContext,
  platforms: ReadonlySet<string>,
): Emitting | undefined {
  const emitting = context[EMITTING];
  return emitting && new OwnEmitting(emitting, platforms);
}

/** Has the store refuse that, too. */
export function refusePlatforms(store: EventStore, platforms: ReadonlySet<string>): void {
  const emit = store.emit.bind(store) as (...call: EmitCall) => Promise<AcceptResult>;
  store.emit = async (...call: EmitCall) => {
    checkFree(call[0], platforms);
    return await emit(...call);
  };
}

class OwnEmitting implements Emitting {
  readonly #emitting: Emitting;
  readonly #platforms: ReadonlySet<string>;

  constructor(emitting: Emitting, platforms: ReadonlySet<string>) {
    this.#emitting = emitting;
    this.#platforms = platforms;
  }

  emission(...call: EmitCall): Emission {
    checkFree(call[0], this.#platforms);
    return this.#emitting.emission(...call);
  }

  emitWith(...call: Parameters<Emitting["emitWith"]>): void {
    this.#emitting.emitWith(...call);
  }

  noteWith(...call: Parameters<Emitting["noteWith"]>): Promise<void> {
    return this.#emitting.noteWith(...call);
  }

  resolved(...call: Parameters<Emitting["resolved"]>): Promise<void> | undefined {
    return this.#emitting.resolved(...call);
  }
}

function checkFree(source: unknown, platforms: ReadonlySet<string>): void {
  const name = typeof source === "string" ? source : (source as OwnEvents<object> | null)?.name;
  if (name !== undefined && platforms.has(name)) throw platformRefused("emit the event", name);
}
