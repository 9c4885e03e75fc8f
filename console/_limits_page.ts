import type { ListedLimit } from "../events/store/mod.ts";
import type { ConsoleData } from "./_console_data.ts";
import { duration, type Html, number, shown, when } from "./_format.ts";
import { live, type Page, table, tag, td, type Visit } from "./_layout.ts";

/** Most limits that are shown: there may be one for each chat. */
const MAX_LIMITS = 200;

/** First limits of services, and whether there are more. */
export interface Limits {
  readonly limits: readonly (Omit<ListedLimit, "key"> & {
    /** Part that is counted alone; undefined where payloads are not shown. */
    readonly key: string | undefined;
  })[];
  readonly isMore: boolean;
}

/** Reads the first limits of services, and whether there are more. */
export async function readLimits(data: ConsoleData): Promise<Limits> {
  const found = await data.limits(MAX_LIMITS + 1);
  return { limits: found.slice(0, MAX_LIMITS), isMore: found.length > MAX_LIMITS };
}

/** Takes out what limits are counted by, such as a user, where payloads are not shown. */
export const hideLimits = ({ limits, isMore }: Limits): Limits => ({
  limits: limits.map((limit) => ({ ...limit, key: undefined })),
  isMore,
});

/** Answers with the limits of services, and what is free of each. */
export async function limits({ data, context }: Visit): Promise<Page> {
  const found = await readLimits(data);
  const { limits, isMore } = context.hidesPayloads ? hideLimits(found) : found;
  const columns = { name: "", key: "", free: "num", of: "num", in: "num", "closed until": "" };
  const body = live(
    "rest",
    tag("div.head", tag("h1", "Limits of services")),
    table("Limits", columns, limits.map(cellsOf), {
      style: "cards",
      empty: "No limit is in use. They are those that take() and rate name.",
    }),
    isMore &&
      tag("p.dim", `These are the first ${MAX_LIMITS}: events limits of the tool shows all.`),
  );
  return { title: "Limits", at: "limits", body, isLive: true, isPrivate: true };
}

function cellsOf(
  { name, key, limit, perMs, free, closedUntil, isUnreadable }: Limits["limits"][number],
): Html[] {
  const names = [
    td(shown(name), "mono"),
    key === undefined ? td("not shown", "dim") : td(shown(key, 300), "mono"),
  ];
  if (isUnreadable) return [...names, td("cannot be read", "dim", 4)];
  return [
    ...names,
    td(free !== undefined && number(free), free === 0 ? "num error" : "num"),
    td(limit !== undefined && number(limit), "num"),
    td(perMs !== undefined && duration(perMs), "num"),
    td(closedUntil !== undefined && when(closedUntil)),
  ];
}
