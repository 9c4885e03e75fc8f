import type { Context } from "@hono/hono";
import type { Page, PageContext } from "./_layout.ts";
import type { Session } from "./_session.ts";

/** Refusal of a request, as a page. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    message: string,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}

/** Request of a reader whose session is valid. */
export interface Visit {
  readonly c: Context;
  readonly session: Session;
  readonly context: PageContext;
  readonly parameters: URLSearchParams;
  /** True if the page only refreshes itself. */
  readonly isPoll: boolean;
}

/** Answer to a visit: a page, or a response that is none. */
export type Answering = (visit: Visit) => Promise<Page | Response> | Page | Response;

/**
 * Checks that a reader may act.
 *
 * @throws {Refusal} If not.
 */
export function checkOperator({ role }: Session): void {
  if (role === "operator") return;
  throw new Refusal(403, "Not allowed", "Viewers look. Log in with an operator's token to act.");
}
