import { assertEquals } from "@std/assert";
import { bot } from "../../examples/slack_bot.ts";
import { slackDelivery, startTestBot } from "../../testing/mod.ts";

/** Stands in for Slack: it loses its first answer to a message if `arrives` says so, and shows the messages it has. */
function standIn(arrives: boolean) {
  const messages: { readonly ts: string; readonly metadata: unknown }[] = [];
  const called: string[] = [];
  const call = (method: string, fields: Record<string, string>) => {
    called.push(method);
    if (method === "conversations.replies") return Promise.resolve({ messages });
    const isFirst = called.length === 1;
    if (arrives || !isFirst) {
      messages.push({ ts: String(messages.length), metadata: JSON.parse(fields["metadata"]!) });
    }
    return isFirst ? Promise.reject(new Error("no answer")) : Promise.resolve({ ts: "0" });
  };
  return { messages, called, call };
}

for (const arrives of [true, false]) {
  const what = arrives ? "lost its answer" : "never had its message";
  Deno.test(`the bot of Slack answers a mention once if Slack ${what}`, async () => {
    const { messages, called, call } = standIn(arrives);
    const env = { SLACK_BOT_TOKEN: "a token" };
    await using test = await startTestBot(bot, { env, resources: call });
    const event = { type: "app_mention", text: "help", channel: "C1", ts: "1.2" };
    const sent = slackDelivery({ type: "event_callback", event_id: "Ev1", event });
    await test.deliver(sent, { expectFailure: true });
    await test.advance(5_000);
    const posts = called.filter((method) => method === "chat.postMessage").length;
    assertEquals([messages.length, posts], [1, arrives ? 1 : 2]);
    assertEquals((await test.store.get("slack:Ev1"))?.outcome, "handled");
  });
}
