/**
 * Agent that hears newer messages while it works, and takes them between two calls of its model. A later attempt gets all
 * of them from the beginning, but the results of its steps are from the earlier one: so each notes how much it `knew`.
 *
 * ```sh
 * deno run --allow-env --allow-net --allow-read=data --allow-write=data examples/agent.ts
 * ```
 */
import { defineApp, runApp, sqlite, telegram, type WebhookEvent } from "@org/edge-base";
import type { TelegramEvents } from "@org/edge-base/router";

/** Asks the model. It wants a tool to be called, or has an answer. */
type Think = (talk: string[], signal: AbortSignal) => Promise<{ tool?: string; answer?: string }>;
const unset = () => Promise.reject(new Error("Call your model and your tools here"));

/** Agent. Its resources are the model, its tools and the chat. */
export const bot = defineApp({
  name: "agent",
  platform: telegram({ groupBy: ({ chat }) => chat && { key: String(chat.id), newer: "steer" } }),
  store: sqlite(),
  resources: () => ({
    think: unset as Think,
    call: unset as (tool: string) => Promise<string>,
    say: unset as (text: string) => Promise<void>,
  }),
});

const textOf = ({ payload }: WebhookEvent<TelegramEvents["message"]>) => payload.message.text ?? "";

bot.on("message", async ({ batch }, { takeNewer, step, signal, resources }) => {
  const { think, call, say } = resources;
  const talk = batch.map(textOf);
  for (let turn = 1;; turn++) {
    const { tool, answer = "", knew } = await step(`turn ${turn}`, async () => {
      return { ...await think(talk, signal), knew: talk.length };
    });
    talk.push(...(await takeNewer()).map(textOf));
    if (tool) talk.push(await step(`tool ${turn}`, () => call(tool)));
    else if (knew === talk.length) return await step(`answer ${turn}`, () => say(answer));
  }
});

if (import.meta.main) await runApp(bot);
