/**
 * The frame of all pages, and the parts that several of them have.
 *
 * @module
 */
import { html, raw } from "@hono/hono/html";
import type { ConsoleData } from "./_console_data.ts";
import { type Html, link, shown } from "./_format.ts";
import { ASSETS, type Refusal } from "./_http.ts";
import type { Session } from "./_login.ts";
import type { ActKind, DeedKind } from "./_query.ts";

/** App and reader that a page is made for. */
export interface PageContext {
  /** Name of the app. */
  readonly name: string;
  /** Environment that the app runs in; undefined for no badge. */
  readonly environment: string | undefined;
  /** Session of the reader; undefined before the login. */
  readonly session: Session | undefined;
  /** True if operators may send example deliveries. */
  readonly sendsExamples: boolean;
  /** True if payloads are not shown. */
  readonly hidesPayloads: boolean;
  /** Things that the store has; undefined if that is not known, and pages of all are shown. */
  readonly uses?: Uses | undefined;
  /** Names of the variables of the app's platforms, by the names of these; undefined if they are not known. */
  readonly platforms?: ReadonlyMap<string, readonly string[]> | undefined;
}

/** Things that not every app has, and that have pages of their own. */
export type Uses = Awaited<ReturnType<ConsoleData["uses"]>>;

/** Content of a page. */
export interface Page {
  /** Title. */
  readonly title: string;
  /** Name of the page in the navigation. */
  readonly at?: string | undefined;
  /** Content. */
  readonly body: Html;
  /** True if the page has a part that refreshes itself. */
  readonly isLive?: boolean | undefined;
  /** True if it has what a sender or a handler has written, or may have it. It is not compressed. */
  readonly isPrivate?: boolean | undefined;
  /** Flaw of the form that is shown again, for people: the answer has the status 400. */
  readonly flaw?: string | undefined;
}

/** Request of a reader whose session is valid. */
export interface Visit {
  readonly data: ConsoleData;
  readonly context: PageContext & { readonly session: Session };
  /** Parameters of the page, or fields of the form. */
  readonly parameters: URLSearchParams;
  /** True if the page only refreshes itself. */
  readonly isPoll: boolean;
  /** Session and address of the reader, for people: `operator 3f2a from 203.0.113.7`. */
  readonly by: string;
}

/** Answer to a visit: a page, or a response that is none. */
export type Answering = (visit: Visit) => Promise<Page | Response> | Page | Response;

/** Answers to an operator who sends examples: the page, and what follows its form. */
export interface SendAnswers {
  readonly page: Answering;
  readonly form: Answering;
  /** Largest form. */
  readonly maxBytes: number;
}

/** Names of the kinds of acts for people. */
export const KIND_NAMES: Readonly<Record<ActKind | DeedKind, string>> = {
  ...{ replay: "Replay", cancel: "Cancel", purge: "Purge" },
  ...{ wake: "Wake", answer: "Answer", repeat: "Repeat from a step", run: "Run now" },
  ...{ pause: "Pause", resume: "Resume", forget: "Delete a state" },
};

/** Tells whether a reader may act. */
export const isOperator = ({ session }: PageContext): boolean => session?.role === "operator";

/** Makes a whole page. */
export function layout(context: PageContext, { title, at, body, isLive }: Page): Html {
  const { name, environment, session, sendsExamples } = context;
  const { waits = true, schedules = true, states = true, limits = true } = context.uses ?? {};
  const pages = [
    ...[["", "Overview"], ["problems", "Problems"], ["deliveries", "Deliveries"]] as const,
    ["running", "Running"] as const,
    ...waits ? [["parked", "Parked"] as const] : [],
    ...schedules ? [["schedules", "Schedules"] as const] : [],
    ...states ? [["states", "States"] as const] : [],
    ...limits ? [["limits", "Limits"] as const] : [],
    ["acts", "Acts"] as const,
  ];
  const all = sendsExamples && isOperator(context) ? [...pages, ["send", "Send"] as const] : pages;
  const shownName = shown(name, 60);
  return html`
    <!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8">
        <title>${title} · ${shownName}</title>
        <meta name="viewport" content="width=device-width,initial-scale=1">
        <meta name="robots" content="noindex">
        <link rel="stylesheet" href="${ASSETS.style.name}">
        <link rel="icon" href="${ASSETS.icon.name}">
        <script src="${ASSETS.script.name}" defer></script>
      </head>
      <body>
    <a class="skip" href="#main">Skip to the content</a>
    ${session &&
      html`
        <header class="top">
          <div><span class="brand">${shownName}${environment &&
            html`<span class="badge">${shown(environment)}</span>`}</span>
        <nav aria-label="Pages">${all.map(([page, text]) =>
          html`<a href="${link(page)}" ${current(page === at, "page")}>${text}</a>`
        )}</nav>
        <div class="who">${isLive &&
          html`<button class="text" type="button" data-pause aria-pressed="false" hidden>Pause</button>
<span class="dim" role="status"></span>`}<span class="role">${session.role}</span>
        <form method="post" action="logout"><button class="text">Log out</button></form></div></div>
        </header>
      `}
    <main id="main">${body}</main></body>
    </html>
  `;
}

/** Marks the current one of several links. */
export const current = (isCurrent: boolean, value = "true"): Html =>
  raw(isCurrent ? `aria-current="${value}"` : "");

/** Makes the attribute with the class of an element, if it has one. */
const classed = (style = ""): Html => raw(style && ` class="${style}"`);

/** Content of a part of a page: nothing if it is undefined, false or null. */
export type Content = Html | string | undefined | false | null | readonly Content[];

/**
 * Makes an element.
 *
 * @param name Its name, and behind dots its classes.
 * @param content What is in it.
 * @returns The element.
 */
export function tag(name: string, ...content: readonly Content[]): Html {
  const [element, ...styles] = name.split(".");
  const begin = html`${raw(`<${element}`)}${classed(styles.join(" "))}>`;
  return html`${begin}${content}${raw(`</${element}>`)}`;
}

/** Makes a text that is less important. */
export const dim = (content: Content): Html => tag("span.dim", content);

/** Makes the part of a page that refreshes itself: often, seldom, not any more, or never. */
export const live = (
  pace: "often" | "rest" | "end" | undefined,
  ...content: readonly Content[]
): Html => html`<div${raw(pace ? ` data-live="${pace}"` : "")}>${content}</div>`;

/** Makes a less important text that stands beside another one. */
export const beside = (content: Content): Content => content && [" ", dim(content)];

/** Makes a link to a page. */
export const a = (to: string, text: Content, style?: string): Html =>
  html`<a${classed(style)} href="${to}">${text}</a>`;

/** Makes a list of facts, each with its name and perhaps a class, without those that have no content. */
export function facts(list: readonly (readonly [string, Content, style?: string])[]): Html {
  const known = list.filter(([, value]) => (value ?? false) !== false && value !== "");
  return tag(
    "dl",
    known.flatMap(([name, value, style = ""]) => [tag("dt", name), tag(`dd${style}`, value)]),
  );
}

/** Makes a cell of a table, which may be as wide as several. */
export const td = (content: Content, style?: string, span = 1): Html =>
  html`<td${classed(style)}${raw(span > 1 ? ` colspan="${span}"` : "")}>${content}</td>`;

/**
 * Makes a table that scrolls in itself, also by keyboard. Its rows have no end tags, as HTML allows: a page may have a
 * hundred.
 *
 * @param label Name of the table.
 * @param columns The columns by their names, each with its class.
 * @param rows The cells of each row.
 * @param parts The class, which is `cards` if each row is a card on a phone, and what to say without rows.
 * @returns The table.
 */
export function table(
  label: string,
  columns: Readonly<Record<string, string>>,
  rows: readonly (readonly Html[])[],
  { style, empty }: { readonly style?: string; readonly empty?: string } = {},
): Html {
  const names = Object.entries(columns);
  const headings = names.map(([name, style]) =>
    raw(`<th scope="col" class="${style}">${name}</th>`)
  );
  const nothing = [td(empty, "dim", names.length)];
  const isCard = rows.length > 0 && style?.split(" ").includes("cards");
  return html`
    <div class="scroll" tabindex="0" role="group" aria-label="${label}">
      <table${classed(style)}>
        <thead>
          <tr>${headings}</tr>
        </thead>
        <tbody>${(rows.length === 0 ? [nothing] : rows).map((cells) =>
          html`<tr>${isCard ? labelled(cells, names) : cells}`
        )}</tbody>
        </table>
        </div>
  `;
}

/** Names the cells of a row, but for the first one and for acts: on a phone it is a card, below no heading. */
const labelled = (cells: readonly Html[], names: readonly (readonly [string, string])[]): Html[] =>
  cells.map((cell, i) => {
    const [name] = names[i]!;
    return i === 0 || name === "act"
      ? cell
      : raw(String(cell).replace("<td", `<td data-label="${name}"`));
  });

/** Makes a box that tells what has happened. */
export const note = (role: "alert" | "status", isBad: boolean, ...content: readonly Content[]) =>
  html`<div class="note${isBad && " bad"}" role="${role}">${content}</div>`;

/** Makes the body of a page that says what is wrong. */
export function messagePage({ title, message }: Refusal, isKnown: boolean): Html {
  const back = isKnown && tag("p", a("./", "Overview"));
  return html`${tag("h1", title)}${note("alert", true, tag("p", message), back)}`;
}

/** Makes buttons that lead to the questions before acts. */
export const actLinks = (kinds: readonly ActKind[], choice: object): Html[] =>
  kinds.map((kind) => a(link("act", { kind, ...choice }), `${KIND_NAMES[kind]}…`, "button"));
