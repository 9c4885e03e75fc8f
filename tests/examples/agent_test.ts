import { assertEquals } from "@std/assert";
import { bot } from "../../examples/agent.ts";
import { messengerUpdate, startTestBot } from "../../testing/mod.ts";

const message = (text: string) =>
  messengerUpdate({ message: { chat: { id: 7 }, from: { id: 1 }, text } });

/** Starts the agent. Its model wants a tool for a question of one message, and then has an answer of all it was told. */
async function startAgent(onThought: (turn: number) => Promise<unknown>) {
  const [said, thoughts]: [string[], string[][]] = [[], []];
  const test = await startTestBot(bot, {
    resources: {
      think: async (talk: string[]) => {
        thoughts.push([...talk]);
        await onThought(thoughts.length);
        return thoughts.length === 1 ? { tool: "search" } : { answer: talk.join(", ") };
      },
      call: (tool: string) => Promise.resolve(`(${tool})`),
      say: (text: string) => Promise.resolve(void said.push(text)),
    },
  });
  return { test, said, thoughts };
}

Deno.test("the agent answers with what it was told while it worked", async () => {
  // A delivery within a handler: waiting until all is handled would wait for that handler.
  const send = () => {
    const { method, headers, body } = message("the other file");
    return test.fetch("/webhook", { method, headers, body });
  };
  const agent = await startAgent((turn) => turn === 1 ? send() : Promise.resolve());
  await using test = agent.test;
  await test.deliver(message("read it"));
  assertEquals(agent.thoughts, [["read it"], ["read it", "the other file", "(search)"]]);
  assertEquals(agent.said, ["read it, the other file, (search)"]);
});

Deno.test("the agent does not ask again what it has asked before a failure", async () => {
  const agent = await startAgent((turn) =>
    turn === 2 ? Promise.reject(new Error("no answer")) : Promise.resolve()
  );
  await using test = agent.test;
  await test.deliver(message("read it"), { expectFailure: true });
  await test.advance(5_000);
  assertEquals(agent.thoughts.map(({ length }) => length), [1, 2, 2]);
  assertEquals(agent.said, ["read it, (search)"]);
});
