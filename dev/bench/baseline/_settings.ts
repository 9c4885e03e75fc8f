/** Settings of a baseline app, from its environment. None is checked, as an app written by hand checks none. */
export const SETTINGS = {
  secret: Deno.env.get("FORGE_WEBHOOK_SECRET")!,
  token: Deno.env.get("MESSENGER_SECRET_TOKEN")!,
  kvUrl: Deno.env.get("KV_URL"),
  serve: {
    port: Number(Deno.env.get("PORT")),
    hostname: "127.0.0.1",
    onListen: ({ port }: Deno.NetAddr) => console.log(`listening on ${port}`),
  },
};

/** Task of a handler. */
export interface Task {
  readonly id?: string | number;
  readonly handlerMs?: number;
  readonly fails?: boolean;
}

/** Handles an event: it says so, takes its time, and fails if it is told to. */
export async function handle({ id, handlerMs = 0, fails = false }: Task): Promise<void> {
  console.log(`start ${id}`);
  await new Promise((resolve) => setTimeout(resolve, handlerMs));
  if (fails) throw new Error("The handler was told to fail");
  console.log(`end ${id}`);
}
