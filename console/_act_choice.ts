import { type Html, link, shown, time } from "./_format.ts";
import { errorOf as errorLine } from "./_problems_page.ts";
import { a, facts, type PageContext } from "./_layout.ts";
import type { ActQuery, DeliveryQuery } from "./_query.ts";

const LABELS: Readonly<Record<keyof DeliveryQuery, string>> = {
  ...{ state: "state", type: "type", source: "source", place: "repository or chat" },
  ...{ group: "ordering key", problem: "problem", q: "text", name: "name" },
  ...{ from: "received from", before: "received before" },
};

/** Shows a choice of deliveries. A problem is named by an error of it, if that is known. */
export const choice = (query: ActQuery, error: string | undefined, context: PageContext): Html =>
  facts(conditionsOf(query, { error, max: 300 }, context));

/** Lists the conditions of a choice with their names, as they are shown. */
export function conditionsOf(
  query: ActQuery,
  { error, max }: { readonly error: string | undefined; readonly max: number },
  context: PageContext,
): [string, Html | string | undefined][] {
  return (Object.keys(LABELS) as (keyof DeliveryQuery)[]).map((name) => {
    const { [name]: value } = query;
    if (name === "problem" && query.problem !== undefined) {
      const text = error === undefined ? shown(query.problem) : errorLine({ error }, max, context);
      return [LABELS[name], a(link("problem", { id: query.problem }), text)];
    }
    return [LABELS[name], typeof value === "number" ? time(value) : value && shown(value, max)];
  });
}
