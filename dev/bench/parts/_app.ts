import { Hono, type MiddlewareHandler } from "@hono/hono";

/** Context that the server adds to each request. */
export interface Connection {
  readonly remoteAddr: Deno.NetAddr;
}

/** An app in process. */
export interface App {
  fetch(request: Request, env: Connection): Response | Promise<Response>;
}

/** Number of requests in one iteration: milliseconds for it are microseconds for each of them. */
export const REQUESTS = 1_000;

/** A Hono app with a route and what is to be measured. */
export function appWith(...middleware: MiddlewareHandler[]): Hono {
  const app = new Hono();
  for (const each of middleware) app.use(each);
  app.get("/hello", (c) => c.text("hello"));
  return app;
}

/** The connection of a client. */
export function connectionOf(client: number): Connection {
  const hostname = `10.${client >> 16 & 255}.${client >> 8 & 255}.${client & 255}`;
  return { remoteAddr: { transport: "tcp", hostname, port: 50_000 } };
}

/** Has an app answer requests in process, one after the other. */
export async function ask(app: App, connection: () => Connection, count = REQUESTS): Promise<void> {
  for (let i = 0; i < count; i++) {
    await app.fetch(new Request("http://localhost/hello"), connection());
  }
}
