import { html, raw } from "@hono/hono/html";
import { ASSETS } from "./_assets.ts";
import type { ActKind } from "./_console_data.ts";
import { type Html, shown } from "./_format.ts";
import type { Session } from "./_session.ts";
import { MAX_TOKEN_LENGTH } from "./_tokens.ts";

/** Parts that every page shows. */
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
}

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
}

/** Names of the kinds of acts for people. */
export const KIND_NAMES: Readonly<Record<ActKind, string>> = {
  ...{ replay: "Replay", cancel: "Cancel", purge: "Purge" },
};

/** Makes a whole page. */
export function layout(context: PageContext, { title, at, body, isLive }: Page): Html {
  const { name, environment, session, sendsExamples } = context;
  const pages = [["", "Overview"], ["deliveries", "Deliveries"], ["acts", "Acts"]];
  if (sendsExamples && session?.role === "operator") pages.push(["send", "Send"]);
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
            html`<span class="badge">${shown(environment, 40)}</span>`}</span>
        <nav aria-label="Pages">${pages.map(([page, text]) =>
          html`
            <a href="${page || "./"}" ${raw(page === at ? ' aria-current="page"' : "")}>${text}</a>
          `
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

/** Makes the body of a page that says what is wrong. */
export function messagePage(title: string, text: string, isKnown = true): Html {
  return html`
    <h1>${title}</h1>
    <div class="note bad" role="alert"><p>${text}</p>${isKnown &&
      html`<p><a href="./">Overview</a></p>`}</div>
  `;
}

/** Makes the body of the login page. */
export function loginPage(
  name: string,
  next: string | undefined,
  flaw: string | undefined,
): Html {
  return html`<div class="login"><h1>${shown(name, 60)}</h1>
${
    flaw && html`
      <div class="note bad" role="alert">
        <p>${flaw}</p>
      </div>
    `
  }
${
    next && !flaw &&
    html`<p class="dim">Logged in already? <a data-next href="${next}">Go on to the page</a></p>`
  }
<form method="post" action="login">
<input type="text" autocomplete="username" value="${name}" hidden>
<label for="token">Token of a viewer or an operator</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus maxlength="${MAX_TOKEN_LENGTH}">
${next && html`<input type="hidden" name="next" value="${next}">`}
<button class="go">Log in</button></form></div>`;
}
