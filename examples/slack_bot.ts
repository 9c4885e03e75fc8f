/**
 * Slack bot. It answers a mention once. If a crash leaves it unknown whether it has, it looks for a key in the messages'
 * metadata, which people do not see: that needs the scope `channels:history`. For messages outside of a thread, look
 * with `conversations.history` and `oldest`.
 *
 * ```sh
 * deno run --allow-env --allow-net --allow-read=data --allow-write=data examples/slack_bot.ts
 * ```
 */
import { defineApp, required, runApp, slack, sqlite } from "@org/edge-base";

/** Bot. Its resource calls a method of Slack. */
export const bot = defineApp({
  name: "helper",
  platform: slack(),
  store: sqlite(),
  env: { SLACK_BOT_TOKEN: required },
  resources: ({ env }) => async (method: string, fields: Record<string, string>) => {
    const response = await fetch(`https://slack.com/api/${method}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${env.SLACK_BOT_TOKEN}` },
      body: new URLSearchParams(fields),
    });
    const answer = await response.json();
    if (!answer.ok) throw new Error(`Slack answered ${answer.error}`);
    return answer;
  },
});

bot.on("app_mention", async ({ payload: { event }, idempotencyKey }, { step, resources: call }) => {
  const { channel, ts } = event;
  const key = idempotencyKey("reply");
  await step("reply", async (): Promise<string> => {
    const metadata = JSON.stringify({ event_type: "reply", event_payload: { key } });
    const text = "On it.";
    return (await call("chat.postMessage", { channel, thread_ts: ts, text, metadata })).ts;
  }, {
    unknown: async (): Promise<string | undefined> => {
      const query = { channel, ts, limit: "200", include_all_metadata: "true" };
      const { messages } = await call("conversations.replies", query);
      return messages.find((each: { metadata?: { event_payload?: { key?: string } } }) =>
        each.metadata?.event_payload?.key === key
      )?.ts;
    },
  });
});

if (import.meta.main) await runApp(bot);
