import type { ListedLimit } from "../events/store/mod.ts";
import type { ConsoleData } from "./_console_data.ts";
import { duration, type Html, number, shown, when } from "./_format.ts";
import { live, type Page, table, tag, td, type Visit } from "./_layout.ts";

/** Most limits that are shown: there may be one for each chat. */
const MAX_LIMITS = 200;

/** Reads the first limits of services, and whether there are more. */
export async function readLimits(data: ConsoleData) {
  const found = await data.limits(MAX_LIMITS + 1);
  return { limits: found.slice(0, MAX_LIMITS), isMore: found.length > MAX_LIMITS };
}

/** Answers with the limits of services, and what is free of each. */
export async function limits({ data }: Visit): Promise<Page> {
  const { limits, isMore } = await readLimits(data);
  const columns = { name: "", key: "", free: "num", of: "num", in: "num", "closed until": "" };
  const body = live(
    "rest",
    tag("div.head", tag("h1", "Limits of services")),
    table("Limits", columns, limits.map(cellsOf), {
      empty: "No limit is in use. They are those that take() and rate name.",
    }),
    isMore &&
      tag("p.dim", `These are the first ${MAX_LIMITS}: events limits of the tool shows all.`),
  );
  return { title: "Limits", at: "limits", body, isLive: true, isPrivate: true };
}

function cellsOf(
  { name, key, limit, perMs, free, closedUntil, isUnreadable }: ListedLimit,
): Html[] {
  const names = [td(shown(name), "mono"), td(shown(key, 300), "mono")];
  if (isUnreadable) return [...names, td("cannot be read", "dim", 4)];
  return [
    ...names,
    td(free !== undefined && number(free), free === 0 ? "num error" : "num"),
    td(limit !== undefined && number(limit), "num"),
    td(perMs !== undefined && duration(perMs), "num"),
    td(closedUntil !== undefined && when(closedUntil)),
  ];
}
